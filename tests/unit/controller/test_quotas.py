"""What the controller decides about quotas of clients."""

from tests.unit.controller.harness import a_view, after, an_image
from tidelog.controller.quota_messages import AlterClientQuotas, AlterQuotas, QuotaChange, QuotaPart
from tidelog.controller.quotas import decide_alter_quotas
from tidelog.errors import ErrorCode

ADA = (QuotaPart("user", "ada"),)
HOST = (QuotaPart("ip", "10.0.0.1"),)
RATE, CONNECTIONS = "producer_byte_rate", "connection_creation_rate"


def asked(entity, *values, remove=False):
    ops = tuple(QuotaChange(key, value, remove) for key, value in values)
    return AlterQuotas(entity, ops)


def decided(image, *entries, validate_only=False):
    return decide_alter_quotas(a_view(image), AlterClientQuotas(entries, validate_only))


def test_values_that_change_become_records() -> None:
    image = an_image()
    made = decided(image, asked(ADA, (RATE, 5.0), ("request_percentage", 2.5)))
    assert [each.error_code for each in made.response.entries] == [ErrorCode.NONE]
    image = after(image, made.records)
    assert image.quotas == {(("user", "ada"),): {RATE: 5.0, "request_percentage": 2.5}}
    assert not decided(image, asked(ADA, (RATE, 5.0))).records
    image = after(image, decided(image, asked(ADA, (RATE, 0.0), remove=True)).records)
    assert image.quotas == {(("user", "ada"),): {"request_percentage": 2.5}}
    gone = decided(image, asked(ADA, (RATE, 0.0), ("request_percentage", 0.0), remove=True))
    assert after(image, gone.records).quotas == {}


def test_a_pair_is_the_same_in_any_order() -> None:
    pair = (QuotaPart("user", None), QuotaPart("client-id", "app"))
    image = after(an_image(), decided(an_image(), asked(pair, (RATE, 5.0))).records)
    assert list(image.quotas) == [(("client-id", "app"), ("user", None))]
    assert not decided(image, asked(pair[::-1], (RATE, 5.0))).records


def test_nothing_is_written_when_it_is_only_to_be_checked() -> None:
    made = decided(an_image(), asked(ADA, (RATE, 5.0)), validate_only=True)
    assert made.response.entries[0].error_code is ErrorCode.NONE
    assert not made.records


def test_what_makes_no_sense_is_refused_and_the_rest_is_written() -> None:
    other = (QuotaPart("client-id", None),)
    twice = asked(ADA, (RATE, 1.0), (RATE, 2.0))
    made = decided(an_image(), asked(HOST, (RATE, 1.0)), twice, asked(other, (RATE, 1.0)))
    *bad, good = made.response.entries
    assert {each.error_code for each in bad} == {ErrorCode.INVALID_REQUEST}
    assert "Invalid configuration key" in bad[0].message and "Duplicate" in bad[1].message
    assert good.error_code is ErrorCode.NONE
    assert len(made.records) == 1


def test_an_entity_comes_once() -> None:
    made = decided(an_image(), asked(HOST, (CONNECTIONS, 1.0)), asked(HOST, (CONNECTIONS, 2.0)))
    assert [each.error_code for each in made.response.entries] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]
    assert [record.value for record in made.records] == [1.0]
