"""OAUTHBEARER: the client shows a token that an issuer gave it (RFC 7628, RFC 6750).

The client says who it wants to be, if it says so at all, and its token; `^A` is the byte 1:

    client: n,a=NAME,^Aauth=Bearer TOKEN^AKEY=VALUE^A^A
    server: (nothing)

To a token that it refuses the server answers a status in JSON, the client says `^A`, and the login
fails with that status. Every reader of the token may use it, so the mechanism belongs on SASL_SSL.

How a token is judged is `tokens.py`. The session ends with the token (KIP-368). Extensions are
taken and mean nothing, as in Kafka.

Source: RFC 7628; Kafka's `OAuthBearerSaslServer`, `OAuthBearerClientInitialResponse`.
"""

import re
from collections.abc import Mapping
from typing import Final

from tidelog.limits import MAX_TOKEN_CHARACTERS
from tidelog.model import Secret
from tidelog.security.sasl import AuthenticationFailed
from tidelog.security.tokens import Judge, TokenRefused

_END: Final = b"\x01"
_NAME: Final = r"(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<name>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<token>[-_.~+/A-Za-z0-9]+=*)")


class OAuthServer:
    """The server's side of one login."""

    def __init__(self, judge: Judge, wall_ms: int) -> None:
        # What decides about tokens.
        self._judge = judge
        # When the login began.
        self._wall_ms = wall_ms
        # Why the token was refused; the client is to say that it has seen that.
        self._refused: TokenRefused | None = None
        # The name, once it is proved.
        self.authenticated: str | None = None
        # When the token ends.
        self.ends_at_wall_ms: int | None = None
        self.is_delegated = False

    def respond(self, token: bytes) -> bytes:
        """The answer to the token, or to the client's last word. Raises `AuthenticationFailed`."""
        if self._refused is not None:
            raise AuthenticationFailed(self._refused.reason, self._refused.status)
        name, text = _read_first(token)
        try:
            granted = self._judge.judge(text, self._wall_ms)
        except TokenRefused as refused:
            self._refused = refused
            return refused.status.encode()
        if name and name != granted.name:
            raise AuthenticationFailed(
                "another authorization id than the token's",
                f"Authentication failed: Client requested an authorization id ({name}) that is "
                f"different from the token's principal name ({granted.name})",
            )
        self.authenticated, self.ends_at_wall_ms = granted.name, granted.ends_at_wall_ms
        return b""


def _read_first(message: bytes) -> tuple[str, str]:
    """The authorization id, or nothing, and the token."""
    first = _FIRST.fullmatch(message.decode("latin-1"))
    if first is None:
        raise AuthenticationFailed("a message that is not OAUTHBEARER's")
    pairs = [pair.partition("=") for pair in first["pairs"].split("\x01")[:-1]]
    values = {key: value for key, _, value in pairs}
    bearer = _BEARER.fullmatch(values.get("auth", ""))
    if bearer is None or len(values) != len(pairs):
        raise AuthenticationFailed("a message without a token, or with a key twice")
    if len(bearer["token"]) > MAX_TOKEN_CHARACTERS:
        raise AuthenticationFailed(f"a token of {len(bearer['token'])} characters")
    name = (first["name"] or "").replace("=2C", ",").replace("=3D", "=")
    return name, bearer["token"]


class OAuthClient:
    """The client's side of one login."""

    def __init__(self, token: Secret, extensions: Mapping[str, str]) -> None:
        # What it shows; with nothing to show it fails.
        self._token = token
        self._extensions = extensions
        # Whether it was shown.
        self._said = False
        # Whether the server has taken it.
        self.is_complete = False

    def respond(self, challenge: bytes) -> bytes:
        """Shows the token; says that a refusal was seen. Raises `AuthenticationFailed`."""
        if not self._said:
            if not self._token:
                raise AuthenticationFailed("this side has no token")
            self._said = True
            pairs = {"auth": f"Bearer {self._token.reveal()}", **self._extensions}
            text = "".join(f"{key}={value}\x01" for key, value in pairs.items())
            return f"n,,\x01{text}\x01".encode()
        self.is_complete = not challenge
        return _END if challenge else b""
