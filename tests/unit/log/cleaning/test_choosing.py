"""Which part of a log is cleaned, and when."""

import pytest

from tests.unit.log.cleaning.bench import CleaningBench, check_same, committed_records, full
from tests.unit.log.harness import PARTITION, TOPIC_ID, LogBench
from tidelog.errors import LogDamaged
from tidelog.log.pieces import finish
from tidelog.log.state import UNCUT, LogState
from tidelog.model import TopicId


def test_nothing_undecided_is_cleaned() -> None:
    """An open transaction stops the cleaner, and so does what is not committed."""
    bench = CleaningBench()
    for number in range(10):
        bench.put((b"k", b"%d" % number))
    bench.put((b"k", b"open"), producer=3, txn=1)
    full(bench, 1)
    assert bench.clean()
    assert bench.log.cleaned_to == 10
    assert (10, b"k", b"open") not in committed_records(bench.log)
    other = CleaningBench()
    for number in range(40):
        other.put((b"k", b"%d" % number))
    other.log.update_high_watermark(5)
    other.log.request_flush()
    other.settle()
    assert other.clean() and other.log.cleaned_to == 5


def test_young_records_wait() -> None:
    """For `min.compaction.lag.ms`; and those that waited `max.compaction.lag.ms` do not."""
    bench = CleaningBench(min_compaction_lag_ms=5000, max_compaction_lag_ms=9000)
    for number in range(20):
        bench.put((b"k", b"%d" % number))
    full(bench, 1)
    assert not bench.clean()
    bench.configure(min_cleanable_dirty_ratio=1.0)
    bench.wall_ms += 5001
    assert not bench.clean()
    bench.wall_ms += 4000
    assert bench.clean()


def a_cleaned_log() -> CleaningBench:
    """Of several segments, the first of which are cleaned; tombstones go with the second round."""
    bench = CleaningBench(segment_bytes=400, delete_retention_ms=0)
    for number in range(30):
        bench.put((b"k%d" % number, b"v"))
    full(bench, 1)
    assert bench.clean()
    return bench


def write_and_delete_a_value(bench: CleaningBench, end: int) -> None:
    """In the segment at the log end; others follow up to an offset."""
    bench.put((b"gone", b"value"))
    bench.put((b"gone", None))
    while bench.log.log_end_offset < end:
        bench.put((b"k%d" % bench.log.log_end_offset, b"v"))


def shown_after_rounds(bench: CleaningBench) -> list[bytes | None]:
    """The values of the key that was deleted, after enough rounds for its tombstone to go."""
    for number in range(2, 5):
        full(bench, number)
        bench.wall_ms += 1
        assert bench.clean()
    return [one[2] for one in committed_records(bench.log) if one[1] == b"gone"]


def test_what_came_after_a_cut_is_dirty() -> None:
    """A follower was cut below where its cleaner had been, fetched other records and was killed
    before the next checkpoint. The start took these for clean: a tombstone among them went, and
    the value that it had deleted stayed."""
    bench = a_cleaned_log()
    cleaned_to, log = bench.log.cleaned_to, bench.log
    log.announced_end = log.segments[1].base_offset
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    log.truncate_to(log.announced_end)
    log.announced_end = UNCUT
    write_and_delete_a_value(bench, cleaned_to + 5)
    bench.reopen_after_kill().reconfigure(bench.config)
    assert bench.log.log_end_offset > cleaned_to
    assert shown_after_rounds(bench) == []


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_log_made_anew_is_dirty(is_clean: bool) -> None:
    """The only log that was cleaned was deleted before the process had written a checkpoint of the
    cleaner. The file of the process before stayed, and counted for the next log of that name."""
    bench = a_cleaned_log()
    cleaned_to = bench.log.cleaned_to
    bench.reopen_cleanly()
    bench.directory.schedule_delete(PARTITION)
    finish(bench.directory.forget_renamed())
    LogBench.settle(bench)
    while bench.directory.clear_renamed(9):
        pass
    bench.directory.create(PARTITION, TopicId(bytes(15) + b"\x07"), bench.config)
    write_and_delete_a_value(bench, cleaned_to + 5)
    bench.commit_all()
    log = bench.reopen_cleanly() if is_clean else bench.reopen_after_kill()
    log.reconfigure(bench.config)
    assert log.cleaned_to <= 0 and shown_after_rounds(bench) == []


def test_what_came_after_a_repair_is_dirty() -> None:
    """Likewise a log that was repaired. The start finds it damaged once more, since its records are
    not all back, and the second repair cuts it above where the cleaner had been."""
    bench = a_cleaned_log()
    cleaned_to = bench.log.cleaned_to
    while bench.log.log_end_offset < cleaned_to + 50:
        bench.put((b"k", b"v"))
    bench.commit_all()
    first_repaired = bench.log.segments[1].base_offset
    bench.directory.quarantine(PARTITION, LogDamaged("damaged", first_repaired))
    bench.settle()
    finish(bench.directory.repaired(PARTITION, TOPIC_ID, bench.config))
    assert bench.log.log_end_offset == first_repaired
    write_and_delete_a_value(bench, cleaned_to + 20)
    started = LogBench(bench.config, bench.disk)
    bench.directory, bench.effects = started.directory, started.effects
    finish(bench.directory.repaired(PARTITION, TOPIC_ID, bench.config))
    assert bench.log.log_end_offset > cleaned_to
    assert shown_after_rounds(bench) == []


def test_a_cleaner_beyond_the_last_stable_offset_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A safeguard switched off: a transaction that is aborted later takes a value with it."""
    monkeypatch.setattr(LogState, "last_stable_offset", LogState.high_watermark)
    bench = CleaningBench()
    bench.put((b"k", b"v"))
    bench.put((b"k", b"undecided"), producer=3, txn=1)
    full(bench, 1)
    monkeypatch.undo()
    before = committed_records(bench.log)
    monkeypatch.setattr(LogState, "last_stable_offset", LogState.high_watermark)
    assert bench.clean()
    monkeypatch.undo()
    with pytest.raises(AssertionError):
        check_same(
            before, committed_records(bench.log), cleaned_to=bench.log.cleaned_to, may_bury=False
        )
