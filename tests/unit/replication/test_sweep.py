"""A pass over all replicas in slices."""

from tests.unit.log.harness import LogBench
from tests.unit.replication.surroundings import make_env
from tidelog.env.instant import Instant
from tidelog.limits import MAX_REPLICAS_CHECKED_PER_TURN as MOST
from tidelog.replication.partition import Partition
from tidelog.replication.sweep import Sweep


def at(ms: int) -> Instant:
    return Instant(ms)


def replicas(count: int) -> list[Partition]:
    bench = LogBench()
    return [Partition(bench.log, make_env(bench)) for _ in range(count)]


def test_a_turn_takes_a_slice_and_the_next_comes_a_millisecond_later() -> None:
    sweep, all_of_them = Sweep(), replicas(2 * MOST + 1)
    assert (sweep.next_at, sweep.take(at(5))) == (None, ())
    sweep.begin(all_of_them, at(5))
    assert sweep.next_at == 5
    assert sweep.take(at(5)) == all_of_them[:MOST]
    assert (sweep.next_at, sweep.take(at(5))) == (6, ())
    assert sweep.take(at(9)) == all_of_them[MOST : 2 * MOST]
    assert (sweep.next_at, sweep.taken_at) == (10, 9)
    assert sweep.take(at(10)) == all_of_them[2 * MOST :]
    assert (sweep.next_at, sweep.take(at(11))) == (None, ())


def test_a_pass_that_begins_anew_begins_with_the_first() -> None:
    """What changed for all of them changed for those, too, that had their turn."""
    sweep, all_of_them = Sweep(), replicas(MOST + 1)
    sweep.begin(all_of_them, at(5))
    sweep.take(at(5))
    sweep.begin(all_of_them, at(5))
    assert sweep.take(at(5)) == all_of_them[:MOST]


def test_an_abandoned_pass_hands_out_nothing() -> None:
    sweep = Sweep()
    sweep.begin(replicas(2), at(5))
    sweep.abandon()
    assert (sweep.next_at, sweep.take(at(6))) == (None, ())
