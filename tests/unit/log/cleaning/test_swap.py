"""A crash at each step of a round of cleaning."""

from collections import Counter

import pytest

from tests.unit.log.cleaning.bench import (
    CleaningBench,
    check_same,
    committed_records,
    draw_history,
    sequences_of,
)
from tests.unit.log.harness import PARTITION, file_of
from tidelog.env.memory_disk import MemoryDisk, Operation
from tidelog.env.prng import Prng
from tidelog.errors import StorageError
from tidelog.log.checkpoint import CLEANER_FILE, decode_offsets
from tidelog.log.cleaning.swap import Swap

CHANGES = frozenset(
    {Operation.APPEND, Operation.CREATE, Operation.TRUNCATE, Operation.SYNC, Operation.REPLACE}
    | {Operation.RENAME, Operation.DELETE}
)


class CrashingDisk(MemoryDisk):
    """Dies before the operation of a given number, and stays dead."""

    def __init__(self) -> None:
        super().__init__()
        # Operations until it dies; `None` for never.
        self.left: int | None = None
        self.seen: Counter[Operation] = Counter()

    def begin(self, operation: Operation, path: str) -> None:
        super().begin(operation, path)
        if self.left is not None and operation in CHANGES:
            self.seen[operation] += 1
            self.left -= 1
            if self.left < 0:
                self.failing = "the machine is off"
                raise StorageError(path, self.failing)


def made(seed: int) -> CleaningBench:
    """A log with something to clean, all of it durable."""
    bench = CleaningBench(CrashingDisk(), segment_bytes=900)
    draw_history(bench, Prng(seed), 16)
    bench.commit_all()
    return bench


def disk_of(bench: CleaningBench) -> CrashingDisk:
    assert isinstance(bench.disk, CrashingDisk)
    return bench.disk


def crash_at_every_operation(seed: int) -> int:
    """Before each write, sync, rename and deletion of a round; of what was not durable any part
    survives. Each time the log starts undamaged, says the same, and can be cleaned. Returns how
    often that was; 0 where the log has nothing to clean."""
    complete = made(seed)
    disk_of(complete).left = 1 << 30
    if not complete.clean():
        return 0
    seen = disk_of(complete).seen
    assert {Operation.APPEND, Operation.SYNC, Operation.RENAME, Operation.REPLACE} <= set(seen)
    for number in range(seen.total()):
        bench = made(seed)
        before, sequences = committed_records(bench.log), sequences_of(bench.log)
        disk_of(bench).left = number
        with pytest.raises(StorageError):
            bench.clean()
        disk = disk_of(bench)
        disk.failing = disk.left = None
        bench.round = None
        log = bench.reopen_after_power_cut(Prng(number * 1000 + seed))
        log.reconfigure(bench.config)
        log.check()
        log.verify()
        cleaned_to = log.log_end_offset
        check_same(before, committed_records(log), cleaned_to=cleaned_to, may_bury=False)
        assert sequences_of(log) == sequences
        assert not [name for name in disk.list_dir(str(PARTITION)) if name.endswith(("ed", "swap"))]
        bench.commit_all()
        bench.clean()
        check_same(before, committed_records(log), cleaned_to=cleaned_to, may_bury=False)
    return seen.total()


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_at_every_operation_of_a_round(seed: int) -> None:
    """`sweep.py` has more seeds."""
    assert crash_at_every_operation(seed) > 10


def test_a_start_knows_of_the_cleaner() -> None:
    """By the checkpoint, before anything is missing; without it gaps would be damage."""
    bench = made(1)
    bench.begin()
    assert bench.log.cleaned_to == 0
    cleaning = bench.round
    assert cleaning is not None
    while not cleaning.waits:
        cleaning.step(5)
    bench.settle()
    assert PARTITION in decode_offsets(bench.disk.read_file(CLEANER_FILE) or b"")


def test_without_a_sync_between_its_stages_a_crash_loses_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """*SwapInSteps* switched off: all renames at once, and the sweep above finds it."""

    def hurry(self: Swap) -> None:
        self._open = self._written.write_indexes()
        while not self.is_done:
            self._go_on()

    monkeypatch.setattr(Swap, "begin", hurry)
    with pytest.raises((AssertionError, KeyError)):
        test_a_crash_at_every_operation_of_a_round(0)


def test_of_the_plain_names_a_power_cut_may_keep_any() -> None:
    """That of the transaction index alone: it was taken for the old segment's and deleted, the
    segment had none, as most, and readers of committed data got what was aborted."""
    bench = CleaningBench(segment_bytes=10_000)
    for value in (b"older", b"old", b"new"):
        bench.put((b"k", value))
    begun = bench.put((b"t", b"aborted"), producer=3, txn=1)
    bench.end(3, commit=False)
    for _ in range(3):
        bench.roll()
        bench.put((b"filler", b"x"))
    bench.log.update_high_watermark(begun + 1)
    bench.log.request_flush()
    bench.settle()
    bench.directory.checkpoint_recovery_points()
    assert bench.begin() and bench.round is not None
    index = file_of(0, ".txnindex")
    while not bench.disk.exists(index + ".deleted"):
        bench.round.step(50)
        bench.settle()
    bench.disk.rename(index + ".swap", index)
    bench.reopen_after_kill().reconfigure(bench.config)
    bench.commit_all()
    assert [one[2] for one in committed_records(bench.log) if one[1] in b"kt"] == [b"new"]
