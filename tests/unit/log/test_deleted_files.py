"""Files that wait to be deleted: how long, in which order, and what a log owes meanwhile."""

import pytest

from tests.unit.log.cleaning.bench import CleaningBench, full
from tests.unit.log.harness import PARTITION, LogBench
from tidelog.config import LogConfig
from tidelog.env.instant import Instant
from tidelog.env.memory_disk import MemoryDisk, Operation
from tidelog.errors import StorageError
from tidelog.log.checkpoint import LOG_START_FILE, decode_offsets
from tidelog.log.deleted_files import DeletedSegment, DeletionNotDurable
from tidelog.log.file_names import offset_name


@pytest.fixture
def bench() -> LogBench:
    """See `filled`."""
    return filled(MemoryDisk())


def filled(disk: MemoryDisk) -> LogBench:
    """Ten segments, of which three have left the log; their files are due at 10, 20 and 30."""
    bench = LogBench(LogConfig(segment_bytes=200, index_interval_bytes=10), disk)
    for _ in range(20):
        bench.append()
    log = bench.log
    log.update_high_watermark(20)
    log.maybe_raise_log_start_offset(log.segments[3].base_offset)
    bench.settle()
    bases = log.set_segments_aside(log.log_start_offset, 99)
    for number, base in enumerate(bases, start=1):
        due_at = Instant(10 * number)
        bench.directory.deleted_files.add(DeletedSegment(PARTITION, base, due_at))
    return bench


def aside(bench: LogBench) -> list[str]:
    """The log files that wait."""
    names = bench.disk.list_dir(str(PARTITION))
    return [name for name in names if name.endswith(".log.deleted")]


def saved_starts(bench: LogBench) -> dict[object, int]:
    """What the checkpoint of log starts has."""
    bench.directory.checkpoint_log_start_offsets()
    bench.settle()
    return dict(decode_offsets(bench.disk.read_file(LOG_START_FILE) or b""))


def test_files_go_when_they_are_due(bench: LogBench) -> None:
    """All files of a segment at once, and not more than asked for."""
    files = bench.directory.deleted_files
    assert (len(aside(bench)), files.next_at) == (3, 10)
    assert files.clear(Instant(9), 5) == 0
    assert files.clear(Instant(20), 1) == 1
    assert files.clear(Instant(20), 5) == 1
    assert files.clear(Instant(30), 5) == 1
    assert (len(files), files.next_at) == (0, None)
    assert not [name for name in bench.disk.list_dir(str(PARTITION)) if "deleted" in name]


def test_the_log_start_is_checkpointed_until_the_last_one_is_gone(bench: LogBench) -> None:
    """A crash may give the files their names back until then, and not after that."""
    start = bench.log.log_start_offset
    assert bench.log.segments.first_base_offset == start
    assert saved_starts(bench) == {PARTITION: start}
    bench.directory.deleted_files.clear(Instant(20), 5)
    assert saved_starts(bench) == {PARTITION: start}
    bench.directory.deleted_files.clear(Instant(30), 5)
    assert saved_starts(bench) == {}
    log = bench.reopen_after_power_cut()
    assert log.log_start_offset == start
    assert PARTITION not in bench.directory.damaged


def test_a_start_deletes_them(bench: LogBench) -> None:
    """The list of them was in memory."""
    bench.reopen_cleanly()
    assert aside(bench) == []


def test_a_log_that_is_deleted_takes_them_along(bench: LogBench) -> None:
    """A new log of the same name has others."""
    bench.directory.schedule_delete(PARTITION)
    files = bench.directory.deleted_files
    assert (len(files), PARTITION in files.owing) == (0, False)


def test_a_disk_that_fails_is_asked_again(bench: LogBench) -> None:
    """Nothing is forgotten."""
    files = bench.directory.deleted_files
    bench.disk.failing = "input/output error"
    with pytest.raises(StorageError):
        files.clear(Instant(30), 5)
    bench.disk.failing = None
    assert files.clear(Instant(30), 5) == 3


def test_a_file_that_cannot_be_deleted_keeps_no_other_from_it() -> None:
    """A person has protected it, or its part of the directory is bad. All that was due behind it
    stayed on the disk until it was full."""

    class StubbornDisk(MemoryDisk):
        def begin(self, operation: Operation, path: str) -> None:
            if operation is Operation.DELETE and path.endswith(f"{offset_name(0)}.log.deleted"):
                raise StorageError(path, "operation not permitted")
            super().begin(operation, path)

    bench = filled(StubbornDisk())
    files = bench.directory.deleted_files
    for _ in range(3):
        with pytest.raises(StorageError):
            files.clear(Instant(30), 5)
    assert aside(bench) == [f"{offset_name(0)}.log.deleted"]
    assert (len(files), files.owing) == (1, {PARTITION})


def test_a_segment_and_the_one_in_its_place_may_wait_together() -> None:
    """A cleaner replaces the first segments, and retention takes the new ones out before the files
    of the old ones are due. The first deletion took both, without a sync, and the last one found
    nothing to delete: after a power cut the log began at 0 again."""
    bench = CleaningBench(segment_bytes=400, cleanup_policy="compact,delete")
    files = bench.directory.deleted_files

    def put_aside(base_offset: int, due_at: int) -> None:
        files.add(DeletedSegment(PARTITION, base_offset, Instant(due_at)))

    for number in range(30):
        bench.put((b"k%d" % number, b"v"))
    full(bench, 1)
    assert bench.clean(put_aside=lambda base_offset: put_aside(base_offset, 60))
    log, replaced = bench.log, len(files)
    bench.disk.sync(bench.disk.everything())
    log.maybe_raise_log_start_offset(log.segments[3].base_offset)
    bench.directory.checkpoint_log_start_offsets()
    bench.settle()
    start, bases = log.log_start_offset, log.set_segments_aside(log.log_start_offset, 99)
    for base_offset in bases:
        put_aside(base_offset, 90)
    assert len(bases) == 3 and len(files) == replaced
    files.clear(Instant(60), 99)
    assert set(aside(bench)) == {f"{offset_name(base)}.log.deleted" for base in bases}
    files.clear(Instant(90), 99)
    assert saved_starts(bench) == {} and not files
    assert bench.reopen_after_power_cut().log_start_offset == start


class UnsyncedDeletions(MemoryDisk):
    """A disk that deletes, and fails to make that durable."""

    def delete(self, path: str, *, durable: bool = True) -> None:
        super().delete(path, durable=False)
        if durable and path.endswith(".deleted"):
            raise StorageError(path, "input/output error")


def test_a_deletion_that_is_not_durable_is_not_tried_again() -> None:
    """The files are gone, so that the next attempt found none and synced nothing: the log owed its
    start to the checkpoint no more, and a power cut could bring its segments back."""
    bench = filled(UnsyncedDeletions())
    files = bench.directory.deleted_files
    assert files.clear(Instant(20), 5) == 2
    with pytest.raises(DeletionNotDurable, match="input/output error") as caught:
        files.clear(Instant(30), 5)
    assert caught.value.topic_partition == PARTITION
    assert not aside(bench)
    assert PARTITION in files.owing
