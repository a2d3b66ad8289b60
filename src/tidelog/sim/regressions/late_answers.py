"""Scenarios of messages that arrive late: from another term, or for another history.

Theory. A fetch and its answer belong to a leader epoch and to a log end. By the time the answer
arrives either may have changed; then it says nothing. And an answer that says where two logs part
says nothing else: neither of its sides may take the rest for progress.

Source: KIP-320; KAFKA-7395, 13141, 13207, 14704, 18991.
"""

from tidelog.errors import ErrorCode
from tidelog.model import EpochEndOffset
from tidelog.sim.regressions.testbed import Scene, Testbed
from tidelog.wire.fetch import FetchedPartition, FetchResponse


def r04_fetch_of_another_term(testbed: Testbed) -> None:
    """A fetch that was sent in an older term proves nothing in this one.

    Origin: KIP-320, KAFKA-7395
    Case: broker 3 has b and says so, but its fetch is late; meanwhile broker 2 leads for a moment
    and makes it cut b, then broker 1 leads again and still waits for b to be committed.
    Must: the fetch is fenced; b is not acknowledged on the strength of it.
    """
    cluster = testbed.topic(1, 2, 3, first="a")
    cluster.held |= {(1, 2), (3, 1)}
    cluster.send(1, "b", then_ms=10)
    cluster.must_hold(3, "a", "b")
    cluster.brokers[1].sees_metadata = False
    cluster.elect(2, 1, 2, 3, then_ms=10)
    cluster.must_hold(3, "a")
    cluster.elect(1, 1, 3)
    cluster.brokers[1].sees_metadata = True
    cluster.run(5)
    cluster.release(3, 1, then_ms=1)
    cluster.kill(1)
    cluster.elect(3, then_ms=5)


def _where_three_differs(cluster: Scene) -> None:
    """Broker 2 leads and has a and b; broker 3 has both as well, broker 1 only a. Then broker 1
    leads, though it lacks b, and its answer to broker 3, to cut b, is kept back."""
    cluster.topic(2, 1, 3)
    cluster.send(2, "a", then_ms=150)
    cluster.held.add((2, 1))
    cluster.send(2, "b", then_ms=10)
    cluster.brokers[2].sees_metadata = False
    cluster.held.add((1, 3))
    cluster.elect(1, 1, 2, 3, then_ms=5)
    cluster.must_hold(3, "a", "b")
    cluster.must_hold(1, "a")


def _two_leads_again(testbed: Testbed, *, is_received: bool = True) -> Scene:
    """As `_where_three_differs`; then broker 2 leads again, and b is committed everywhere. Unless
    `is_received` broker 3 does not learn it."""
    cluster = testbed.replicas(1, 2, 3)
    _where_three_differs(cluster)
    cluster.elect(2, 1, 2, 3)
    cluster.brokers[2].sees_metadata = True
    cluster.run(1)
    if not is_received:
        cluster.run(100)
        cluster.held.add((2, 3))
    cluster.release(2, 1, then_ms=250)
    testbed.must(cluster.log_of(2).high_watermark == 2, "Setup", "b is not committed")
    return cluster


def _three_must_keep_b(cluster: Scene) -> None:
    cluster.elect(3, then_ms=5)


def r16_late_divergence(testbed: Testbed) -> None:
    """An answer of an older term that says where to cut is ignored.

    Origin: KAFKA-18991
    Case: broker 1 makes broker 3 cut b, the answer is late; broker 2 leads again, b is
    committed everywhere, broker 1 leads again; then the answer arrives, and broker 1 dies.
    Must: broker 3 keeps b.
    """
    cluster = _two_leads_again(testbed)
    cluster.elect(1, 1, 2, 3, then_ms=5)
    cluster.release(1, 3, then_ms=1)
    cluster.kill(1)
    _three_must_keep_b(cluster)


def r17_divergence_after_leaving(testbed: Testbed) -> None:
    """An answer that says where to cut is ignored when the partition is fetched elsewhere by now.

    Origin: KAFKA-13207
    Case: as r16, but the answer of broker 1 arrives while broker 3 fetches from broker 2, and has
    not received that b is committed; otherwise the cut would be announced, and not made.
    Must: broker 3 keeps b.
    """
    cluster = _two_leads_again(testbed, is_received=False)
    cluster.release(1, 3, then_ms=1)
    cluster.kill(2)
    _three_must_keep_b(cluster)


def r18_divergence_with_high_watermark(testbed: Testbed) -> None:
    """A high watermark that comes with an order to cut does not make readable what is to be cut.

    Origin: KAFKA-14704
    Case: broker 3 has an uncommitted b; the answer of its new leader says to cut it and names a
    high watermark above it; consumers read from broker 3.
    Must: b is cut first; no consumer reads it.
    """
    cluster = testbed.replicas(1, 2, 3)
    _where_three_differs(cluster)
    topic_id = cluster.feed.image.topics_by_name["orders"].topic_id
    part = FetchedPartition(
        "orders", topic_id, 0, ErrorCode.NONE, 2, 2, 0, [], 0, EpochEndOffset(0, 1)
    )
    call = cluster.links.call_between(3, 1)
    cluster.links.answer(call, FetchResponse(0, ErrorCode.NONE, 0, [part]))
    name = cluster.read(3, 1)
    cluster.run(0)
    answer = cluster.answer_to(name)
    testbed.must(not answer.records_bytes, "ReadsBelowHighWatermark", f"{answer}")


def r19_divergence_is_not_progress(testbed: Testbed) -> None:
    """The offset of a fetch from another history is not taken for progress.

    Origin: KAFKA-13141
    Case: broker 3 has a record x that broker 1, which leads now, never had; broker 1 writes y at
    the same offset, then the fetch arrives that claims this offset; broker 1 dies.
    Must: y is not acknowledged, because broker 3 does not have it.
    """
    cluster = testbed.replicas(1, 2, 3)
    cluster.topic(2, 1, 3)
    cluster.send(2, "a", then_ms=150)
    cluster.held.add((2, 1))
    cluster.send(2, "x", acks=1, then_ms=10)
    cluster.must_hold(3, "a", "x")
    cluster.held.add((3, 1))
    cluster.elect(1, 1, 3, then_ms=5)
    cluster.send(1, "y")
    cluster.release(3, 1, then_ms=1)
    cluster.kill(1)
    cluster.elect(3, then_ms=5)
