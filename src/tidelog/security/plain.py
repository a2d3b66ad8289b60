"""PLAIN: the client shows its name and its password (RFC 4616).

The message is an authorization id, the name and the password with a zero byte between them. The
password can be read on the way, so PLAIN belongs on SASL_SSL.

The server keeps no password in the clear: it compares keyed digests, which have equal length, in a
time that does not depend on where they differ. An unknown name costs a comparison too.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from tidelog.model import Secret
from tidelog.security.sasl import AuthenticationFailed

_PREFIX: Final = "Authentication failed: "
_PARTS: Final = 3
USER_OPTION: Final = "user_"
"""The option `user_NAME` of the server's JAAS string is the password of `NAME`."""


class PlainUsers:
    """Who may log in, and digests of their passwords."""

    def __init__(self, options: Mapping[str, Secret], key: bytes) -> None:
        # Makes the digests worthless elsewhere; drawn by each process.
        self._key = key
        # Of each user.
        self._digests = {
            name.removeprefix(USER_OPTION): self._digest(password.reveal())
            for name, password in options.items()
            if name.startswith(USER_OPTION)
        }

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), hashlib.sha256)

    def knows(self, name: str, password: str) -> bool:
        """Whether this is the user's password."""
        expected = self._digests.get(name)
        is_equal = hmac.compare_digest(expected or bytes(32), self._digest(password))
        return is_equal and expected is not None


class PlainServer:
    """The server's side; one message decides."""

    def __init__(self, users: PlainUsers) -> None:
        # Who may log in.
        self._users = users
        # The name, once it is proved.
        self.authenticated: str | None = None
        # A password has no end.
        self.ends_at_wall_ms: int | None = None
        self.is_delegated = False

    def respond(self, token: bytes) -> bytes:
        """Takes the only message. Raises `AuthenticationFailed`."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationFailed("a message that is not UTF-8") from None
        if len(parts) != _PARTS:
            text = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise AuthenticationFailed(text, text)
        authorization_id, name, password = parts
        if not name:
            raise _refused("username not specified")
        if not password:
            raise _refused("password not specified")
        if not self._users.knows(name, password):
            raise _refused("Invalid username or password")
        if authorization_id not in ("", name):
            raise _refused("Client requested an authorization id that is different from username")
        self.authenticated = name
        return b""


def _refused(what: str) -> AuthenticationFailed:
    return AuthenticationFailed(what, _PREFIX + what)


class PlainClient:
    """The client's side; it says one thing, and the server's answer is empty."""

    def __init__(self, name: str, password: Secret) -> None:
        # Who logs in, and with what.
        self._name = name
        self._password = password
        # Whether it was said, and was answered.
        self._said = False
        self.is_complete = False

    def respond(self, challenge: bytes) -> bytes:
        """Says everything at once."""
        if self._said:
            self.is_complete = True
            return b""
        self._said = True
        return f"\0{self._name}\0{self._password.reveal()}".encode()
