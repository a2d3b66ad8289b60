"""The records of consumer groups, against bytes that Apache Kafka 4.3.1 wrote."""

import pytest

from tidelog.errors import MalformedFrame
from tidelog.groups.consumer_records import (
    ClassicMember,
    ConsumerRecord,
    Current,
    GroupEpoch,
    IdPartition,
    Kind,
    MemberState,
    ResolvedRegex,
    Subscription,
    TargetEpoch,
)
from tidelog.groups.records import OtherRecord, decode, encode
from tidelog.model import TopicId

TOPIC = TopicId(bytes.fromhex("00000000000000010000000000000002"))
TOPIC_HEX = TOPIC.hex()
P0, P1, P2 = (IdPartition(TOPIC, number) for number in range(3))
CLASSIC = ClassicMember(3, (("range", b"\x01\x02"),))

KAFKA = {
    "group epoch": (
        "0003000167",
        "000000000005010008000000000000004d",
        ConsumerRecord(Kind.EPOCH, "g", "", GroupEpoch(5, 77)),
    ),
    "member": (
        "000500016700016d",
        "00000269000263032f68030261026204782e2a000000090672616e676501000100",
        ConsumerRecord(
            Kind.SUBSCRIPTION,
            "g",
            "m",
            Subscription("i", None, "c", "/h", ("a", "b"), "x.*", 9, "range"),
        ),
    ),
    "member of the classic protocol": (
        "000500016700016d",
        "00000002720263032f680202610000000009000100110100000003020672616e67650301020000",
        ConsumerRecord(
            Kind.SUBSCRIPTION,
            "g",
            "m",
            Subscription(None, "r", "c", "/h", ("a",), None, 9, None, CLASSIC),
        ),
    ),
    "target epoch": (
        "0006000167",
        "000000000004010008000000000000007b",
        ConsumerRecord(Kind.TARGET_EPOCH, "g", "", TargetEpoch(4, 123)),
    ),
    "target": (
        "000700016700016d",
        f"000002{TOPIC_HEX}0300000000000000010000",
        ConsumerRecord(Kind.TARGET, "g", "m", (P0, P1)),
    ),
    "current": (
        "000800016700016d",
        f"000000000004000000030102{TOPIC_HEX}030000000000000001010009030000000400000003"
        f"02{TOPIC_HEX}02000000020100050200000004" + "00",
        ConsumerRecord(
            Kind.CURRENT, "g", "m", Current(4, 3, MemberState.UNREVOKED, {P0: 4, P1: 3}, {P2: 4})
        ),
    ),
    "regular expression": (
        "00100001670003782e2a",
        "0000020378310000000000000008000000000000000900",
        ConsumerRecord(Kind.REGEX, "g", "x.*", ResolvedRegex(("x1",), 8, 9)),
    ),
}


@pytest.mark.parametrize(("key", "value", "record"), KAFKA.values(), ids=KAFKA)
def test_kafkas_bytes(key, value, record):
    raw = bytes.fromhex(key), bytes.fromhex(value)
    assert decode(raw) == record
    assert encode(record) == raw


@pytest.mark.parametrize(("key", "value", "record"), KAFKA.values(), ids=KAFKA)
def test_tombstones(key, value, record):
    raw = bytes.fromhex(key), None
    assert decode(raw) == record._replace(value=None)
    assert encode(record._replace(value=None)) == raw


@pytest.mark.parametrize(("key", "value", "record"), KAFKA.values(), ids=KAFKA)
def test_what_is_cut_off_is_refused(key, value, record):
    for end in range(len(value) // 2):
        with pytest.raises(MalformedFrame):
            decode((bytes.fromhex(key), bytes.fromhex(value)[:end]))


def test_partitions_without_epochs_have_that_of_the_member():
    """Brokers before 4.3 write none (KIP-1251)."""
    value = f"000000000004000000030002{TOPIC_HEX}020000000000" + "0100"
    record = decode((bytes.fromhex("000800016700016d"), bytes.fromhex(value)))
    assert record.value == Current(4, 3, MemberState.STABLE, {P0: 4})


def test_a_member_without_a_word_about_the_classic_protocol_does_not_speak_it():
    """Kafka always says it; versions of this software before it did not."""
    value = bytes.fromhex("00000269000263032f68030261026204782e2a000000090672616e676500")
    assert decode((bytes.fromhex("000500016700016d"), value)).value.classic is None


def test_a_state_of_the_future_is_known_as_unknown():
    value = "00000000000400000003630101" + "00"
    record = decode((bytes.fromhex("000800016700016d"), bytes.fromhex(value)))
    assert record.value.state is MemberState.UNKNOWN


def test_what_older_brokers_wrote_of_topics_is_passed_over():
    raw = bytes.fromhex("0004000167"), b"\x00\x00\x01\x00"
    assert decode(raw) == OtherRecord(raw)


def test_another_version_is_refused():
    with pytest.raises(MalformedFrame, match="version `1` of a value of kind 3"):
        decode((bytes.fromhex("0003000167"), b"\x00\x01\x00\x00\x00\x00\x00"))
