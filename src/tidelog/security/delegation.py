"""Delegation tokens: a user lets a job log in as that user, for a while (KIP-48).

A user who has logged in asks for a token and gives it to a job, which logs in by SCRAM with the
token's id as its name. Its password is a code that all nodes can make: HMAC-SHA-512
of the id with the key that they have in common, `delegation.token.secret.key`. So the metadata log
has the id, the owner and the times of a token, and nothing to log in with.

    user   ──> CreateDelegationToken ──> id, password
    job    ──> SCRAM: the id, tokenauth=true, the password ──> logged in as the user
    user   ──> RenewDelegationToken, ExpireDelegationToken: the password names the token

SCRAM needs a salt and salted keys. They are made at the first login with a token, the salt from the
id and the common key, so that it is the same on every node. Kafka makes them for each token on each
broker when the token becomes known.

A session that a token has begun may do all that its owner may, but ask about tokens.

Left out: a second key for a change of keys; a token of the former key logs in nowhere.

Source: KIP-48, KIP-373; Kafka's `DelegationTokenManager`, `DelegationTokenControlManager`.
"""

import base64
import hashlib
import hmac
from functools import lru_cache

from tidelog.limits import MAX_KEPT_TOKEN_KEYS, MIN_SCRAM_ITERATIONS
from tidelog.metadata.delegation_tokens import code_of
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.scram_keys import salt_of, salt_password, scram_record
from tidelog.model import Mechanism, Principal, Secret
from tidelog.security.scram import Account, ScramCredential


@lru_cache(maxsize=MAX_KEPT_TOKEN_KEYS)
def _credential_of(secret: Secret, mechanism: Mechanism, token_id: str) -> ScramCredential:
    password = base64.b64encode(code_of(secret, token_id)).decode()
    drawn = hmac.digest(secret.reveal().encode(), f"salt{token_id}".encode(), hashlib.sha256)
    salt = salt_of(drawn)
    salted = salt_password(mechanism, password, salt, MIN_SCRAM_ITERATIONS)
    record = scram_record(token_id, mechanism, salted, salt, MIN_SCRAM_ITERATIONS)
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)


def account_of(
    image: MetadataImage, secret: Secret, mechanism: Mechanism, token_id: str
) -> Account | None:
    """Who logs in with a token; the login judges whether it has expired."""
    record = image.token(token_id) if secret else None
    if record is None:
        return None
    owner = Principal.parse(record.owner).name
    credential = _credential_of(secret, mechanism, token_id)
    return Account(owner, credential, record.expiration_timestamp)
