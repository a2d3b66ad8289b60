"""Goal: the records are Kafka's, bit for bit, and what is not a record does not pass as one."""

from contextlib import suppress

import pytest

from tests.fixtures import kafka_files
from tidelog.env.prng import Prng
from tidelog.errors import MalformedFrame
from tidelog.groups import records
from tidelog.groups.consumer_records import ConsumerRecord
from tidelog.groups.records import (
    CommittedOffset,
    GroupRecord,
    GroupValue,
    MemberValue,
    OffsetRecord,
    decode,
    encode,
)
from tidelog.model import ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.records.batch import decode_body, iter_headers
from tidelog.wire.layouts import read_version
from tidelog.wire.notation import MALFORMED

T0 = TopicPartition("t", 0)


def kafka_records():
    """Every record that Apache Kafka 4.3.1 wrote to the offsets topic of node 1."""
    for path, data in sorted(kafka_files("node1").items()):
        if path.startswith("__consumer_offsets-") and path.endswith(".log"):
            for place, header in iter_headers(data):
                if not header.is_control:
                    for record in decode_body(data, place, header):
                        yield record.key, record.value


def test_every_record_of_kafka_comes_back_as_it_was():
    kinds = set()
    for raw in kafka_records():
        record = decode(raw)
        kinds.add((type(record), raw[1] is None))
        assert encode(record) == raw
    assert kinds == {
        (OffsetRecord, False),
        (OffsetRecord, True),
        (GroupRecord, False),
        (GroupRecord, True),
        (ConsumerRecord, False),
        (ConsumerRecord, True),
    }


def test_what_kafka_committed_is_read():
    found = [decode(raw) for raw in kafka_records()]
    offsets = [each for each in found if isinstance(each, OffsetRecord) and each.value is not None]
    first = next(each for each in offsets if each.group_id == "g-classic")
    # As Kafka's DumpLogSegments prints it (`kafka-4.3.1-dump.tar.xz`).
    assert first.topic_partition == TopicPartition("plain", 0)
    assert first.value is not None
    assert first.value[:4] == (190, 0, "", 1795243908123)
    groups = [each for each in found if isinstance(each, GroupRecord) and each.value is not None]
    stable = next(each.value for each in groups if each.value is not None and each.value.members)
    assert stable.protocol_type == "consumer"
    assert stable.generation_id == 1
    assert stable.protocol_name == "cooperative-sticky"
    assert stable.leader_id == stable.members[0].member_id
    assert stable.members[0].session_timeout_ms == 45_000
    assert stable.members[0].rebalance_timeout_ms == 300_000


@pytest.mark.parametrize(
    "record",
    [
        OffsetRecord("g", T0, CommittedOffset(5, 3, "note", 1000)),
        OffsetRecord("g", T0, CommittedOffset(5, 3, "ü" * 200, 1000, topic_id=TopicId(b"i" * 16))),
        OffsetRecord("g", T0, CommittedOffset(5, 3, "", 1000)),
        OffsetRecord("g", T0, CommittedOffset(5, 3, "", 1000, topic_id=TopicId(b"i" * 16))),
        OffsetRecord("g", T0, CommittedOffset(5, 3, "eighteen byte text", 1000)),
        OffsetRecord("g", T0, None),
        GroupRecord("g", None),
        GroupRecord("g", GroupValue("", 0, None, None, 7, ())),
        GroupRecord(
            "g",
            GroupValue(
                "consumer",
                4,
                "range",
                "m",
                7,
                (MemberValue("m", "static", "c", "/h", 1, 2, b"sub", b"assigned"),),
            ),
        ),
    ],
)
def test_what_is_written_is_read(record):
    assert decode(encode(record)) == record


def test_an_expiry_of_its_own_takes_the_version_that_has_it():
    """Version 1 has no leader epoch; Kafka loses it likewise."""
    record = OffsetRecord("g", T0, CommittedOffset(5, 3, "note", 1000, 2000))
    key, value = encode(record)
    assert value is not None and value[:2] == b"\x00\x01"
    assert decode((key, value)) == OffsetRecord("g", T0, CommittedOffset(5, -1, "note", 1000, 2000))


def test_a_version_as_long_as_the_plain_form_of_the_newest_is_read_as_itself():
    """Version 3 has a text of two bytes more, and no tags."""
    key, _ = encode(OffsetRecord("g", T0, None))
    numbers = (9).to_bytes(8, "big"), (4).to_bytes(4, "big"), (1000).to_bytes(8, "big")
    value = b"\x00\x03" + numbers[0] + numbers[1] + b"\x00\x00" + numbers[2]
    _, plain = encode(OffsetRecord("g", T0, CommittedOffset(9, 4, "", 1000)))
    assert plain is not None and len(value) == len(plain)
    assert decode((key, value)) == OffsetRecord("g", T0, CommittedOffset(9, 4, "", 1000))


def test_a_tagged_field_of_the_future_is_not_the_topics_id():
    committed = CommittedOffset(5, 3, "", 1000, topic_id=TopicId(b"i" * 16))
    key, value = encode(OffsetRecord("g", T0, committed))
    assert value is not None and value[24:26] == b"\x00\x10"
    other = value[:24] + b"\x07" + value[25:]
    assert decode((key, other)) == OffsetRecord("g", T0, CommittedOffset(5, 3, "", 1000))


def test_a_key_with_more_behind_it_is_the_key():
    key, value = encode(OffsetRecord("g", TopicPartition("t", 258), CommittedOffset(5)))
    for more in (b"\x00", b"\x00\x00\x00\x07"):
        assert decode((key + more, value)) == decode((key, value))


@pytest.mark.parametrize("version", [-1, 5, 300])
def test_versions_of_the_future_are_refused(version):
    key, value = encode(OffsetRecord("g", T0, CommittedOffset(5)))
    assert value is not None
    with pytest.raises(MalformedFrame):
        decode((key, version.to_bytes(2, "big", signed=True) + value[2:]))


@pytest.mark.parametrize("seed", range(200))
def test_damaged_records_raise_nothing_else(seed):
    prng = Prng(seed)
    records = [raw for raw in kafka_records() if raw[1] is not None]
    key, value = prng.choice(records)
    damaged = bytearray(value or b"")
    for _ in range(prng.between(1, 4)):
        damaged[prng.below(len(damaged))] = prng.below(256)
    with suppress(MalformedFrame):
        decode((key[: prng.between(2, len(key))], bytes(damaged[: prng.below(len(damaged) + 1)])))


@pytest.mark.parametrize("seed", range(100))
def test_short_ways_read_what_the_layouts_say(seed):
    """Offsets of the two usual forms, some of their bytes changed."""
    prng = Prng(seed)
    record = OffsetRecord(
        "group",
        TopicPartition("topic", prng.below(1 << 20)),
        CommittedOffset(
            prng.below(1 << 40),
            prng.below(9),
            "",
            prng.below(1 << 41),
            topic_id=prng.choice((ZERO_TOPIC_ID, TopicId(b"0123456789abcdef"))),
        ),
    )
    key, value = map(bytearray, encode(record))
    for _ in range(prng.choice((0, 1, 2))):
        changed = prng.choice((key, value))
        changed[prng.below(len(changed))] ^= 1 << prng.below(8)
    raw = bytes(key), bytes(value)
    assert _read(raw, decode) == _read(raw, _by_layouts)


def _read(raw, reader):
    try:
        return reader(raw)
    except MalformedFrame:
        return None


def _by_layouts(raw):
    """The record, read as any other is."""
    key, value = raw
    try:
        if key[:2] not in (b"\x00\x00", b"\x00\x01"):
            return decode(raw)
        (group_id, *partition), _ = records._OFFSET_KEY.read(key, 2)
        offset = read_version("an offset", records._OFFSETS, value)
    except MALFORMED as cause:
        raise MalformedFrame("no record of a group") from cause
    return OffsetRecord(group_id, TopicPartition(*partition), offset)
