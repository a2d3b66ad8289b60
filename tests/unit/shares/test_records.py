"""Goal: the records are Kafka's, bit for bit, and what is not a record does not pass as one.

The bytes are what the classes of Apache Kafka 4.3.1 wrote.
"""

import pytest

from tidelog.errors import MalformedFrame
from tidelog.model import TopicId
from tidelog.shares.batches import StateBatch
from tidelog.shares.records import SharePartition, ShareRecord, Snapshot, Update, decode, encode

PARTITION = SharePartition("grü", TopicId(bytes(range(1, 17))), 3)
SNAPSHOT_KEY = bytes.fromhex("000000046772c3bc0102030405060708090a0b0c0d0e0f1000000003")
UPDATE_KEY = bytes.fromhex("000100046772c3bc0102030405060708090a0b0c0d0e0f1000000003")
WRITTEN = [
    (
        SNAPSHOT_KEY,
        "000000000001000000020000000300000000000000040000000000000006000000000000000703"
        "0000000000000004000000000000000902000100"
        "000000000000000a000000000000000a0000030001000400000005",
        Snapshot(1, 2, 3, 4, 6, 7, (StateBatch(4, 9, 2, 1), StateBatch(10, 10, 0, 3)), 5),
    ),
    (
        SNAPSHOT_KEY,
        "0000000000000000000200000000ffffffffffffffff000000000000000600000000000000060100",
        Snapshot(state_epoch=2, create_ms=6, write_ms=6),
    ),
    (
        UPDATE_KEY,
        "00000000000100000003ffffffffffffffff02"
        "000000000000000b000000000000000c0400050001000400000002",
        Update(1, 3, -1, (StateBatch(11, 12, 4, 5),), 2),
    ),
]


@pytest.mark.parametrize(("key", "text", "value"), WRITTEN)
def test_records_are_kafkas(key, text, value):
    record = ShareRecord(PARTITION, value)
    raw = (key, bytes.fromhex(text))
    assert encode(record) == raw
    assert decode(raw) == record


def test_a_tombstone_is_a_snapshot_without_a_value():
    assert encode(ShareRecord(PARTITION, None)) == (SNAPSHOT_KEY, None)
    assert decode((SNAPSHOT_KEY, None)) == ShareRecord(PARTITION, None)


def test_what_is_not_known_is_passed_over():
    assert decode((b"\x00\x07" + SNAPSHOT_KEY[2:], b"")) is None
    assert decode((UPDATE_KEY, None)) is None


@pytest.mark.parametrize(("key", "text", "_"), WRITTEN)
def test_what_is_cut_off_is_damage(key, text, _):
    value = bytes.fromhex(text)
    for size in range(len(value)):
        with pytest.raises(MalformedFrame):
            decode((key, value[:size]))
    with pytest.raises(MalformedFrame):
        decode((key, b"\x00\x01" + value[2:]))
    with pytest.raises(MalformedFrame):
        decode((key[:-1], value))


def test_the_key_names_the_coordinator():
    assert PARTITION.key == "grü:AQIDBAUGBwgJCgsMDQ4PEA:3"
