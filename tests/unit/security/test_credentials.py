"""Goal: the users that formatting made may log in until the metadata has them, and then no longer
for that reason."""

from tidelog.config import ControllerConfig
from tidelog.controller.bootstrap import FirstRecords, activation_records
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE
from tidelog.metadata.records import RemoveUserScramCredentialRecord
from tidelog.metadata.scram_keys import SCRAM_NUMBERS, scram_record
from tidelog.model import NO_SECRET, Mechanism
from tidelog.security.credentials import Credentials

USER = scram_record("ada", Mechanism.SCRAM_SHA_512, bytes(64), b"salt", 4096)


def test_a_first_user_is_known_while_the_first_records_arrive() -> None:
    """They are a transaction, of which a node may have applied the beginning only."""
    credentials = Credentials(NO_SECRET)
    credentials.first_users = (USER,)

    def knows() -> bool:
        return credentials.of_user(Mechanism.SCRAM_SHA_512, "ada") is not None

    assert knows()
    image = EMPTY_IMAGE
    removal = RemoveUserScramCredentialRecord(
        name="ada", mechanism=SCRAM_NUMBERS[Mechanism.SCRAM_SHA_512]
    )
    records = activation_records(
        image, ControllerConfig(), FirstRecords(users=credentials.first_users)
    )
    for offset, record in enumerate(records):
        delta = MetadataDelta(image)
        delta.replay(record, offset)
        image = delta.apply(offset, 1)
        credentials.on_image(image)
        assert knows(), f"not after {record}"
    delta = MetadataDelta(image)
    delta.replay(removal, len(records))
    credentials.on_image(delta.apply(len(records), 1))
    assert not knows()
