"""Requests that wait are answered once, in order, and leave nothing behind."""

import pytest

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import PURGATORY_PURGE_REQUESTS
from tidelog.model import TopicId
from tidelog.replication.messages import DeletedRecords
from tidelog.replication.purgatory import (
    AckQueue,
    Deadlines,
    DelayedDelete,
    DelayedProduce,
    Deletions,
)
from tidelog.wire.fetch import LeaderHint
from tidelog.wire.produce import ProducedPartition

NOW = Instant(1000)


def produce(name: str, partitions: int = 1, timeout_ms: int = 100) -> DelayedProduce:
    """A request whose partitions were all appended."""
    results = [
        ProducedPartition("orders", TopicId(bytes(16)), number, ErrorCode.NONE, 0, -1, 0)
        for number in range(partitions)
    ]
    return DelayedProduce(name, results, now=NOW, timeout_ms=timeout_ms)


def taken(queue: AckQueue, high_watermark: int) -> list[object]:
    """Which requests are answered at a high watermark."""
    names = []
    for request, index in queue.take_up_to(high_watermark):
        request.resolve(index, ErrorCode.NONE)
        names.append(request.reply_to)
    return names


def test_acks_are_taken_in_the_order_of_their_offsets() -> None:
    """A retry needs an earlier offset than the newest append, and is put in its place."""
    queue = AckQueue()
    for required, name in ((5, "a"), (9, "b"), (5, "retry of a"), (3, "oldest")):
        queue.add(required, produce(name), 0)
    queue.check()
    oldest = queue.oldest()
    assert oldest is not None and oldest[0] == 3
    assert taken(queue, 4) == ["oldest"]
    assert taken(queue, 5) == ["a", "retry of a"]
    assert taken(queue, 8) == []
    assert taken(queue, 9) == ["b"]
    assert len(queue) == 0 and queue.oldest() is None


def test_a_request_is_done_when_its_last_partition_is() -> None:
    """Each partition has its own queue and its own outcome."""
    first, second = AckQueue(), AckQueue()
    request = produce("a", partitions=2)
    first.add(1, request, 0)
    second.add(1, request, 1)
    assert not request.resolve(0, ErrorCode.NONE)
    assert request.resolve(1, ErrorCode.NOT_LEADER_OR_FOLLOWER, LeaderHint(3, 7))
    assert [result.error_code for result in request.results] == [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    assert request.results[1].current_leader == LeaderHint(3, 7)
    with pytest.raises(AssertionError, match="OneReply"):
        request.resolve(1, ErrorCode.NONE)


def test_only_what_still_waits_times_out() -> None:
    """And a queue does not keep requests that have gone."""
    first, second = AckQueue(), AckQueue()
    request = produce("a", partitions=2)
    first.add(1, request, 0)
    second.add(1, request, 1)
    request.resolve(0, ErrorCode.NONE)
    request.expire()
    assert [result.error_code for result in request.results] == [
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
    ]
    assert request.done
    assert len(second) == 0 and taken(second, 100) == []
    second.check()


def test_timed_out_acks_do_not_pile_up() -> None:
    """Half of a queue may be abandoned, not more."""
    queue = AckQueue()
    requests = [produce(str(number)) for number in range(100)]
    for number, request in enumerate(requests):
        queue.add(number, request, 0)
    for request in requests[:90]:
        request.expire()
        queue.check()
    assert len(queue) == 10
    assert len(queue._waiting) <= 20
    assert taken(queue, 1000) == [str(number) for number in range(90, 100)]


def test_deadlines_come_in_order_and_skip_the_answered() -> None:
    """Ties in the order of parking."""
    deadlines = Deadlines()
    requests = {name: produce(name, timeout_ms=ms) for name, ms in
                (("late", 300), ("early", 100), ("answered", 50), ("tie", 100))}  # fmt: skip
    for request in requests.values():
        AckQueue().add(1, request, 0)
        deadlines.add(request)
    requests["answered"].resolve(0, ErrorCode.NONE)
    deadlines.note_answered(requests["answered"])
    deadlines.check()
    assert deadlines.next() == NOW + 100
    assert list(deadlines.take_due(Instant(NOW + 99))) == []
    due = list(deadlines.take_due(Instant(NOW + 200)))
    assert [request.reply_to for request in due] == ["early", "tie"]
    assert deadlines.next() == NOW + 300


def test_answered_requests_do_not_pile_up() -> None:
    """A million acks within a long timeout must not be a million heap entries."""
    deadlines = Deadlines()
    for number in range(PURGATORY_PURGE_REQUESTS * 5):
        request = produce(str(number), timeout_ms=60_000)
        AckQueue().add(1, request, 0)
        deadlines.add(request)
        request.resolve(0, ErrorCode.NONE)
        deadlines.note_answered(request)
    deadlines.check()
    assert len(deadlines) == 0
    assert len(deadlines._heap) <= PURGATORY_PURGE_REQUESTS


def test_an_answer_within_the_tick_never_reaches_the_deadlines() -> None:
    """It is noted all the same and must not be counted."""
    deadlines = Deadlines()
    request = produce("a")
    AckQueue().add(1, request, 0)
    request.resolve(0, ErrorCode.NONE)
    deadlines.note_answered(request)
    deadlines.check()
    with pytest.raises(AssertionError, match="OneReply"):
        deadlines.add(request)


def test_a_deletion_leaves_every_register_when_it_is_done() -> None:
    """One partition comes through, the other times out with how far it got."""
    first: Deletions = {}
    second: Deletions = {}
    results = [DeletedRecords("orders", number, ErrorCode.NONE, 0) for number in range(2)]
    request = DelayedDelete("d", results, now=NOW, timeout_ms=100)
    request.register(first, 0, 5)
    request.register(second, 1, 5)
    request.note(0, 6)
    assert not request.resolve(0, ErrorCode.NONE)
    request.note(1, 4)
    request.expire()
    assert request.done and not first and not second
    assert request.results == [
        DeletedRecords("orders", 0, ErrorCode.NONE, 6),
        DeletedRecords("orders", 1, ErrorCode.REQUEST_TIMED_OUT, 4),
    ]
    with pytest.raises(AssertionError, match="OneReply"):
        request.resolve(1, ErrorCode.NONE)
