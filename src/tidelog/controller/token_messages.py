"""What users ask of the controller about delegation tokens, and what it answers; see
`messages.py`."""

from typing import NamedTuple

from tidelog.model import Principal


class CreateToken(NamedTuple):
    """A token of a user, for the requester (API 38)."""

    owner: Principal
    """Empty where the requester is the owner."""
    renewers: tuple[Principal, ...]
    max_lifetime_ms: int
    """0 or less for the longest."""
    requester: Principal


class CreateTokenResult(NamedTuple):
    """The new token; its holder logs in with the id and the code."""

    owner: Principal
    requester: Principal
    issue_ms: int
    expiry_ms: int
    max_ms: int
    token_id: str
    hmac: bytes

    def __repr__(self) -> str:
        """Without the code, by which its holder logs in."""
        return f"CreateTokenResult({self.token_id})"


class RenewToken(NamedTuple):
    """The token with this code is to live longer (API 39)."""

    hmac: bytes
    period_ms: int
    """0 or less for as long as renewals extend it."""
    requester: Principal

    def __repr__(self) -> str:
        """Without the code, by which its holder logs in."""
        return f"RenewToken({self.requester})"


class ExpireToken(NamedTuple):
    """The token with this code is to end (API 40)."""

    hmac: bytes
    period_ms: int
    """After how long; less than 0 for at once."""
    requester: Principal

    def __repr__(self) -> str:
        """Without the code, by which its holder logs in."""
        return f"ExpireToken({self.requester})"


class TokenExpiry(NamedTuple):
    """When the token ends now, in wall time."""

    expiry_ms: int
