"""AlterUserScramCredentials decided: one user at a time, and what is refused."""

import pytest

from tests.unit.controller.harness import a_view
from tidelog.controller.messages import (
    AlterScramCredentials,
    AlterScramCredentialsResult,
    ScramDeletion,
    ScramResult,
    ScramUpsertion,
)
from tidelog.controller.repeats import settle
from tidelog.controller.scram import decide_alter_scram
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.metadata.records import MetadataRecord, RemoveUserScramCredentialRecord
from tidelog.metadata.scram_keys import scram_record
from tidelog.model import Mechanism

RECORD = scram_record("old", Mechanism.SCRAM_SHA_256, b"salted", b"salt", 4096)
REMOVAL = RemoveUserScramCredentialRecord(name="old", mechanism=1)


def image_of(*records: MetadataRecord) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    for offset, record in enumerate(records):
        delta.replay(record, offset)
    return delta.apply(len(records), 1)


def decide(*changes: ScramDeletion | ScramUpsertion):
    """The results as (name, code), and the records."""
    request = AlterScramCredentials(
        tuple(each for each in changes if isinstance(each, ScramDeletion)),
        tuple(each for each in changes if isinstance(each, ScramUpsertion)),
    )
    decision = decide_alter_scram(a_view(image_of(RECORD)), request)
    users = decision.response.users
    return [(user.name, user.error_code) for user in users], decision.records


def upsertion(name: str = "new", mechanism: int = 2, iterations: int = 8192, salted=b"salted"):
    return ScramUpsertion(name, mechanism, iterations, b"salt", salted)


def test_a_credential_is_written_as_keys():
    results, records = decide(upsertion())
    assert results == [("new", ErrorCode.NONE)]
    assert records == [scram_record("new", Mechanism.SCRAM_SHA_512, b"salted", b"salt", 8192)]


def test_a_credential_is_removed():
    assert decide(ScramDeletion("old", 1)) == ([("old", ErrorCode.NONE)], [REMOVAL])
    assert image_of(RECORD).scram_credential("old", 1) == RECORD
    assert image_of(RECORD, REMOVAL).scram_credentials() == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(name=""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(salted=b""), ErrorCode.UNKNOWN_SERVER_ERROR),
        (ScramDeletion("old", 2), ErrorCode.RESOURCE_NOT_FOUND),
        (ScramDeletion("mallory", 1), ErrorCode.RESOURCE_NOT_FOUND),
        (ScramDeletion("old", 9), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_what_is_wrong_with_one_user_does_not_stop_the_others(change, code: ErrorCode):
    results, records = decide(change, upsertion("good"))
    assert results == [(change.name, code), ("good", ErrorCode.NONE)]
    assert len(records) == 1


def test_a_user_that_is_named_twice_is_not_changed():
    results, records = decide(
        ScramDeletion("old", 1), upsertion("old"), upsertion("new", 1), upsertion("new", 2)
    )
    assert results == [("old", ErrorCode.DUPLICATE_RESOURCE), ("new", ErrorCode.DUPLICATE_RESOURCE)]
    assert records == []
    results, _ = decide(upsertion("new", salted=b""), upsertion("new"))
    assert results == [("new", ErrorCode.DUPLICATE_RESOURCE)]


def test_a_salted_password_is_not_shown():
    assert "marker" not in repr(upsertion(salted=b"marker"))


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        (image_of(RECORD), image_of(RECORD, REMOVAL), ErrorCode.NONE),
        (image_of(RECORD, REMOVAL), image_of(RECORD, REMOVAL), ErrorCode.RESOURCE_NOT_FOUND),
        (image_of(RECORD), image_of(RECORD), None),
    ],
)
def test_a_removal_that_was_asked_for_twice_meets_its_own_work(
    before: MetadataImage, after: MetadataImage, code: ErrorCode | None
):
    request = AlterScramCredentials((ScramDeletion("old", 1),), ())
    refused = ScramResult("old", ErrorCode.RESOURCE_NOT_FOUND, "no such user")
    settled = settle(before, after, request, AlterScramCredentialsResult((refused,)))
    assert (settled is None) == (code is None)
    if settled is not None:
        assert settled.users[0].error_code is code


def test_what_is_wrong_with_a_change_comes_before_that_the_user_is_named_twice():
    """As Apache Kafka 4.3.1 answers."""
    results, records = decide(
        ScramDeletion("absent", 1), upsertion("absent"), upsertion(""), upsertion("")
    )
    assert results == [
        ("absent", ErrorCode.RESOURCE_NOT_FOUND),
        ("", ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ]
    assert not records
