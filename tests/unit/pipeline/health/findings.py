"""What a health job may have found, for the tests of what is made of it."""

from datetime import datetime, timedelta

from tidelog.pipeline.health.figures import Health

FIRST = datetime(2026, 11, 21, 10)


def at(seconds: float) -> datetime:
    """An instant of the run."""
    return FIRST + timedelta(seconds=seconds)


def nothing() -> Health:
    """No events at all."""
    return Health(0, [], None, None, [], [], [], [], [], [], [])


def failover(topic: str = "orders") -> Health:
    """A leader died, and another took over."""
    lane = {"topic": topic, "partition": 0, "replicas": 3, "min_isr": 2, "kind": "election"}
    window = {
        "topic": topic, "partition": 0, "kind": "unavailable", "leader_epoch": 1,
        "start": at(10), "end": at(10.8), "duration_ms": 812.0,
        "cause": "broker 1 fenced", "broker": 1,
    }  # fmt: skip
    still = {
        **window, "kind": "under_replicated", "end": None, "duration_ms": None
    }  # fmt: skip
    return Health(
        events=120,
        brokers=[1, 2, 3],
        first=FIRST,
        last=at(60),
        conditions=[
            {"kind": "unavailable", "intervals": 1, "open": 0, "minutes": 0.0135, "max_ms": 812.0}
        ],
        intervals=[still],
        unavailability=[window],
        elections=[
            {
                "topic": topic, "partition": 0, "leader_epoch": 1, "old_leader": 1, "new_leader": 2,
                "at": at(10.5), "cause": "broker 1 fenced", "outcome": "from isr",
                "noticed_ms": 500.0, "leading_ms": 12.0, "commit_ms": None, "election_ms": None,
                "unclean": False,
            }
        ],
        latency=[
            {
                "leader": 2, "samples": 10, "p50_ms": 1.0, "p99_ms": 9.0, "p999_ms": 9.5,
                "max_ms": 9.6,
            }
        ],
        followers=[
            {"follower": 3, "samples": 9, "held_back": 4, "max_lag": 1200, "silent_ms": None}
        ],
        flaps=[{"topic": topic, "partition": 0, "replica": 3, "left": 2, "returned": 1}],
        timeline=[
            {**lane, "at": at(0), "leader": 1, "isr": [1, 2, 3], "cause": None},
            {**lane, "at": at(10.5), "leader": 2, "isr": [2, 3], "cause": "broker 1 fenced"},
        ],
        latency_line=[{"leader": 2, "at": at(5), "p50_ms": 1.0, "p99_ms": 9.0}],
    )  # fmt: skip
