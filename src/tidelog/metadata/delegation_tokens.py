"""The code of a delegation token: what its holder has been given, and logs in with.

Every node makes it from the token's id and the key that all nodes have in common, so no record has
it, and it cannot be made without the key.

Source: KIP-48; Kafka's `DelegationTokenManager`.
"""

import hmac
from functools import lru_cache

from tidelog.limits import MAX_DELEGATION_TOKENS
from tidelog.model import Secret


@lru_cache(maxsize=MAX_DELEGATION_TOKENS)
def code_of(secret: Secret, token_id: str) -> bytes:
    """HMAC-SHA-512 of the id: 64 bytes."""
    return hmac.digest(secret.reveal().encode(), token_id.encode(), "sha512")
