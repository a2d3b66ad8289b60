"""What the device gives is compared with what was written: the log, its indexes, its epochs."""

from dataclasses import replace

import pytest

from tests.unit.log.harness import PARTITION, WALL_MS, LogBench, read_all
from tidelog.config import LogConfig
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, LogDamaged
from tidelog.log.file_names import offset_name

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
