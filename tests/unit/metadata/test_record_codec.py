"""Metadata records: Kafka's own log and dump say the same as our entities, byte for byte."""

import json
from collections import Counter
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

import pytest

from tests.fixtures import kafka_dump_text, kafka_files
from tests.unit.wire.random_entities import random_entity
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, MalformedFrame, ProtocolError
from tidelog.metadata.record_codec import decode_record, encode_record
from tidelog.metadata.records import (
    FENCE,
    LEADER_UNCHANGED,
    RECORD_TYPES,
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from tidelog.model import Uuid, uuid_to_text
from tidelog.records.batch import decode_batch, iter_headers

LOG = "__cluster_metadata-0/00000000000000000000.log"
TOPIC_ID = Uuid(bytes(range(16)))


def values_in(data: bytes) -> list[bytes]:
    """The values of all records that are no control records."""
    values = []
    for position, header in iter_headers(data):
        if not header.is_control:
            batch = data[position : position + header.size_bytes]
            values += [record.value for record in decode_batch(batch)]
    return values


def as_every_version_reads_it(value: bytes) -> bytes:
    """Kafka 4.3 writes registrations in version 4, which those before do not read; without
    cordoned directories version 3 has the same bytes behind its number."""
    return value.replace(b"\x01\x00\x04", b"\x01\x00\x03", 1) if value[1] == 0 else value


@pytest.mark.parametrize("node", ["node1", "node2", "node3"])
def test_the_whole_metadata_log_comes_back_byte_for_byte(node: str) -> None:
    values = values_in(kafka_files(node)[LOG])
    assert len(values) > 600
    for value in values:
        assert encode_record(decode_record(value)) == as_every_version_reads_it(value)


def test_a_bootstrap_snapshot_comes_back_byte_for_byte() -> None:
    values = values_in(kafka_files("node1")["bootstrap.checkpoint"])
    assert values
    for value in values:
        assert encode_record(decode_record(value)) == value


def test_the_recording_has_these_kinds() -> None:
    kinds = Counter(
        type(decode_record(value)).__name__ for value in values_in(kafka_files("node1")[LOG])
    )
    assert kinds["PartitionChangeRecord"] == 243
    assert kinds["BrokerRegistrationChangeRecord"] == 23
    assert len(kinds) == 13


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def as_dumped(value: Any) -> Any:
    """An entity's value in the JSON that Kafka's tool prints."""
    if isinstance(value, bytes):
        return uuid_to_text(value)
    if isinstance(value, tuple):
        return [as_dumped(item) for item in value]
    if is_dataclass(value):
        return {
            camel_case(each.name): as_dumped(getattr(value, each.name)) for each in fields(value)
        }
    return value


def test_every_field_has_the_value_that_kafka_prints() -> None:
    dumped = [
        json.loads(line.partition("payload: ")[2])
        for line in kafka_dump_text(LOG).splitlines()
        if "payload: " in line
    ]
    values = values_in(kafka_files("node1")[LOG])
    assert len(dumped) == len(values)
    for dump, value in zip(dumped, values, strict=True):
        entity = decode_record(value)
        assert camel_case(dump["type"].lower()) == camel_case_of_class(entity)
        assert dump["version"] == value[2]
        for each in fields(entity):
            name, ours = camel_case(each.name), as_dumped(getattr(entity, each.name))
            if name in dump["data"]:
                assert dump["data"].pop(name) == ours, (name, entity)
            else:
                assert each.default is not MISSING, (name, entity)
                assert getattr(entity, each.name) == each.default, (name, entity)
        assert not dump["data"], f"{entity} lacks {dump['data']}"


def camel_case_of_class(entity: object) -> str:
    name = type(entity).__name__
    return name[0].lower() + name[1:]


def test_random_records_of_every_kind_and_version_survive() -> None:
    prng = Prng(3)
    for record_type in RECORD_TYPES.values():
        for version in range(record_type.__latest__ + 1):
            for _ in range(10):
                drawn: Any = random_entity(prng, record_type)
                later = [each for each in fields(drawn) if each.metadata.get("since", 0) > version]
                kept = {
                    each.name: each.default if each in later else getattr(drawn, each.name)
                    for each in fields(drawn)
                }
                entity = record_type(**kept)
                assert decode_record(encode_record(entity, version)) == entity


def test_the_kinds_are_numbered_as_in_kafka() -> None:
    assert sorted(RECORD_TYPES) == [*range(6), *range(7, 13), 14, 15, *range(17, 30)]
    assert RECORD_TYPES[5] is PartitionChangeRecord


def test_a_change_of_the_isr_in_bytes() -> None:
    record = PartitionChangeRecord(partition_id=3, topic_id=TOPIC_ID, isr=(1, 2))
    assert encode_record(record).hex(" ") == (
        "01 05 02"  # frame 1, kind 5, version 2
        " 00 00 00 03 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f"
        " 01 00 09 03 00 00 00 01 00 00 00 02"  # one tagged field: the ISR
    )
    assert decode_record(encode_record(record)) == record
    assert record.leader == LEADER_UNCHANGED


def test_an_empty_list_is_not_an_unchanged_one() -> None:
    emptied = PartitionChangeRecord(partition_id=3, topic_id=TOPIC_ID, isr=())
    unchanged = PartitionChangeRecord(partition_id=3, topic_id=TOPIC_ID)
    assert decode_record(encode_record(emptied)) == emptied != unchanged


def test_a_registration_change_takes_the_oldest_version_that_can_say_it() -> None:
    for version, change in enumerate(
        ({"fenced": FENCE}, {"in_controlled_shutdown": 1}, {"log_dirs": (TOPIC_ID,)})
    ):
        record: Any = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, **change)
        assert encode_record(record)[2] == version
    cordoned = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, cordoned_log_dirs=())
    assert encode_record(cordoned)[2] == 3


def test_a_version_that_would_lose_a_field_is_a_bug() -> None:
    record = PartitionChangeRecord(partition_id=3, topic_id=TOPIC_ID, last_known_elr=(1,))
    with pytest.raises(AssertionError, match="does not fit"):
        encode_record(record, 1)


def test_older_versions_are_read_with_defaults() -> None:
    partition = PartitionRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        replicas=(1, 2),
        isr=(1,),
        leader=1,
        leader_epoch=4,
        partition_epoch=5,
    )
    assert decode_record(encode_record(partition, 0)) == partition
    broker = RegisterBrokerRecord(broker_id=1, incarnation_id=TOPIC_ID, broker_epoch=9, rack=None)
    assert decode_record(encode_record(broker, 0)) == broker


def test_a_registration_takes_the_version_that_it_needs() -> None:
    broker = RegisterBrokerRecord(broker_id=1, incarnation_id=TOPIC_ID, broker_epoch=9, rack=None)
    cordoned = replace(broker, cordoned_log_dirs=(TOPIC_ID,))
    assert [encode_record(each)[2] for each in (broker, cordoned)] == [3, 4]
    assert decode_record(encode_record(cordoned)) == cordoned


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"\x01\x06\x00\x00", ErrorCode.UNSUPPORTED_VERSION),
        (b"\x01\x7f\x00\x00", ErrorCode.UNSUPPORTED_VERSION),
        (b"\x01\x05\x03\x00", ErrorCode.UNSUPPORTED_VERSION),
        (b"", ErrorCode.INVALID_REQUEST),
        (b"\x01\x14", ErrorCode.INVALID_REQUEST),
        (b"\x02\x14\x00\x00", ErrorCode.INVALID_REQUEST),
        (b"\x01\x14\x00\x00\x00", ErrorCode.INVALID_REQUEST),
        (b"\x01\x03\x00\x00", ErrorCode.INVALID_REQUEST),
        (b"\xff\xff\xff\xff\xff\xff", ErrorCode.INVALID_REQUEST),
    ],
)
def test_unknown_and_malformed_records_are_refused(value: bytes, code: ErrorCode) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_record(value)
    assert caught.value.code == code


def test_mutated_records_end_in_protocol_errors_only() -> None:
    prng = Prng(11)
    values = values_in(kafka_files("node1")[LOG])
    refused = 0
    for _ in range(5000):
        value = bytearray(prng.choice(values))
        for _ in range(prng.between(1, 3)):
            value[prng.below(len(value))] ^= 1 << prng.below(8)
        try:
            decode_record(bytes(value[: prng.between(0, len(value))]))
        except ProtocolError:
            refused += 1
    assert refused > 3000


def test_a_record_ends_where_its_body_ends() -> None:
    assert decode_record(b"\x01\x14\x00\x00") == NoOpRecord()
    with pytest.raises(MalformedFrame, match="`2` bytes behind a NoOpRecord"):
        decode_record(b"\x01\x14\x00\x00ab")
