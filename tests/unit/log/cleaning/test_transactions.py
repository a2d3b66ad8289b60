"""Markers, and what they are the last trace of."""

from tests.unit.log.cleaning.bench import CleaningBench, committed_records, full


def test_a_marker_goes_when_nothing_is_left_of_its_transaction() -> None:
    """Its data first, then a delete horizon of its own; an abort's entry in the index goes too."""
    bench = CleaningBench()
    bench.put((b"first", b"x"))
    bench.put((b"k", b"v"), producer=3, txn=1)
    bench.end(3, commit=False)
    bench.put((b"k", b"w"), producer=4, txn=1)
    bench.end(4, commit=True)
    for producer in (3, 4):
        bench.put((b"own-%d" % producer, b"x"), producer=producer)

    def markers() -> int:
        batches = [batch for one in bench.log.segments for batch in one.batches.scan()]
        return sum(one.header.is_control and one.header.record_count > 0 for one in batches)

    def entries() -> int:
        return sum(len(segment.txn_index.entries) for segment in bench.log.segments)

    full(bench, 1)
    assert bench.clean() and (markers(), entries()) == (2, 1)
    bench.put((b"k", b"newest"))
    full(bench, 2)
    assert bench.clean() and (markers(), entries()) == (2, 0)
    for number in range(3, 6):
        bench.wall_ms += 1000
        full(bench, number)
        assert bench.clean()
    assert markers() == 0


def test_an_abort_that_began_in_the_decided_part_is_not_forgotten_behind_it() -> None:
    """Another producer's open transaction ends the decided part in the middle of one that was
    aborted. Its entry in the index went with its first data, and what it had written behind that
    was shown as committed."""
    bench = CleaningBench(segment_bytes=10_000)
    bench.put((b"k", b"old"))
    bench.put((b"k", b"new"))
    bench.put((b"t", b"aborted before"), producer=3, txn=1)
    open_from = bench.put((b"u", b"u"), producer=4, txn=1)
    bench.put((b"t", b"aborted behind"), producer=3, txn=1)
    bench.end(3, commit=False)
    full(bench, 1)
    assert bench.log.last_stable_offset == open_from
    assert bench.clean() and bench.log.cleaned_to == open_from
    bench.end(4, commit=True)
    bench.commit_all()
    assert b"t" not in [one[1] for one in committed_records(bench.log)]
    full(bench, 2)
    assert bench.clean() and bench.log.cleaned_to > open_from
    assert b"t" not in [one[1] for one in committed_records(bench.log)]
