"""How a client reaches a cluster whose listeners are protected: Kafka's client properties.

`security.protocol` and the `ssl.*` names mean what they mean to Kafka's own clients; a file for
`kafka-topics.sh --command-config` serves here too. What concerns other things, like `acks`, is not
looked at. Nothing is read from disk until the first connection, so an object of this may travel to
another process.

`ClientSecurity` opens sockets; what speaks Kafka's protocol over them is the same with and without
TLS. A login by SASL (`sasl.mechanism`, `sasl.jaas.config`) is the next step after `connect`; the
exchange of requests takes it.
"""

import secrets
import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidelog.client.core.errors import AuthenticationFailed, Unreachable
from tidelog.client.core.values import Address
from tidelog.env.entropy import SEED_BITS
from tidelog.errors import UsageError
from tidelog.model import Mechanism, Secret, SecurityProtocol

if TYPE_CHECKING:
    from tidelog.client.tokens import OwnToken
    from tidelog.config.values import TlsConfig
    from tidelog.security.client_login import ClientLogin
    from tidelog.security.listener_logins import OwnLogin

PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
LOGIN: Final = (_MECHANISM, _JAAS)
"""The properties of a login."""
TOKEN_LOGIN: Final = (
    *("sasl.login.callback.handler.class", "sasl.oauthbearer.jwt.retriever.class"),
    *("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.credentials.client.id"),
    *("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.scope"),
    *("sasl.oauthbearer.header.urlencode", "sasl.login.retry.backoff.ms"),
    "sasl.login.retry.backoff.max.ms",
)
"""Those that say where a login by OAUTHBEARER has its token from."""


class ClientSecurity:
    """What connections of a client obey. Equal settings make equal objects."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """From Kafka's client properties. Raises `UsageError`."""
        # As they were given; passwords among them, so they are never printed.
        self._settings = dict(settings or {})
        # How bytes are protected, and whether a login follows.
        self.protocol = _protocol(self._settings.get(PROTOCOL, "PLAINTEXT"))
        # What TLS obeys; `None` without TLS, which saves the imports.
        self._tls = _tls(self._settings) if self.protocol.uses_tls else None
        # How it logs in; `None` where it does not.
        self._own = _own_login(self._settings) if self.protocol.uses_sasl else None
        # Where its tokens come from; `None` where it logs in by something else.
        self._token = None if self._own is None else _own_token(self._settings, self._own)
        # Made for the first connection, for all of them.
        self._context: ssl.SSLContext | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientSecurity) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash(frozenset(self._settings.items()))

    def __repr__(self) -> str:
        return f"ClientSecurity({self.protocol.name})"

    def __reduce__(self) -> tuple[type["ClientSecurity"], tuple[dict[str, str]]]:
        return ClientSecurity, (self._settings,)

    @property
    def takes_token(self) -> bool:
        """Whether it logs in by a token."""
        return self._token is not None

    @property
    def settings(self) -> Mapping[str, str]:
        """The properties as they were given, passwords among them."""
        return self._settings

    @classmethod
    def with_context(cls, context: ssl.SSLContext) -> "ClientSecurity":
        """TLS with a context that exists: a node's, for connections to its own cluster."""
        made = cls()
        made.protocol, made._context = SecurityProtocol.SSL, context
        return made

    @property
    def context(self) -> ssl.SSLContext | None:
        """What TLS obeys; `None` without TLS. Raises `UsageError` for stores that cannot be
        used."""
        if self._context is None and self._tls is not None:
            from tidelog.tls.contexts import client_context

            self._context = client_context(self._tls)
        return self._context

    def login(self, client_id: str) -> "ClientLogin | None":
        """The login of a new connection; `None` where there is none. One by OAUTHBEARER may wait
        for the issuer. Raises `AuthenticationFailed` where there is no token."""
        if self._own is None:
            return None
        from tidelog.security.client_login import ClientLogin

        if self._token is not None:
            self._own.token = self._fresh_token(self._token)
        return ClientLogin(self._own, client_id)

    @staticmethod
    def _fresh_token(token: "OwnToken") -> Secret:
        from tidelog.client.web import FetchFailed

        try:
            return token.get()
        except FetchFailed as error:
            raise AuthenticationFailed(
                f"this client has no token to log in with: {error}",
                "check `sasl.oauthbearer.token.endpoint.url`, and the client's id and secret",
            ) from None

    def connect(self, address: Address, timeout_s: float) -> socket.socket:
        """A connected socket, its handshake done. Raises `Unreachable`, `AuthenticationFailed`
        where one side does not accept the other, and `UsageError` for stores that cannot be
        used."""
        context = self.context
        try:
            sock = socket.create_connection(address, timeout_s)
        except OSError as error:
            raise Unreachable(f"broker `{address}` cannot be reached: {error}") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return sock
        try:
            return context.wrap_socket(sock, server_hostname=address.host)
        except OSError as error:
            sock.close()
            raise tls_failure(address, error) from None


def user_of(jaas: str) -> tuple[str, str]:
    """The name and the password in a value of `sasl.jaas.config`. Raises `UsageError`."""
    from tidelog.security.jaas import parse_jaas

    login = parse_jaas(Secret(jaas), _JAAS)
    return login.option("username"), login.option("password")


def tls_failure(address: Address, error: OSError) -> Unreachable | AuthenticationFailed:
    """Why a handshake failed: what another attempt cannot change is an `AuthenticationFailed`."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(
            f"the certificate of broker `{address}` is not accepted: {error.verify_message}",
            "check `ssl.truststore.location`, and that the address is a name in the certificate",
        )
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        if "alert" in reason and "internal" not in reason:
            return AuthenticationFailed(
                f"broker `{address}` refused the TLS handshake: {reason}",
                "the broker's log names the reason; `ssl.keystore.location` has the certificate "
                "that this client shows",
            )
        return Unreachable(f"broker `{address}`: the TLS handshake failed: {reason}")
    return Unreachable(f"broker `{address}`: the TLS handshake failed: {error or 'timed out'}")


def _own_login(settings: Mapping[str, str]) -> "OwnLogin":
    from tidelog.config.sasl import parse_mechanism
    from tidelog.config.values import JaasSetting
    from tidelog.security.listener_logins import NodeSecrets, OwnLogin

    mechanism = parse_mechanism(settings.get(_MECHANISM, "GSSAPI"), _MECHANISM)
    node_secrets = NodeSecrets.from_seed(secrets.randbits(SEED_BITS))
    if _JAAS not in settings:
        if mechanism is Mechanism.OAUTHBEARER:
            return OwnLogin(mechanism, None, node_secrets)
        hint = f'add `{_JAAS}=… required username="NAME" password="PASSWORD";`'
        raise UsageError(f"`{_JAAS}` is missing, and the listener asks for a login", hint)
    setting = JaasSetting(_JAAS, Secret(settings[_JAAS]))
    return OwnLogin(mechanism, setting, node_secrets)


def _own_token(settings: Mapping[str, str], own: "OwnLogin") -> "OwnToken | None":
    if own.mechanism is not Mechanism.OAUTHBEARER:
        return None
    from tidelog.client.tokens import OwnToken, TokenSource
    from tidelog.config.token_properties import resolve_token_origin

    return OwnToken(TokenSource(resolve_token_origin(settings), own.jaas))


def _tls(settings: Mapping[str, str]) -> "TlsConfig":
    from tidelog.config.tls_properties import resolve_tls

    return resolve_tls(settings)


def _protocol(text: str) -> SecurityProtocol:
    name = text.strip().upper()
    if name in SecurityProtocol.__members__:
        return SecurityProtocol[name]
    names = ", ".join(SecurityProtocol.__members__)
    raise UsageError(f"`security.protocol` is `{text}`", f"use one of {names}")


PLAINTEXT: Final = ClientSecurity()
"""Of a cluster without protection."""
