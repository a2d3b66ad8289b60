"""Stories of messages that arrive late: from another term, or for another history.

Theory. A fetch and its answer belong to a leader epoch and to a log end. By the time the answer
arrives either may have changed; then it says nothing. And an answer that tells where two logs part
tells nothing else: neither of its sides may take the rest for progress.

Source: KIP-320; KAFKA-7395, 13141, 13207, 14704, 18991.
"""

from tidelog.errors import ErrorCode
from tidelog.model import EpochEndOffset
from tidelog.sim.regressions.scene import Scene
from tidelog.sim.replicas.stage import Stage
from tidelog.wire.fetch import FetchedPartition, FetchResponse


def r04_fetch_of_another_term(scene: Scene) -> None:
    """A fetch that was sent in an older term proves nothing in this one.

    Origin: KIP-320, KAFKA-7395
    Story: broker 3 has b and says so, but its fetch is late; meanwhile broker 2 leads for a moment
    and makes it cut b, then broker 1 leads again and still waits for b to be committed.
    Must: the fetch is fenced; b is not acknowledged on the strength of it.
    """
    stage = scene.stage(1, 2, 3)
    stage.topic(1, 2, 3)
    stage.send(1, "a")
    stage.run(150)
    stage.held |= {(1, 2), (3, 1)}
    stage.send(1, "b")
    stage.run(10)
    scene.must(stage.values(3) == ["a", "b"], "Story", f"b3 has {stage.values(3)}")
    stage.brokers[1].sees_metadata = False
    stage.feed.change("orders", leader=2, isr=(1, 2, 3))
    stage.run(10)
    scene.must(stage.values(3) == ["a"], "Story", f"b3 has {stage.values(3)}")
    stage.feed.change("orders", leader=1, isr=(1, 3))
    stage.brokers[1].sees_metadata = True
    stage.run(5)
    stage.release(3, 1)
    stage.run(1)
    stage.kill(1)
    stage.feed.change("orders", leader=3, isr=(3,))
    stage.run(5)
    stage.finish()


def _where_three_differs(stage: Stage) -> None:
    """Broker 2 leads and has a and b; broker 3 has both as well, broker 1 only a. Then broker 1
    leads, though it lacks b, and its answer to broker 3, to cut b, is kept back."""
    stage.topic(2, 1, 3)
    stage.send(2, "a")
    stage.run(150)
    stage.held.add((2, 1))
    stage.send(2, "b")
    stage.run(10)
    stage.brokers[2].sees_metadata = False
    stage.held.add((1, 3))
    stage.feed.change("orders", leader=1, isr=(1, 2, 3))
    stage.run(5)
    assert stage.values(3) == ["a", "b"], f"Story: b3 has {stage.values(3)}"
    assert stage.values(1) == ["a"], f"Story: b1 has {stage.values(1)}"


def _two_leads_again(scene: Scene) -> Stage:
    """As `_where_three_differs`; then broker 2 leads again, and b is committed everywhere."""
    stage = scene.stage(1, 2, 3)
    _where_three_differs(stage)
    stage.feed.change("orders", leader=2, isr=(1, 2, 3))
    stage.brokers[2].sees_metadata = True
    stage.run(1)
    stage.release(2, 1)
    stage.run(250)
    scene.must(stage.log_of(2).high_watermark == 2, "Story", "b is not committed")
    return stage


def _three_must_keep_b(stage: Stage) -> None:
    stage.feed.change("orders", leader=3, isr=(3,))
    stage.run(5)
    stage.finish()


def r16_late_divergence(scene: Scene) -> None:
    """An answer of an older term that says where to cut is ignored.

    Origin: KAFKA-18991
    Story: broker 1 tells broker 3 to cut b, the answer is late; broker 2 leads again, b is
    committed everywhere, broker 1 leads again; then the answer arrives, and broker 1 dies.
    Must: broker 3 keeps b.
    """
    stage = _two_leads_again(scene)
    stage.feed.change("orders", leader=1, isr=(1, 2, 3))
    stage.run(5)
    stage.release(1, 3)
    stage.run(1)
    stage.kill(1)
    _three_must_keep_b(stage)


def r17_divergence_after_leaving(scene: Scene) -> None:
    """An answer that says where to cut is ignored when the partition is fetched elsewhere by now.

    Origin: KAFKA-13207
    Story: as r16, but the answer of broker 1 arrives while broker 3 fetches from broker 2.
    Must: broker 3 keeps b.
    """
    stage = _two_leads_again(scene)
    stage.release(1, 3)
    stage.run(1)
    stage.kill(2)
    _three_must_keep_b(stage)


def r18_divergence_with_high_watermark(scene: Scene) -> None:
    """A high watermark that comes with an order to cut does not make readable what is to be cut.

    Origin: KAFKA-14704
    Story: broker 3 has an uncommitted b; the answer of its new leader says to cut it and names a
    high watermark above it; consumers read from broker 3.
    Must: b is cut first; nobody reads it.
    """
    stage = scene.stage(1, 2, 3)
    _where_three_differs(stage)
    topic_id = stage.feed.image.topics_by_name["orders"].topic_id
    part = FetchedPartition(
        "orders", topic_id, 0, ErrorCode.NONE, 2, 2, 0, [], 0, EpochEndOffset(0, 1)
    )
    call = stage.links.call_between(3, 1)
    stage.links.answer(call, FetchResponse(0, ErrorCode.NONE, 0, [part]))
    name = stage.read(3, 1)
    stage.run(0)
    answer = stage.answer_to(name)
    scene.must(not answer.records_bytes, "ReadsBelowHighWatermark", f"{answer}")
    stage.finish()


def r19_divergence_is_no_progress(scene: Scene) -> None:
    """The offset of a fetch from another history is not taken for progress.

    Origin: KAFKA-13141
    Story: broker 3 has a record x that broker 1, which leads now, never had; broker 1 writes y at
    the same offset, then the fetch arrives that claims this offset; broker 1 dies.
    Must: y is not acknowledged, because broker 3 does not have it.
    """
    stage = scene.stage(1, 2, 3)
    stage.topic(2, 1, 3)
    stage.send(2, "a")
    stage.run(150)
    stage.held.add((2, 1))
    stage.send(2, "x", acks=1)
    stage.run(10)
    scene.must(stage.values(3) == ["a", "x"], "Story", f"b3 has {stage.values(3)}")
    stage.held.add((3, 1))
    stage.feed.change("orders", leader=1, isr=(1, 3))
    stage.run(5)
    stage.send(1, "y")
    stage.release(3, 1)
    stage.run(1)
    stage.kill(1)
    stage.feed.change("orders", leader=3, isr=(3,))
    stage.run(5)
    stage.finish()
