"""What the device gives is compared with what was written: the log, its indexes, its epochs."""

from dataclasses import replace

import pytest

from tests.fixtures import KAFKA_WALL_MS, kafka_disk, kafka_dump
from tests.unit.log.harness import PARTITION, WALL_MS, LogBench, read_all
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import ErrorCode, LogDamaged
from tidelog.log.directory import LogDirectory
from tidelog.log.file_names import offset_name
from tidelog.log.values import TimestampedOffset
from tidelog.model import TopicPartition
from tidelog.records.batch import build_batch, decode_batch, iter_headers, read_header, rebuild
from tidelog.records.record import Record, encode_records

SMALL = LogConfig(segment_bytes=2_000, index_interval_bytes=200)
FIELDS = {"base offset": 0, "length": 8, "epoch": 12, "magic": 16, "checksum": 17, "body": 70}


def bench() -> LogBench:
    """Forty batches in several segments and two epochs, nothing in memory."""
    made = LogBench(SMALL)
    for index in range(40):
        made.append(count=1 + index % 3, epoch=index // 20, timestamp=WALL_MS + index)
    made.log.tail.clear()
    return made


def path_of(made: LogBench, index: int, suffix: str = ".log") -> str:
    return f"{PARTITION}/{offset_name(made.log.segments[index].base_offset)}{suffix}"


@pytest.mark.parametrize("field", FIELDS)
def test_no_byte_of_a_batch_may_change_unnoticed(field: str) -> None:
    """Goal: whatever bit of a batch flips, also where no checksum covers it, a reader gets the
    right bytes or `LogDamaged`. Method: each bit of the field's first byte and of its last."""
    for bit in range(8):
        for byte in (FIELDS[field], FIELDS[field] + (7 if field == "base offset" else 0)):
            made = bench()
            expected = read_all(made.log)
            for batch in list(made.log.segments[1].batches.scan())[1:4]:
                made.disk.flip_bit(path_of(made, 1), 8 * (batch.position + byte) + bit)
                made.log.tail.clear()
                with pytest.raises(LogDamaged) as caught:
                    assert read_all(made.log) != expected
                    raise AssertionError(f"byte {byte} bit {bit} was served")
                assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
                assert caught.value.base_offset == made.log.segments[1].base_offset
                made.disk.flip_bit(path_of(made, 1), 8 * (batch.position + byte) + bit)


def test_a_wrong_index_is_made_anew_and_readers_do_not_notice() -> None:
    """Goal: indexes have no checksum; entries that do not fit the log never mislead a reader."""
    made = bench()
    made.reopen_cleanly()
    for suffix in (".index", ".timeindex"):
        for seed in range(20):
            path = path_of(made, 2, suffix)
            good = made.disk.read_file(path)
            assert good
            made.disk.flip_bit(path, Prng(seed).below(8 * len(good)))
            log = made.reopen_cleanly()
            log.tail.clear()
            for index in range(0, 40, 3):
                found = log.offset_for_timestamp(WALL_MS + index)
                assert found is not None
                assert found.timestamp >= WALL_MS + index
                assert log.read(found.offset, 1, 99, at_least_one=True).first_offset <= found.offset
            made.disk.replace(path, good)


def test_verify_finds_what_no_reader_has_read() -> None:
    made = bench()
    made.log.verify()
    made.disk.flip_bit(path_of(made, 0), 8 * 100)
    with pytest.raises(LogDamaged, match="wrong checksum"):
        made.log.verify()
    cut = bench()
    cut.disk.content(path_of(cut, 1)).truncate(0)
    with pytest.raises(LogDamaged, match="it ends at"):
        cut.log.verify()


def test_holes_are_damage_unless_the_topic_is_compacted() -> None:
    made = bench()
    gone = made.log.segments[1]
    made.disk.content(path_of(made, 1)).truncate(0)
    with pytest.raises(LogDamaged, match="is missing"):
        made.log.read(gone.base_offset, 999, 99, at_least_one=True)
    made.log.reconfigure(replace(SMALL, cleanup_policy="compact"))
    found = made.log.read(gone.base_offset, 999, 99, at_least_one=True)
    assert found.first_offset == made.log.segments[2].base_offset


# Lookups by time --------------------------------------------------------------------------


def test_the_first_record_at_or_after_a_time() -> None:
    """Goal: inside a batch, between batches, across segments; none when all are older."""
    bench = LogBench(LogConfig(segment_bytes=400, index_interval_bytes=100))
    for index in range(10):
        bench.append(count=3, epoch=index, timestamp=WALL_MS + 10 * index)
    find = bench.log.offset_for_timestamp
    assert find(0) == TimestampedOffset(WALL_MS, 0, 0)
    assert find(WALL_MS + 42) == TimestampedOffset(WALL_MS + 42, 14, 4)
    assert find(WALL_MS + 43) == TimestampedOffset(WALL_MS + 50, 15, 5)
    assert find(WALL_MS + 93) is None


def test_deleted_records_are_not_found() -> None:
    """Goal: nothing below the log start is an answer, even inside a batch that spans it."""
    bench = LogBench()
    bench.append(count=5)
    bench.log.update_high_watermark(5)
    bench.log.maybe_raise_log_start_offset(3)
    found = bench.log.offset_for_timestamp(0)
    assert found is not None and found.offset == 3


def test_the_largest_timestamp() -> None:
    """Goal: the first record that has it, wherever it lies; none in an empty log."""
    bench = LogBench(LogConfig(segment_bytes=400))
    assert bench.log.max_timestamp() is None
    for timestamp in (5, 90, 30, 90, 10):
        bench.append(count=2, timestamp=timestamp)
    assert bench.log.max_timestamp() == TimestampedOffset(91, 3, 0)


def test_a_timestamp_that_no_answer_can_have_is_the_headers() -> None:
    """Goal: a client's batch with a base near the end of time and a delta; its header is right."""
    bench = LogBench()
    header = read_header(build_batch([Record(WALL_MS, b"k", b"v")]))
    header = header._replace(base_timestamp=2**63 - 1)
    body = encode_records([Record(2**63, b"k", b"v")], 2**63 - 1)
    bench.log.append_as_leader(rebuild(header, body), 0, WALL_MS)
    expected = TimestampedOffset(header.max_timestamp, 0, 0)
    assert bench.log.offset_for_timestamp(0) == expected
    assert bench.log.max_timestamp() == expected


def test_lookups_equal_a_linear_search() -> None:
    """Goal: a property; unordered timestamps over many segments, against a plain loop."""
    bench = LogBench(LogConfig(segment_bytes=900, index_interval_bytes=150))
    prng = Prng(77)
    for _ in range(120):
        bench.append(count=prng.between(1, 4), timestamp=prng.below(1_000))
    records = []
    for segment in bench.log.segments:
        for found in segment.batches.scan():
            records += decode_batch(found.data)
    for timestamp in range(0, 1_100, 7):
        expected = next((r.offset for r in records if r.timestamp >= timestamp), None)
        answer = bench.log.offset_for_timestamp(timestamp)
        assert (answer.offset if answer else None) == expected, timestamp


@pytest.mark.parametrize("name", ["plain", "gzip", "rolled"])
def test_kafkas_records_are_found_by_their_time(name: str) -> None:
    """Goal: golden; for times that Kafka dumps, the first record at or after them."""
    directory = LogDirectory.open(
        kafka_disk("node1"),
        effects=EffectQueue(),
        trace=Trace(TraceList()),
        default_config=LogConfig(),
        wall_ms=KAFKA_WALL_MS,
    )
    log = directory.logs[TopicPartition(name, 0)]
    records = [
        record
        for segment in log.segments
        for dumped in kafka_dump(f"{name}-0/{segment.base_offset:020d}.log")
        for record in dumped.records
    ]
    assert len(records) == log.log_end_offset
    for record in records[:: max(1, len(records) // 25)]:
        expected = next(r.offset for r in records if r.timestamp >= record.timestamp)
        found = log.offset_for_timestamp(record.timestamp)
        assert found is not None and found.offset == expected
    assert len(list(iter_headers(log.segments[0].file.read(0, 1 << 30)))) > 0
