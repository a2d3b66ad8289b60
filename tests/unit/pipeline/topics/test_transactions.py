"""What `read_committed` hides: by hand-made answers, and by segments that Kafka wrote."""

import pytest

from tests.fixtures import kafka_files
from tidelog.env.prng import Prng
from tidelog.pipeline.batches import read_batches
from tidelog.pipeline.decode import decode_table
from tidelog.pipeline.topics.transactions import hide_aborted
from tidelog.records.batch import build_batch, decode_batch, iter_headers
from tidelog.records.record import Record
from tidelog.wire.fetch import AbortedTransaction

_ABORT, _COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def _data(offset: int, producer: int, count: int = 1) -> bytes:
    return build_batch(
        [Record(5, None, b"v")] * count,
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=producer >= 0,
    )


def _marker(offset: int, producer: int, kind: bytes) -> bytes:
    return build_batch(
        [Record(5, kind, b"\0" * 6)],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def _seen(buffer: bytes, aborted: list[AbortedTransaction]) -> list[int]:
    table = hide_aborted(read_batches(buffer), aborted)
    batches = decode_table(table, start_offset=0, end_offset=2**62, columns=["offset"])
    return [offset for batch in batches for offset in batch.column(0).to_pylist()]


def test_a_producer_may_abort_commit_and_abort_again_in_one_answer():
    buffer = b"".join(
        [
            _data(0, 7),
            _data(1, 8),
            _data(2, -1),
            _marker(3, 7, _ABORT),
            _data(4, 7),
            _marker(5, 8, _COMMIT),
            _marker(6, 7, _COMMIT),
            _data(7, 7, 3),
            _data(10, -1),
            _marker(11, 7, _ABORT),
            _data(12, 7),
        ]
    )
    aborted = [AbortedTransaction(7, 7), AbortedTransaction(7, 0)]
    assert _seen(buffer, aborted) == [1, 2, 4, 10, 12]
    assert _seen(buffer, []) == [0, 1, 2, 4, 7, 8, 9, 10, 12]


def test_an_answer_may_begin_in_the_midst_of_an_aborted_transaction():
    buffer = _data(50, 7) + _data(51, 9) + _marker(52, 7, _ABORT) + _data(53, 7)
    assert _seen(buffer, [AbortedTransaction(7, 12)]) == [51, 53]


def test_hidden_batches_are_accounted_for_with_the_markers():
    buffer = _data(0, 7, 2) + _data(2, -1) + _marker(3, 7, _ABORT)
    table = hide_aborted(read_batches(buffer), [AbortedTransaction(7, 0)])
    columns = ["offset", "is_control"]
    (batch,) = decode_table(table, start_offset=0, end_offset=9, columns=columns)
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        (0, True),
        (1, True),
        (2, False),
        (3, True),
    ]


def _decided(segment: bytes) -> tuple[list[int], list[AbortedTransaction]]:
    """The offsets that a committed reader must see, and the aborted ranges, worked out the slow
    way: by keeping every open transaction until its marker says what it was."""
    seen: list[int] = []
    aborted = []
    open_transactions: dict[int, list[int]] = {}
    for position, header in iter_headers(segment):
        records = decode_batch(segment[position : position + header.size_bytes])
        offsets = [record.offset for record in records]
        if header.is_control:
            waiting = open_transactions.pop(header.producer_id, [])
            if records[0].key[2:4] == b"\0\1":
                seen += waiting
            elif waiting:
                aborted.append(AbortedTransaction(header.producer_id, waiting[0]))
        elif header.is_transactional:
            open_transactions.setdefault(header.producer_id, []).extend(offsets)
        else:
            seen += offsets
    assert not open_transactions
    return sorted(seen), aborted


@pytest.mark.parametrize("topic", ["txn", "copy"])
def test_transactions_that_kafka_wrote_are_separated(topic):
    segments = {
        path: data
        for path, data in kafka_files("node1").items()
        if path.startswith(f"{topic}-") and path.endswith(".log") and data
    }
    assert segments
    for path, data in segments.items():
        expected, aborted = _decided(data)
        assert _seen(data, aborted) == expected, path
    if topic == "txn":
        assert any(_decided(data)[1] for data in segments.values())


@pytest.mark.parametrize("seed", range(10))
def test_any_mix_of_transactions_is_separated(seed):
    prng = Prng(seed)
    parts, offset = [], 0
    begun: set[int] = set()
    for _ in range(150):
        producer = prng.choice((-1, 1, 2, 3))
        if producer in begun and prng.chance(1, 3):
            parts.append(_marker(offset, producer, prng.choice((_ABORT, _COMMIT))))
            begun.discard(producer)
            offset += 1
        else:
            count = 1 + prng.below(4)
            parts.append(_data(offset, producer, count))
            begun |= {producer} - {-1}
            offset += count
    for producer in sorted(begun):
        parts.append(_marker(offset, producer, _ABORT))
        offset += 1
    buffer = b"".join(parts)
    expected, aborted = _decided(buffer)
    assert _seen(buffer, aborted) == expected
    assert 0 < len(expected) < offset
