"""Goal: the controller's events have the records that event files keep, and causes in words."""

import pytest

from tidelog.controller.elections import Outcome
from tidelog.controller.events import (
    BrokerFenced,
    Cause,
    CauseKind,
    FenceReason,
    TopicDeleted,
    UncleanLeaderElected,
)
from tidelog.env.event import EventRecord, Kind, record_of
from tidelog.model import TopicPartition


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (Cause(CauseKind.STILL_LEADERLESS), "still without a leader"),
        (Cause(CauseKind.RESTARTED, 0), "broker 0 restarted"),
        (
            Cause.fenced(2, FenceReason.SESSION_EXPIRED, 900),
            "broker 2 fenced: session expired, silent for 900 ms",
        ),
        (Cause.fenced(2, FenceReason.SHUTS_DOWN, None), "broker 2 fenced: it shuts down"),
    ],
)
def test_a_cause_names_the_broker_that_it_happened_to(cause: Cause, words: str) -> None:
    assert str(cause) == words


def test_a_fenced_broker_is_recorded_with_the_reason() -> None:
    fenced = BrokerFenced(
        node_id=2, reason=FenceReason.SESSION_EXPIRED, silent_ms=900, broker_epoch=9, partitions=3
    )
    assert record_of(fenced) == EventRecord(
        Kind.FENCED,
        None,
        None,
        None,
        {
            "node": 2,
            "broker_epoch": 9,
            "partitions": 3,
            "reason": "session expired, silent for 900 ms",
        },
    )


def test_an_unclean_election_is_recorded_with_what_it_gives_up() -> None:
    elected = UncleanLeaderElected(
        partition=TopicPartition("orders", 3),
        reason=Outcome.UNCLEAN,
        leader=1,
        instead_of=(2,),
        last_leader=(2,),
        cause=Cause(CauseKind.UNCLEAN_ALLOWED),
    )
    payload = {
        "leader": 1,
        "instead_of": (2,),
        "last_leader": (2,),
        "cause": "unclean elections were allowed",
        "reason": "unclean",
    }
    assert record_of(elected) == EventRecord(Kind.UNCLEAN_ELECTION, "orders", 3, None, payload)


def test_a_deleted_topic_is_recorded_without_a_partition() -> None:
    expected = EventRecord(Kind.TOPIC_DELETED, "orders", None, None, {"topic_id": "x"})
    assert record_of(TopicDeleted(topic="orders", topic_id="x")) == expected
