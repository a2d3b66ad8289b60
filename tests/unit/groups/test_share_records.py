"""Goal: the records of share groups are Kafka's, bit for bit.

The bytes are what the classes of Apache Kafka 4.3.1 wrote.
"""

import pytest

from tidelog.errors import MalformedFrame
from tidelog.groups.consumer_records import GroupEpoch, IdPartition, TargetEpoch
from tidelog.groups.records import decode, encode
from tidelog.groups.share_records import (
    ShareCurrent,
    ShareGroupRecord,
    ShareKind,
    ShareMember,
    ShareStates,
    TopicPartitions,
)
from tidelog.model import TopicId

TOPIC = TopicId(bytes(range(1, 17)))
HEX = TOPIC.hex()
TARGET = (IdPartition(TOPIC, 0), IdPartition(TOPIC, 2))
WRITTEN = [
    (
        "000a00016700016d",
        "0000000263032f68030261026200",
        ShareKind.MEMBER,
        ShareMember(None, "c", "/h", ("a", "b")),
    ),
    ("000b000167", "000000000003000000000000004d00", ShareKind.EPOCH, GroupEpoch(3, 77)),
    (
        "000c000167",
        "0000000000030100080000000000000063",
        ShareKind.TARGET_EPOCH,
        TargetEpoch(3, 99),
    ),
    ("000d00016700016d", f"000002{HEX}0300000000000000020000", ShareKind.TARGET, TARGET),
    (
        "000e00016700016d",
        f"000000000003000000020002{HEX}0300000000000000020000",
        ShareKind.CURRENT,
        ShareCurrent(3, 2, TARGET),
    ),
    (
        "000f000167",
        f"000002{HEX}026102000000010002{HEX}026102000000000002{HEX}02610000",
        ShareKind.STATES,
        ShareStates(
            {TOPIC: TopicPartitions("a", frozenset({1}))},
            {TOPIC: TopicPartitions("a", frozenset({0}))},
            {TOPIC: "a"},
        ),
    ),
]


@pytest.mark.parametrize(("key", "text", "kind", "value"), WRITTEN)
def test_records_are_kafkas(key, text, kind, value):
    member_id = "m" if key.endswith("6d") else ""
    record = ShareGroupRecord(kind, "g", member_id, value)
    raw = (bytes.fromhex(key), bytes.fromhex(text))
    assert encode(record) == raw
    assert decode(raw) == record
    gone = ShareGroupRecord(kind, "g", member_id, None)
    assert encode(gone) == (raw[0], None)
    assert decode((raw[0], None)) == gone


@pytest.mark.parametrize(("key", "text", "kind", "value"), WRITTEN)
def test_what_is_cut_off_is_damage(key, text, kind, value):
    whole = bytes.fromhex(text)
    for size in range(len(whole)):
        with pytest.raises(MalformedFrame):
            decode((bytes.fromhex(key), whole[:size]))
    with pytest.raises(MalformedFrame):
        decode((bytes.fromhex(key), b"\x00\x01" + whole[2:]))
