"""Goal: lines about damaged logs name what allowed a step."""

from tidelog.model import TopicPartition
from tidelog.replication.events.damage import DamagedLogCut, RepairReason

KEY = TopicPartition("my-orders", 3)


def test_a_repair_names_the_leader_that_allows_it() -> None:
    event = DamagedLogCut(
        partition=KEY,
        reason=RepairReason.LEADER_KNOWN,
        leader=2,
        bad_from=3,
        was_durable_to=9,
        log_start=0,
        log_end=3,
    )
    assert event.why() == "broker 2 leads"
