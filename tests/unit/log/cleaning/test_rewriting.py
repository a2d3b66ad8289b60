"""What stays of a batch: the newest record of a key, tombstones until their horizon."""

import pytest

from tests.unit.log.cleaning.bench import CleaningBench, check_same, committed_records, full
from tests.unit.log.harness import WALL_MS
from tidelog.records.batch import BatchHeader, build_batch, read_header, rebuild
from tidelog.records.record import Record, encode_records


def test_one_record_of_each_key_stays() -> None:
    """The newest below the active segment; keys of any length."""
    bench = CleaningBench()
    for number in range(40):
        bench.put((b"a" * (number % 4 * 10), b"%d" % number))
    full(bench, 1)
    assert bench.clean()
    below = [one for one in committed_records(bench.log) if one[0] < bench.log.cleaned_to]
    assert [record[2] for record in below] == [b"36", b"37", b"38", b"39", b"x"]


def test_a_tombstone_stays_until_its_horizon() -> None:
    """The first round decides when; later ones keep to it."""
    bench = CleaningBench()
    bench.put((b"k", b"v"))
    bench.put((b"k", None))
    full(bench, 1)

    def tombstones() -> list[int]:
        return [one[0] for one in committed_records(bench.log) if one[2] is None]

    assert bench.clean()
    horizons = [batch.header.delete_horizon_ms for batch in bench.log.segments[0].batches.scan()]
    assert WALL_MS + 1000 in horizons
    bench.wall_ms = WALL_MS + 999
    full(bench, 2)
    assert bench.clean() and tombstones() == [1]
    bench.wall_ms = WALL_MS + 1000
    full(bench, 3)
    assert bench.clean() and tombstones() == []
    assert b"k" not in {one[1] for one in committed_records(bench.log)}


def test_timestamps_are_the_same_when_a_horizon_is_set() -> None:
    """The horizon takes the place of the base that they are counted from."""
    bench = CleaningBench()
    bench.put((b"k", None), (b"other", b"v"), codec=1)
    full(bench, 1)
    assert bench.clean()
    found = bench.log.offset_for_timestamp(WALL_MS)
    assert found is not None and (found.timestamp, found.offset) == (WALL_MS, 0)
    assert bench.log.segments[0].max_timestamp == WALL_MS


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1)])
def test_a_timestamp_that_no_header_can_have_does_not_end_a_cleaning(base: int, delta: int) -> None:
    """Goal: of a batch with a base near the end of time one record stays, whose sum is beyond."""
    bench = CleaningBench()
    records = [Record(base + delta, key, b"v") for key in (b"a", b"b")]
    header = read_header(build_batch([Record(WALL_MS, b"k", b"v")] * 2))
    data = rebuild(header._replace(base_timestamp=base), encode_records(records, base))
    bench.log.append_as_leader(data, 0, WALL_MS)
    bench.put((b"a", b"w"))
    full(bench, 1)
    assert bench.clean()
    first = next(iter(bench.log.segments[0].batches.scan())).header
    assert (first.record_count, first.max_timestamp) == (1, (2**63 - 1) * delta)


def test_a_tombstone_that_goes_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A safeguard switched off: the horizon is now."""
    monkeypatch.setattr(BatchHeader, "delete_horizon_ms", 0)
    bench = CleaningBench()
    bench.put((b"k", b"v"))
    bench.put((b"k", None))
    full(bench, 1)
    before = committed_records(bench.log)
    assert bench.clean()
    after = committed_records(bench.log)
    with pytest.raises(AssertionError):
        check_same(before, after, cleaned_to=bench.log.cleaned_to, may_bury=False)
