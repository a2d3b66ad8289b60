"""The Arrow decoder against the plain one: same records, same nulls, same errors."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c

from tests.fixtures import kafka_files
from tests.unit.pipeline.batch_samples import plain_rows, random_batches
from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch
from tidelog.pipeline.batches import check_crcs, read_batches
from tidelog.pipeline.decode import decode_table
from tidelog.pipeline.spark_columns import RECORD_TYPES, arrow_schema
from tidelog.records.batch import HEADER_BYTES, build_batch, stamp
from tidelog.records.control import EndTxnMarker, build_end_txn_marker
from tidelog.records.record import Record


def _decode(
    buffer: bytes,
    *,
    start_offset: int = 0,
    end_offset: int = 2**63 - 1,
    columns: Sequence[str] = tuple(RECORD_TYPES),
) -> Iterator[pa.RecordBatch]:
    table = read_batches(buffer)
    check_crcs(table)
    yield from decode_table(
        table, start_offset=start_offset, end_offset=end_offset, columns=columns
    )


def _rows(buffer: bytes, **options: Any) -> list[dict[str, Any]]:
    rows = []
    for batch in _decode(buffer, **options):
        batch.validate(full=True)
        index = batch.schema.get_field_index("timestamp")
        if index >= 0:
            micros = batch.column(index).cast(pa.int64())
            batch = batch.set_column(index, "timestamp", micros)
        rows += batch.to_pylist()
    for row in rows:
        if "timestamp" in row:
            assert row["timestamp"] % 1000 == 0
            row["timestamp"] //= 1000
    return rows


@pytest.mark.parametrize("seed", range(12))
def test_random_batches_decode_as_by_the_plain_decoder(seed):
    """Many small batches (abreast) and few large ones (one by one)."""
    prng = Prng(seed)
    buffer = random_batches(
        prng, *((120,) if seed % 2 else (3,)), max_records=20 if seed % 2 else 400
    )
    assert _rows(buffer) == plain_rows(buffer)


def test_more_rows_than_one_arrow_batch_holds():
    records = [Record(i, b"key-%d" % (i % 7), b"value-%06d" % i) for i in range(20_000)]
    buffer = build_batch(records, base_offset=5)
    got = list(_decode(buffer))
    assert [len(batch) for batch in got] == [8192, 8192, 3616]
    assert _rows(buffer) == plain_rows(buffer)


def test_only_the_wanted_offsets_come_out():
    buffer = random_batches(Prng(3), 30)
    rows = plain_rows(buffer)
    start, end = rows[17]["offset"], rows[-20]["offset"]
    wanted = [row for row in rows if start <= row["offset"] < end]
    assert _rows(buffer, start_offset=start, end_offset=end) == wanted
    assert _rows(buffer, start_offset=end, end_offset=end) == []


def test_only_the_wanted_columns_come_out_in_their_order():
    buffer = random_batches(Prng(3), 10)
    columns = ("value", "offset")
    expected = [{name: row[name] for name in columns} for row in plain_rows(buffer)]
    assert _rows(buffer, columns=columns) == expected
    assert next(_decode(buffer)).schema == arrow_schema(RECORD_TYPES)


def test_columns_of_the_batch_come_on_request_and_control_records_too():
    data = build_batch([Record(1, b"k", b"v")] * 2, base_offset=7, producer_id=9, producer_epoch=2)
    marker = EndTxnMarker(is_commit=True, coordinator_epoch=0)
    data += stamp(build_end_txn_marker(marker, 9, 2, 1), 9, 0)
    names = ("offset", "base_offset", "producer_id", "producer_epoch", "is_control")
    assert [tuple(row.values()) for row in _rows(data, columns=names)] == [
        (7, 7, 9, 2, False),
        (8, 7, 9, 2, False),
        (9, 9, 9, 2, True),
    ]
    assert [row["base_offset"] for row in _rows(data, columns=names[:2])] == [7, 7]


def test_header_keys_that_are_no_text_are_replaced_not_refused():
    buffer = bytearray(build_batch([Record(0, None, b"v", (("key", b"x"),))]))
    at = buffer.index(b"key")
    buffer[at : at + 3] = b"k\xff\xfe"
    (row,) = _rows(_with_crc(buffer))
    assert row["headers"] == [{"key": "k\ufffd\ufffd", "value": b"x"}]


def test_timestamps_beyond_microseconds_are_held_at_the_edge():
    (row,) = _rows(build_batch([Record(2**62, None, None)]))
    assert row["timestamp"] == (2**63 - 1) // 1000


def _with_crc(batch: bytearray) -> bytes:
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def test_damage_behind_a_good_checksum_is_corrupt_or_harmless():
    """Any bytes may stand behind a valid CRC; nothing but `CorruptBatch` may escape and no array
    may point outside its buffer (`validate(full=True)` in `_rows`)."""
    prng = Prng(11)
    original = random_batches(prng, 3, max_records=5)
    refused = 0
    for _ in range(400):
        buffer = build_batch(
            [Record(5, b"k%d" % i, b"v" * prng.below(30), (("h", None),)) for i in range(9)]
        )
        batch = bytearray(buffer)
        for _ in range(1 + prng.below(3)):
            where = prng.between(HEADER_BYTES, len(batch) - 1)
            batch[where] = prng.choice((prng.below(256), 0xFF, 0x80, 0x01))
        try:
            _rows(original + _with_crc(batch))
        except CorruptBatch:
            refused += 1
    assert refused > 130


def test_offsets_that_do_not_ascend_are_corrupt():
    batch = bytearray(build_batch([Record(5, None, b"first"), Record(5, None, b"second")]))
    at = batch.index(b"second") - 3
    assert batch[at] == 2  # The offset delta 1 of the second record, zig-zag.
    batch[at] = 0
    with pytest.raises(CorruptBatch, match="do not ascend"):
        _rows(_with_crc(batch))


def test_wrong_record_counts_are_corrupt():
    batch = bytearray(build_batch([Record(5, b"k", b"v")] * 3))
    for count in (-1, 2, 4, 2**31 - 1):
        batch[57:61] = count.to_bytes(4, "big", signed=True)
        with pytest.raises(CorruptBatch):
            _rows(_with_crc(batch))


@pytest.mark.parametrize("topic", ["plain", "gzip", "snappy", "lz4", "zstd", "txn", "compact"])
def test_segments_that_kafka_wrote_decode_as_by_the_plain_decoder(topic):
    """All codecs, null keys and values, headers, control batches, compaction gaps."""
    segments = {
        path: data
        for path, data in kafka_files("node1").items()
        if path.startswith(f"{topic}-") and path.endswith(".log")
    }
    assert segments
    for path, data in segments.items():
        expected = plain_rows(data)
        assert expected, path
        assert _rows(data) == expected, path
