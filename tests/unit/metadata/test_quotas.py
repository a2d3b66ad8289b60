"""Which quotas there may be."""

import pytest

from tidelog.metadata.quotas import fault_of_subject, fault_of_value, subject_of

ADA = [("user", "ada")]
HOST = [("ip", "10.0.0.1")]
RATE, CONNECTIONS = "producer_byte_rate", "connection_creation_rate"


@pytest.mark.parametrize(
    ("parts", "key", "value", "words"),
    [
        (ADA, RATE, -1.0, "greater than 0"),
        (ADA, RATE, 0.0, "greater than 0"),
        (ADA, RATE, 1.5, "fractional"),
        (ADA, RATE, 1e300, "too large"),
        (ADA, "request_percentage", float("nan"), "must be a number"),
        (ADA, "request_percentage", float("inf"), "must be a number"),
        (ADA, "speed", 1.0, "Invalid configuration key speed"),
        (ADA, CONNECTIONS, 1.0, "Invalid configuration key"),
        (HOST, RATE, 1.0, "Invalid configuration key"),
        (HOST, CONNECTIONS, 2.0**31, "too large"),
        ([("ip", "no host")], CONNECTIONS, 1.0, "not a valid IP"),
        ([*ADA, *HOST], CONNECTIONS, 1.0, "should not be combined"),
        ([*ADA, *ADA], RATE, 1.0, "duplicate entity entry"),
        ([("user", "")], RATE, 1.0, "Empty user"),
        ([("topic", "t")], RATE, 1.0, "entity type: topic"),
        ([], RATE, 1.0, "empty client quota entity"),
    ],
)
def test_what_makes_no_sense_has_a_reason(parts, key, value, words) -> None:
    subject = subject_of(parts)
    assert words in (fault_of_subject(subject) or fault_of_value(subject, key, value) or "")


def test_what_makes_sense_has_none() -> None:
    for parts, key, value in (
        (ADA, RATE, 5.0),
        ([("user", None), ("client-id", None)], "request_percentage", 0.5),
        ([("ip", "::1")], CONNECTIONS, 2.0),
        ([("ip", None)], CONNECTIONS, 2.0),
    ):
        subject = subject_of(parts)
        assert fault_of_subject(subject) is None
        assert fault_of_value(subject, key, value) is None
