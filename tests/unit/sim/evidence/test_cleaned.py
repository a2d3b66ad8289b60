"""What a checker lets a cleaner remove, and what not."""

from tests.unit.log.cleaning.bench import CleaningBench, full
from tests.unit.log.harness import WALL_MS
from tidelog.sim.evidence.cleaned import CleanedBatch, complaint
from tidelog.sim.evidence.oracle import contents_of

END = 8


def cleaned() -> tuple[CleaningBench, list[CleanedBatch], list[CleanedBatch]]:
    """A log before and after a round: `k` has a newer value, `gone` a tombstone."""
    bench = CleaningBench()
    bench.put((b"k", b"old"), (b"other", b"v"))
    bench.put((b"gone", b"v"))
    bench.put((b"gone", None))
    bench.put((b"k", b"new"))
    full(bench, 1)
    before = contents_of(bench.log, 0, bench.log.log_end_offset)
    assert bench.clean()
    return bench, before, contents_of(bench.log, 0, bench.log.log_end_offset)


def without(batches: list[CleanedBatch], offset: int) -> list[CleanedBatch]:
    """The same without one record."""
    return [
        batch._replace(records=tuple(one for one in batch.records if one.offset != offset))
        for batch in batches
    ]


def test_what_a_cleaner_does_is_right() -> None:
    bench, before, after = cleaned()
    assert after != before
    assert complaint(bench.log, after, before, END, WALL_MS) is None
    assert complaint(bench.log, before, before, END, WALL_MS) is None


def test_the_newest_record_of_a_key_may_not_go() -> None:
    bench, before, after = cleaned()
    wrong = complaint(bench.log, without(after, 1), before, END, WALL_MS)
    assert wrong is not None and "other" in wrong


def test_a_tombstone_may_go_when_its_time_has_come() -> None:
    bench, before, after = cleaned()
    early = complaint(bench.log, without(after, 3), before, END, WALL_MS + 999)
    assert early is not None and "gone" in early
    assert complaint(bench.log, without(after, 3), before, END, WALL_MS + 1000) is None


def test_nothing_is_there_that_was_not_committed() -> None:
    bench, before, after = cleaned()
    other_epoch = [batch._replace(leader_epoch=7) for batch in after]
    assert complaint(bench.log, other_epoch, before, END, WALL_MS) is not None
    record = before[0].records[0]._replace(value=b"never written")
    forged = [before[0]._replace(records=(record,)), *after[1:]]
    assert complaint(bench.log, forged, before, END, WALL_MS) is not None
