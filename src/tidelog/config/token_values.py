"""What OAUTHBEARER obeys: how a listener judges tokens, and where a client has its token from.

`config/token_properties.py` makes both from properties. A URL may be a file's, `file:///path`.
"""

from dataclasses import dataclass

from tidelog.model import NO_SECRET, Secret


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Which tokens let a client in."""

    keys_url: str = ""
    """Where the keys of the issuer are; empty where tokens have no signature at all, because the
    configuration asks for that by name."""
    refresh_ms: int = 3_600_000
    """How old the keys become before they are fetched again."""
    backoff_ms: int = 100
    """How long the first pause after a fetch that failed is; each further one is twice as long."""
    backoff_max_ms: int = 10_000
    """The longest of these pauses."""
    issuer: str = ""
    """What the claim `iss` must be; empty: anything."""
    audience: tuple[str, ...] = ()
    """Of these, one must be in the claim `aud`; without them a token must not have that claim."""
    clock_skew_ms: int = 30_000
    """So far may the clock of the issuer be from ours."""
    scope_claim: str = "scope"
    """The claim with the scopes of the token."""
    principal_claim: str = "sub"
    """The claim with the name of the client."""


@dataclass(frozen=True, slots=True)
class TokenOrigin:
    """Where a client has its token from."""

    url: str = ""
    """A file, or the token endpoint of the issuer; empty where the client makes a token without a
    signature, because the configuration asks for that by name."""
    client_id: str = ""
    """By which the endpoint knows the client; empty: the JAAS string says it."""
    client_secret: Secret = NO_SECRET
    scope: str = ""
    """The scopes that the client asks for, with blanks between."""
    encodes_header: bool = False
    """Whether id and secret are URL-encoded in the header that has them (RFC 6749 §2.3.1)."""
    backoff_ms: int = 100
    """How long the first pause after a fetch that failed is; each further one is twice as long."""
    backoff_max_ms: int = 10_000
    """The longest of these pauses."""
