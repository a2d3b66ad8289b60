"""Goal: lines and records of role changes have the shape that their readers know."""

import pytest

from tidelog.env.event import EventRecord, Kind, record_of
from tidelog.model import TopicPartition
from tidelog.replication.events.roles import FollowingBegan, ReplicaOffline

KEY = TopicPartition("my-orders", 3)


@pytest.mark.parametrize(("leader", "was_leader"), [(2, True), (-1, False)])
def test_a_follower_says_whether_it_led(leader: int, was_leader: bool) -> None:
    """The line as the reason, the record as a field."""
    event = FollowingBegan(
        partition=KEY,
        leader=leader,
        leader_epoch=7,
        log_end=5,
        high_watermark=4,
        was_leader=was_leader,
    )
    expected = "follows (was leader)" if was_leader else "waits"
    assert event.text() == (
        f"my-orders-3 become_follower: {expected} leader={leader} leader_epoch=7 log_end=5 "
        "high_watermark=4"
    )
    payload = {"leader": leader, "log_end": 5, "high_watermark": 4, "was_leader": was_leader}
    assert record_of(event) == EventRecord(Kind.FOLLOWING, *KEY, 7, payload)


def test_an_offline_replica_has_the_devices_words() -> None:
    event = ReplicaOffline(partition=KEY, reason="`x`: input/output error")
    assert record_of(event).payload == {"reason": "`x`: input/output error"}
