"""Goal: the partition that users notice first comes first."""

from tests.unit.pipeline.health.findings import at, failover
from tidelog.pipeline.health.worst import worst_first


def test_the_order_is_that_of_what_users_notice() -> None:
    found = failover("z-last")
    found.timeline.append({**found.timeline[0], "topic": "quiet", "partition": 0})
    stall = {**found.intervals[0], "topic": "stalled", "kind": "hw_stalled", "end": at(30)}
    found.intervals.append(stall)
    order = [(one.topic, one.partition) for one in worst_first(found)]
    assert order == [("z-last", 0), ("stalled", 0), ("quiet", 0)]


def test_what_is_not_over_counts_to_the_last_event() -> None:
    (one,) = worst_first(failover())
    assert one.ms == {"unavailable": 812.0, "under_replicated": 50_000.0}
    assert one.is_wrong_now and one.elections == 1 and not one.is_quiet
