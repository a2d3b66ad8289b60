"""What Kafka's consumers say and get, against bytes of its own serializers."""

import pytest

from tidelog.errors import MalformedFrame
from tidelog.model import TopicPartition
from tidelog.wire.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    assignment_of,
    pack_assignment,
    subscription_of,
    topics_of,
)

T0, T2, U1 = TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1)
TOPICS = "00000002 000174 000175 ffffffff"
OWNED = "00000001 000174 00000002 00000000 00000002"

SUBSCRIPTIONS = {
    f"0000 {TOPICS}": ConsumerSubscription(0, ("t", "u")),
    f"0001 {TOPICS} {OWNED}": ConsumerSubscription(1, ("t", "u"), (T0, T2)),
    f"0002 {TOPICS} {OWNED} 00000007": ConsumerSubscription(2, ("t", "u"), (T0, T2)),
    f"0003 {TOPICS} {OWNED} 00000007 000172": ConsumerSubscription(3, ("t", "u"), (T0, T2), "r"),
    f"0003 {TOPICS} 00000000 ffffffff ffff": ConsumerSubscription(3, ("t", "u")),
    # A version of the future has more behind.
    f"0009 {TOPICS} {OWNED} 00000007 000172 00": ConsumerSubscription(9, ("t", "u"), (T0, T2), "r"),
}
ASSIGNED = "00000002 000174 00000002 00000000 00000002 000175 00000001 00000001"


@pytest.mark.parametrize(("text", "subscription"), SUBSCRIPTIONS.items())
def test_a_subscription(text, subscription):
    data = bytes.fromhex(text)
    assert subscription_of(data) == subscription


def test_topics_of_a_group():
    assert topics_of(()) == frozenset()
    assert topics_of(bytes.fromhex(text) for text in SUBSCRIPTIONS) == {"t", "u"}
    # Nothing behind the topics is read: versions differ in it, and so do clients.
    assert topics_of((bytes.fromhex("0003 00000001 000174"), b"\0\0\0\0\0\0")) == {"t"}


@pytest.mark.parametrize(
    "text", ["", "00", "0001 00000002 000174", "0000 7fffffff", "0000 00000001 0001ff"]
)
def test_topics_of_a_group_are_not_known_when_a_member_is_not_understood(text):
    assert topics_of((bytes.fromhex(f"0000 {TOPICS}"), bytes.fromhex(text))) is None


@pytest.mark.parametrize(
    ("text", "user_data"), [("ffffffff", b""), ("00000000", b""), ("00000002 0102", b"\1\2")]
)
def test_an_assignment(text, user_data):
    found = assignment_of(bytes.fromhex(f"0001 {ASSIGNED} {text}"))
    assert found == ConsumerAssignment((T0, T2, U1), user_data)


def test_an_assignment_is_packed():
    assert pack_assignment(1, [U1, T2, T0]) == bytes.fromhex(f"0001 {ASSIGNED} ffffffff")
    assert assignment_of(b"") == ConsumerAssignment(())


def test_what_is_cut_off_or_of_no_version_is_refused():
    for text in (f"0003 {TOPICS} {OWNED} 00000007 000172", f"ffff {TOPICS}"):
        data = bytes.fromhex(text)
        for end in range(len(data) if text.startswith("0") else len(data) + 1):
            with pytest.raises(MalformedFrame):
                subscription_of(data[:end])
    data = bytes.fromhex(f"0001 {ASSIGNED} 00000002 0102")
    for end in range(1, len(data)):
        with pytest.raises(MalformedFrame):
            assignment_of(data[:end])
