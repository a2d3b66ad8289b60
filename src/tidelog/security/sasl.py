"""SASL: how a client of a listener proves who it is. What all mechanisms have in common.

A login is a dialogue of byte strings, which the server's side of a mechanism judges and the
client's side answers. The broker's part in it, which requests carry the strings and what a failure
does to the connection, is `broker/logins.py`; the client's part is `client_login.py`.

Theory. SASL (RFC 4422) separates the proof of an identity from the protocol that needs one. Kafka
has PLAIN (RFC 4616), which shows the password, SCRAM (RFC 5802), which shows neither the password
to the server nor anything to a listener with which to log in, and OAUTHBEARER (RFC 7628), which
shows a token of a third party.

A failed login says nothing about its reason to the client, except what its own message said
wrongly; the operator reads the reason in the node's log.

Left out: GSSAPI, which needs Kerberos.
"""

from typing import Protocol


class AuthenticationFailed(Exception):
    """A login that fails."""

    def __init__(self, reason: str, message: str = "") -> None:
        """`reason` is for the node's log; `message` for the client, which gets the usual sentence
        if it is empty."""
        super().__init__(reason)
        self.reason = reason
        self.message = message


class SaslServer(Protocol):
    """The server's side of one login."""

    @property
    def authenticated(self) -> str | None:
        """The name that the client has proved to have; `None` before."""

    @property
    def ends_at_wall_ms(self) -> int | None:
        """When what has proved that name ends, and the session with it; `None`: never."""

    @property
    def is_delegated(self) -> bool:
        """Whether a delegation token of that user has proved it, and not the user."""

    def respond(self, token: bytes) -> bytes:
        """The answer to what the client says. Raises `AuthenticationFailed`."""


class SaslClient(Protocol):
    """The client's side of one login."""

    @property
    def is_complete(self) -> bool:
        """Whether the server has proved what it must, and no answer is due."""

    def respond(self, challenge: bytes) -> bytes:
        """What to say next; the first challenge is empty. Raises `AuthenticationFailed` for a
        server that does not know the secret."""
