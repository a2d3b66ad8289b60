"""Which part of a log is cleaned, and when."""

import pytest

from tests.unit.log.cleaning.bench import CleaningBench, check_same, committed_records, full
from tidelog.log.state import LogState


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
