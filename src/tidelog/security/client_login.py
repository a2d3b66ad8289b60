"""The client's part of a login on a connection: the requests to send, until the server is content.

SaslHandshake names the mechanism, SaslAuthenticate carries the messages (KIP-152). The shell sends
what `start` and `on_frame` give, each when the answer to the one before has come.

Source: KIP-43, KIP-152, KIP-368; Kafka's `SaslClientAuthenticator`.
"""

from typing import Final

from tidelog.env.disk import Buffer
from tidelog.errors import ErrorCode, MalformedFrame
from tidelog.security.listener_logins import OwnLogin
from tidelog.security.sasl import AuthenticationFailed
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import error_of, to_millis

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2


class LoginRefused(Exception):
    """The server does not let us in, or is not the one that it claims to be."""


class ClientLogin:
    """One login, from its first request to its last answer."""

    def __init__(self, own: OwnLogin, client_id: str) -> None:
        self._own = own
        # The name that the requests carry.
        self._client_id = client_id
        # The dialogue of the mechanism.
        self._client = own.begin()
        # Requests sent so far; the last one waits for its answer.
        self._sent = 0
        # How long the session lasts from the last answer on; 0 is for ever.
        self.session_ms = 0

    def start(self) -> bytes:
        """The first request, framed."""
        request_type = codec.request_class(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION)
        return self._framed(make(request_type, mechanism=str(self._own.mechanism)))

    def on_frame(self, frame: Buffer) -> bytes | None:
        """The answer to the newest request; the next one, framed, or `None` when the login is
        complete. Raises `LoginRefused` and `MalformedFrame`."""
        try:
            return self._on_frame(frame)
        except AuthenticationFailed as failure:
            raise LoginRefused(failure.reason) from None

    def _on_frame(self, frame: Buffer) -> bytes | None:
        if self._sent == 1:
            self._on_handshake(self._decoded(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, frame))
            return self._authenticate(self._client.respond(b""))
        answer = self._decoded(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, frame)
        code = error_of(answer.error_code)
        if code is not ErrorCode.NONE:
            raise LoginRefused(f"{code.name}: {(answer.error_message or '')[:200]}")
        token = self._client.respond(answer.auth_bytes)
        if not self._client.is_complete:
            return self._authenticate(token)
        self.session_ms = max(0, _session_ms(answer))
        return None

    def _on_handshake(self, answer: Entity) -> None:
        code = error_of(answer.error_code)
        if code is not ErrorCode.NONE:
            offered = ", ".join(answer.mechanisms)[:200]
            raise LoginRefused(f"{code.name}: the listener has {offered or 'no logins'}")

    def _authenticate(self, token: bytes) -> bytes:
        request_type = codec.request_class(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION)
        return self._framed(make(request_type, auth_bytes=token))

    def _framed(self, request: Entity) -> bytes:
        self._sent += 1
        return codec.encode_request(request, self._sent, self._client_id)

    def _decoded(self, api_key: ApiKey, version: int, frame: Buffer) -> Entity:
        correlation_id, answer = codec.decode_response(api_key, version, frame)
        if correlation_id != self._sent:
            raise MalformedFrame(f"an answer to request {correlation_id}, not {self._sent}")
        return answer


def _session_ms(answer: Entity) -> int:
    lifetime = answer.session_lifetime
    return lifetime if isinstance(lifetime, int) else to_millis(lifetime)
