"""The logins of accepted connections: what is taken before one, and what a failure does.

On a listener with SASL a connection has no principal at first. `admits` looks at each frame before
the router does, and lets through what the connection's phase allows (`login.py`). Anything else
closes the connection, mostly without an answer, as in Kafka. So no request of a stranger reaches a
handler, except for the three that make a login.

A failed login is answered, and the connection closed, after
`connection.failed.authentication.delay.ms`: who guesses passwords waits for each of them. A
connection without a login is closed after `limits.LOGIN_DEADLINE_MS`, and when there are too many
of them, of one address or in all, the oldest is. Where a session has an end, the client logs in
again on the open connection, as the same principal and by the same mechanism.

Invariant *NothingBeforeAuthentication*: a connection of a listener with logins that has none has no
principal, and of its requests only ApiVersions, SaslHandshake and SaslAuthenticate were taken.

Invariant *EveryRequestIsAnsweredOrClosed*, before a login: a request is answered in the turn in
which it is handled, or its refusal waits for the delay, or the connection is closed.

Left out: TLS and client certificates, which are the driver's.

Source: KIP-43, KIP-152, KIP-306, KIP-368; Kafka's `SaslServerAuthenticator`.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from tidelog.broker.connections import Connection, Connections, RequestContext
from tidelog.broker.events import LoggedIn, LoginFailed
from tidelog.broker.login import Login, Phase
from tidelog.config import BrokerConfig
from tidelog.env.instant import Instant, earliest
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.limits import (
    LOGIN_DEADLINE_MS,
    MAX_LOGIN_FRAME_BYTES,
    MAX_UNAUTHENTICATED_CONNECTIONS,
    MAX_UNAUTHENTICATED_PER_HOST,
)
from tidelog.model import ANONYMOUS, Mechanism, Principal
from tidelog.security.listener_logins import ListenerLogins
from tidelog.security.sasl import AuthenticationFailed, SaslServer
from tidelog.wire.api import ApiKey, RequestHeader

MIN_REAUTHENTICATION_MS: Final = 1000
"""A client does not log in again more often."""

_KEY_AND_VERSION: Final = Struct(">hh")
_VERSIONS: Final = {int(ApiKey.SASL_HANDSHAKE): (0, 1), int(ApiKey.SASL_AUTHENTICATE): (0, 1, 2)}
_API_KEYS: Final = frozenset(map(int, ApiKey))
_BEFORE_LOGIN: Final = frozenset(
    (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE)
)
_RAW_HEADER: Final = RequestHeader(ApiKey.SASL_AUTHENTICATE, 0, 0, None)
_IN_PHASE: Final = {
    Phase.NEW: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE),
    Phase.GREETED: (ApiKey.SASL_HANDSHAKE,),
    # The first two are answered by an error.
    Phase.TOKENS: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
}


class Step(NamedTuple):
    """What came of a step of a login."""

    code: ErrorCode = ErrorCode.NONE
    message: str = ""
    token: bytes = b""
    mechanisms: tuple[str, ...] = ()
    session_ms: int = 0
    fails: bool = False
    """Whether the answer is late, and the connection's last."""
    is_answered: bool = True
    """Whether there is an answer at all."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A failed login that waits for the delay."""

    at: Instant
    connection: Connection
    context: RequestContext | None
    answer: bytes | None


class Logins:
    """The logins of one node's accepted connections."""

    def __init__(
        self,
        connections: Connections,
        listeners: Mapping[str, ListenerLogins],
        config: BrokerConfig,
        trace: Trace,
    ) -> None:
        self._connections = connections
        # The listeners with logins, by name.
        self.listeners = listeners
        self._config = config
        self._trace = trace
        # Wall time in ms = `now` + this.
        self.wall_offset_ms = 0
        # Failed logins, in the order of their ends.
        self._refusals: deque[_Refusal] = deque()
        # Logins by the name of the listener.
        self.succeeded: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    # Connections ---------------------------------------------------------------------------

    def on_opened(self, connection: Connection, now: Instant) -> None:
        """A peer connected; whether it must log in depends on the listener."""
        of_listener = self.listeners.get(connection.listener)
        if of_listener is None:
            return
        connection.login = Login(of_listener, now)
        connection.frames.allow(min(self._config.sasl_max_receive_bytes, MAX_LOGIN_FRAME_BYTES))
        strangers, host = self._connections.unauthenticated, connection.peer_host
        same: list[Connection] = []
        if len(strangers) >= MAX_UNAUTHENTICATED_PER_HOST:
            same = [each for each in strangers.values() if each.peer_host == host]
        if len(same) >= MAX_UNAUTHENTICATED_PER_HOST:
            self._close(same[0], "too many connections of this address without one")
        elif len(strangers) >= MAX_UNAUTHENTICATED_CONNECTIONS:
            self._close(next(iter(strangers.values())), "too many connections without one")
        strangers[connection.connection_id] = connection

    def admits(self, connection: Connection, login: Login, frame: memoryview, now: Instant) -> bool:
        """Whether the router may handle this frame. If not, it was handled here."""
        phase = login.phase
        if phase is Phase.REFUSED:
            return False
        if phase is Phase.RAW_TOKENS:
            self._on_raw_token(connection, login, bytes(frame), now)
            return False
        key, version = (
            _KEY_AND_VERSION.unpack_from(frame) if len(frame) >= _KEY_AND_VERSION.size else (-1, -1)
        )
        if phase is Phase.READY:
            if login.expires_at is None or now < login.expires_at or key == ApiKey.SASL_HANDSHAKE:
                return True
            self._close(connection, "the session has ended")
            return False
        if version not in _VERSIONS.get(key, (version,)):
            key = -1
        if key in _IN_PHASE[phase]:
            return True
        if phase is Phase.TOKENS and key in _API_KEYS:
            self._refuse(connection, f"API `{key}` in the middle of a login", now)
        else:
            self._close(connection, f"API `{key}` before a login")
        return False

    def _close(self, connection: Connection, reason: str) -> None:
        """At once, without an answer."""
        self._report(connection, reason)
        self._connections.drop(connection)

    # Steps of a login ----------------------------------------------------------------------

    def handshake(self, context: RequestContext, name: str, now: Instant) -> Step:
        """The client chooses a mechanism."""
        connection, login = context.connection, context.connection.login
        if login is None:
            return Step(ErrorCode.ILLEGAL_SASL_STATE)
        if login.phase is Phase.TOKENS:
            return self._failed(connection, "a second SaslHandshake", ErrorCode.ILLEGAL_SASL_STATE)
        if login.phase is Phase.READY and (
            login.expires_at is None or now - login.began_at < MIN_REAUTHENTICATION_MS
        ):
            return Step(ErrorCode.ILLEGAL_SASL_STATE)
        mechanisms = login.of_listener.mechanisms
        if name not in mechanisms:
            self._report(connection, f"the mechanism `{name[:40]}` is not enabled")
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return Step(code, mechanisms=mechanisms, fails=True)
        login.mechanism = Mechanism(name)
        login.server = login.of_listener.begin(login.mechanism, now + self.wall_offset_ms)
        login.began_at = now
        is_raw = context.header.api_version == 0
        login.phase = Phase.RAW_TOKENS if is_raw else Phase.TOKENS
        return Step(mechanisms=mechanisms)

    def authenticate(self, context: RequestContext, token: bytes, now: Instant) -> Step:
        """The client's next message."""
        connection, login = context.connection, context.connection.login
        if login is None or login.phase is not Phase.TOKENS:
            return Step(ErrorCode.ILLEGAL_SASL_STATE, "it is not the time for a login")
        return self._advance(connection, login, token, now)

    def illegal_greeting(self, context: RequestContext) -> Step | None:
        """What ApiVersions in the middle of a login comes to; `None` if it is in its place."""
        login = context.connection.login
        if login is None or login.phase is not Phase.TOKENS:
            return None
        reason = "ApiVersions in the middle of a login"
        return self._failed(context.connection, reason, ErrorCode.ILLEGAL_SASL_STATE)

    def on_greeted(self, context: RequestContext) -> None:
        """ApiVersions was answered well."""
        login = context.connection.login
        if login is not None and login.phase is Phase.NEW:
            login.phase = Phase.GREETED

    def answer(self, context: RequestContext, step: Step, framed: bytes, now: Instant) -> None:
        """Answers a request of a login, at once or after the delay."""
        if step.fails:
            answer = framed if step.is_answered else None
            self._put_off(_Refusal(self._answer_at(now), context.connection, context, answer))
        else:
            context.fill([framed])

    def _on_raw_token(
        self, connection: Connection, login: Login, token: bytes, now: Instant
    ) -> None:
        context = self._connections.admit(connection, _RAW_HEADER)
        step = self._advance(connection, login, token, now)
        if step.fails:
            self._put_off(_Refusal(self._answer_at(now), connection, context, None))
        else:
            context.fill([len(step.token).to_bytes(4) + step.token])

    def _advance(self, connection: Connection, login: Login, token: bytes, now: Instant) -> Step:
        assert login.server is not None, "a token before a handshake"
        if login.is_again and login.mechanism is not login.first_mechanism:
            step = self._failed(connection, "another mechanism than before", ErrorCode.NONE)
            return Step(fails=step.fails, is_answered=False)
        try:
            answer = login.server.respond(token)
        except AuthenticationFailed as failure:
            return self._denied(connection, login, failure.reason, failure.message)
        if login.server.authenticated is None:
            return Step(token=answer)
        principal = Principal("User", login.server.authenticated)
        if login.is_again and principal != connection.principal:
            message = (
                "Cannot change principals during re-authentication from "
                f"{_dotted(connection.principal)}: {_dotted(principal)}"
            )
            return self._denied(connection, login, "another principal than before", message)
        lifetime_ms = self._lifetime_ms(login, login.server, now)
        if lifetime_ms is None:
            return self._denied(connection, login, "a token that has expired", "")
        self._complete(connection, login, principal, lifetime_ms, now)
        return Step(token=answer, session_ms=lifetime_ms)

    def _lifetime_ms(self, login: Login, server: SaslServer, now: Instant) -> int | None:
        """How long a session lasts, at most as long as what has proved the name: 0 is for ever,
        `None` that it is over."""
        assert login.mechanism is not None, "a login without a mechanism"
        lifetime_ms = login.of_listener.session_ms.get(login.mechanism, 0)
        if server.ends_at_wall_ms is None:
            return lifetime_ms
        rest_ms = server.ends_at_wall_ms - (now + self.wall_offset_ms)
        return min(lifetime_ms or rest_ms, rest_ms) if rest_ms > 0 else None

    def _complete(
        self,
        connection: Connection,
        login: Login,
        principal: Principal,
        lifetime_ms: int,
        now: Instant,
    ) -> None:
        """The client has proved who it is."""
        assert login.mechanism is not None, "a login without a mechanism"
        assert login.server is not None, "a login that did not begin"
        connection.is_delegated = login.server.is_delegated
        login.phase = Phase.READY
        login.server = None
        login.first_mechanism = login.mechanism
        login.expires_at = Instant(now + lifetime_ms) if lifetime_ms else None
        connection.principal = principal
        connection.frames.allow(self._config.max_request_bytes)
        self._connections.unauthenticated.pop(connection.connection_id, None)
        self.succeeded[connection.listener] += 1
        self._trace.event(
            LoggedIn(
                connection_id=connection.connection_id,
                principal=str(principal),
                mechanism=str(login.mechanism),
                peer=connection.peer_host,
            )
        )

    # Failures ------------------------------------------------------------------------------

    def _denied(self, connection: Connection, login: Login, reason: str, message: str) -> Step:
        when = "re-authentication" if login.is_again else "authentication"
        usual = (
            f"Authentication failed during {when} due to invalid credentials with SASL mechanism "
            f"{login.mechanism}"
        )
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return self._failed(connection, reason, code, message or usual)

    def _failed(
        self, connection: Connection, reason: str, code: ErrorCode, message: str = ""
    ) -> Step:
        self._report(connection, reason)
        return Step(code, message, fails=True)

    def _refuse(self, connection: Connection, reason: str, now: Instant) -> None:
        """Closes the connection after the delay, without an answer."""
        self._report(connection, reason)
        self._put_off(_Refusal(self._answer_at(now), connection, None, None))

    def _report(self, connection: Connection, reason: str) -> None:
        login = connection.login
        assert login is not None, "a login fails where there is none"
        self.failed[connection.listener] += 1
        self._trace.event(
            LoginFailed(
                connection_id=connection.connection_id,
                reason=reason,
                listener=connection.listener,
                mechanism=str(login.mechanism or ""),
                peer=connection.peer_host,
            )
        )

    def _put_off(self, refusal: _Refusal) -> None:
        assert refusal.connection.login is not None, "a login fails where there is none"
        refusal.connection.login.phase = Phase.REFUSED
        self._refusals.append(refusal)

    def _answer_at(self, now: Instant) -> Instant:
        return Instant(now + self._config.failed_login_delay_ms)

    # Time ----------------------------------------------------------------------------------

    def flow(self, now: Instant) -> bool:
        """Ends failed logins and connections that have not logged in by their deadline."""
        while self._refusals and self._refusals[0].at <= now:
            self._end(self._refusals.popleft())
        while (oldest := self._oldest) is not None and _deadline_of(oldest) <= now:
            self._close(oldest, "no login in time")
        return False

    def _end(self, refusal: _Refusal) -> None:
        context, answer = refusal.context, refusal.answer
        if context is None or answer is None:
            self._connections.drop(refusal.connection)
        else:
            context.closes = True
            context.fill([answer])

    @property
    def _oldest(self) -> Connection | None:
        return next(iter(self._connections.unauthenticated.values()), None)

    def deadline(self) -> Instant | None:
        """When `flow` has something to do."""
        oldest = self._oldest
        return earliest(
            self._refusals[0].at if self._refusals else None,
            None if oldest is None else _deadline_of(oldest),
        )

    def check(self) -> None:
        """NothingBeforeAuthentication, and EveryRequestIsAnsweredOrClosed for strangers."""
        refused = {refusal.connection.connection_id for refusal in self._refusals}
        unauthenticated = self._connections.unauthenticated
        assert len(unauthenticated) <= MAX_UNAUTHENTICATED_CONNECTIONS, "too many strangers"
        for connection in unauthenticated.values():
            login = connection.login
            assert login is not None, f"{connection.connection_id} needs no login"
            assert login.phase is not Phase.READY, f"{connection.connection_id} has logged in"
            assert connection.principal is ANONYMOUS, f"{connection.principal} has not logged in"
            for context in connection.slots:
                key = context.header.api_key
                assert key in _BEFORE_LOGIN, f"{key.name} was taken before a login"
            is_ending = connection.connection_id in refused
            assert is_ending is (login.phase is Phase.REFUSED), "a refusal that does not come"
            assert is_ending or all(context.answered for context in connection.slots), (
                f"{connection.connection_id} waits for an answer"
            )


def _deadline_of(connection: Connection) -> Instant:
    assert connection.login is not None, "a connection that needs no login"
    return Instant(connection.login.opened_at + LOGIN_DEADLINE_MS)


def _dotted(principal: Principal) -> str:
    """As Kafka writes it in this one message."""
    return f"{principal.principal_type}.{principal.name}"
