"""What users ask of the controller about delegation tokens, and what it answers; see
`messages.py`."""

from typing import NamedTuple


class TokenPrincipal(NamedTuple):
    """A principal of a token."""

    principal_type: str
    principal_name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.principal_name}"


NO_PRINCIPAL = TokenPrincipal("", "")


class CreateToken(NamedTuple):
    """A token of a user, for the requester (API 38)."""

    owner: TokenPrincipal
    """Empty where the requester is the owner."""
    renewers: tuple[TokenPrincipal, ...]
    max_lifetime_ms: int
    """0 or less for the longest."""
    requester: TokenPrincipal = NO_PRINCIPAL


class CreateTokenResult(NamedTuple):
    """The new token; its holder logs in with the id and the code."""

    owner: TokenPrincipal
    requester: TokenPrincipal
    issue_ms: int
    expiry_ms: int
    max_ms: int
    token_id: str
    hmac: bytes


class RenewToken(NamedTuple):
    """The token with this code is to live longer (API 39)."""

    hmac: bytes
    period_ms: int
    """0 or less for as long as renewals extend it."""
    requester: TokenPrincipal = NO_PRINCIPAL


class ExpireToken(NamedTuple):
    """The token with this code is to end (API 40)."""

    hmac: bytes
    period_ms: int
    """After how long; less than 0 for at once."""
    requester: TokenPrincipal = NO_PRINCIPAL


class TokenExpiry(NamedTuple):
    """When the token ends now, in wall time."""

    expiry_ms: int
