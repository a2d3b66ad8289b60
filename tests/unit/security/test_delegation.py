"""Delegation tokens: the same password on every node, and none without the common key."""

import base64

from tidelog.metadata.delegation_tokens import code_of
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.metadata.image_records import image_records
from tidelog.metadata.records import DelegationTokenRecord, RemoveDelegationTokenRecord
from tidelog.metadata.scram_keys import salt_password, scram_record
from tidelog.model import NO_SECRET, Mechanism, Secret
from tidelog.security.credentials import Credentials

KEY = Secret("the key of all nodes")
SCRAM = Mechanism.SCRAM_SHA_512
TOKEN = DelegationTokenRecord(
    owner="User:alice",
    requester="User:bob",
    issue_timestamp=1,
    max_timestamp=900,
    expiration_timestamp=300,
    token_id="t1",
)


def image_of(*records: DelegationTokenRecord | RemoveDelegationTokenRecord) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    for offset, record in enumerate(records):
        delta.replay(record, offset)
    return delta.apply(len(records), 1)


def credentials(image: MetadataImage, key: Secret = KEY) -> Credentials:
    made = Credentials(key)
    made.on_image(image)
    return made


def test_the_code_is_the_hmac_that_kafka_makes() -> None:
    """Kafka 4.3.1's `DelegationTokenManager.createHmac("t1", "the key of all nodes")`."""
    code = code_of(KEY, "t1")
    assert len(code) == 64
    assert code != code_of(Secret("another key"), "t1")
    assert code != code_of(KEY, "t2")


def test_the_password_of_a_token_is_its_code_in_base64() -> None:
    account = credentials(image_of(TOKEN)).of_token(SCRAM, "t1")
    assert account is not None
    assert (account.user, account.ends_at_wall_ms) == ("alice", 300)
    keys = account.credential
    password = base64.b64encode(code_of(KEY, "t1")).decode()
    salted = salt_password(SCRAM, password, keys.salt, keys.iterations)
    assert scram_record("t1", SCRAM, salted, keys.salt, 4096).stored_key == keys.stored_key


def test_every_node_makes_the_same_keys() -> None:
    one, other = (credentials(image_of(TOKEN)).of_token(SCRAM, "t1") for _ in range(2))
    assert one == other


def test_there_is_no_login_without_the_key_or_the_record() -> None:
    assert credentials(image_of(TOKEN), NO_SECRET).of_token(SCRAM, "t1") is None
    assert credentials(image_of(TOKEN)).of_token(SCRAM, "t2") is None
    assert credentials(image_of(TOKEN)).of_user(SCRAM, "t1") is None
    removed = image_of(TOKEN, RemoveDelegationTokenRecord(token_id="t1"))
    assert credentials(removed).of_token(SCRAM, "t1") is None


def test_a_snapshot_has_the_tokens() -> None:
    assert TOKEN in list(image_records(image_of(TOKEN)))
