"""Goal: the records are Kafka's, bit for bit, and what is not a record does not pass as one."""

from dataclasses import replace

import pytest

from tests.fixtures import kafka_files
from tidelog.env.prng import Prng
from tidelog.errors import MalformedFrame
from tidelog.model import TopicPartition
from tidelog.records.batch import decode_body, iter_headers
from tidelog.transactions.records import (
    Transaction,
    TransactionRecord,
    TransactionState,
    decode,
    encode,
)

T0 = TopicPartition("t", 0)
FULL = Transaction(
    producer_id=7,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.PREPARE_COMMIT,
    partitions=frozenset((T0, TopicPartition("t", 2), TopicPartition("ü", 1))),
    last_update_ms=20,
    start_ms=10,
    previous_producer_id=6,
    next_producer_id=8,
    client_version=2,
    next_producer_epoch=4,
)


def kafka_records():
    """Every record that Apache Kafka 4.3.1 wrote to the transactions topic of node 1."""
    for path, data in sorted(kafka_files("node1").items()):
        if path.startswith("__transaction_state-") and path.endswith(".log"):
            for place, header in iter_headers(data):
                if not header.is_control:
                    for record in decode_body(data, place, header):
                        yield record.key, record.value


def test_every_record_of_kafka_comes_back_as_it_was():
    states = set()
    for key, value in kafka_records():
        record = decode((key, value))
        assert record is not None and record.value is not None
        states.add(record.value.state)
        again = encode(record, int.from_bytes(value[:2], "big"))
        # Kafka does not order topics.
        assert (again[0], sorted(again[1] or b"")) == (key, sorted(value))
        assert again[1] == value or len({each.topic for each in record.value.partitions}) > 1
        assert decode(again) == record
    assert states == set(TransactionState)


def test_what_kafka_wrote_is_read():
    found = [decode(raw) for raw in kafka_records()]
    ended = [each.value for each in found if each is not None and each.value is not None]
    assert {each.client_version for each in ended} == {0, 2}
    assert {each.previous_producer_id for each in ended} == {1000, 1001, 1004, 2000}


@pytest.mark.parametrize("version", [0, 1])
def test_what_is_written_is_read(version):
    record = TransactionRecord("orders", FULL)
    read = decode(encode(record, version))
    untagged = {
        "previous_producer_id": -1,
        "next_producer_id": -1,
        "client_version": 0,
        "next_producer_epoch": -1,
    }
    assert read == TransactionRecord("orders", FULL if version else replace(FULL, **untagged))
    forgotten = TransactionRecord("orders", None)
    assert decode(encode(forgotten, version)) == forgotten


def test_an_unknown_kind_is_passed_over():
    assert decode((b"\x00\x05\x00\x01x", b"\x00\x00")) is None


@pytest.mark.parametrize("state", [6, 7, 8, 100])
def test_states_that_are_in_no_log_are_refused(state):
    key, value = encode(TransactionRecord("x", FULL), 1)
    assert value is not None
    damaged = value[:16] + bytes((state,)) + value[17:]
    with pytest.raises(MalformedFrame):
        decode((key, damaged))


@pytest.mark.parametrize("seed", range(20))
def test_damaged_records_raise_nothing_else(seed):
    prng = Prng(seed)
    key, value = encode(TransactionRecord("x", FULL), seed % 2)
    assert value is not None
    for _ in range(100):
        damaged = bytearray(value[: prng.between(0, len(value))])
        for _ in range(prng.below(3)):
            if damaged:
                damaged[prng.below(len(damaged))] = prng.below(256)
        try:
            decode((key, bytes(damaged)))
        except MalformedFrame:
            continue
