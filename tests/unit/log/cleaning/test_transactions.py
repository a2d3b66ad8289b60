"""Markers, and what they are the last trace of."""

from tests.unit.log.cleaning.bench import CleaningBench, full


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
