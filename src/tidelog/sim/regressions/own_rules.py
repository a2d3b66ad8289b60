"""Stories of rules that are not in the list of other logs' bugs and are as easily lost.

Source: KIP-207, KIP-497; KAFKA-13574, 18723.
"""

from tidelog.errors import ErrorCode
from tidelog.replication.messages import LATEST_TIMESTAMP, ListOffsetsQuery
from tidelog.sim.regressions.scene import Scene
from tidelog.sim.replicas.controlled import ControlledFeed
from tidelog.sim.replicas.stage import Stage
from tidelog.wire.fetch import FetchedPartition, FetchResponse


def s02_old_metadata_after_an_answer(scene: Scene) -> None:
    """What the controller answered is not undone by older metadata.

    Origin: KIP-497
    Story: two proposals of the leader are accepted, one after the other, and both answers arrive
    before any metadata; then the metadata of the first one arrives.
    Must: the partition stays as the second answer said.
    """
    stage = scene.stage(1, 2, 3)
    stage.topic(1, 2, 3)
    stage.kill(2)
    stage.kill(3)
    stage.feed.change("orders", isr=(1,))
    stage.run(20)
    stage.start(2)
    stage.start(3)
    stage.run(0)
    known = stage.feed.record_count
    stage.brokers[1].metadata_end = known
    stage.run(300)
    scene.must(stage.feed.partition("orders").isr == (1, 2, 3), "Story", "nothing was proposed")
    stage.brokers[1].metadata_end = known + 1
    stage.run(0)
    (view,) = stage.brokers[1].replicas.describe(stage.now)
    scene.must(view.isr == (1, 2, 3), "PartitionEpochMonotonic", f"{view}")
    stage.finish()


def s03_group_commit(scene: Scene) -> None:
    """With group commit an acknowledged record survives the loss of power everywhere.

    Origin: the promise P2
    Story: the follower's disk flushes nothing while the leader's does, then the other way round;
    each time a record is written, and both machines lose power.
    Must: nothing was acknowledged that is not on both disks.
    """
    for lazy in (1, 2):
        stage = scene.stage(1, 2)
        stage.topic(1, 2, flush_messages="1")
        stage.send(1, "a")
        stage.run(200)
        scene.must(len(stage.acknowledged) == 1, "Story", "not acknowledged")
        stage.brokers[lazy].flushes = False
        stage.send(1, "b")
        stage.run(200)
        stage.cut_power(1)
        stage.cut_power(2)
        stage.committed.pop(1, None)
        stage.brokers[lazy].flushes = True
        stage.start(lazy)
        stage.feed.change("orders", leader=lazy, isr=(lazy,))
        stage.run(20)
        stage.finish()


def s04_later_epochs_are_skipped(scene: Scene) -> None:
    """A follower does not take batches of a term of which it has not heard.

    Origin: KAFKA-18723
    Story: the leader was elected again between a fetch and its answer; the answer has a batch of
    the new term behind one of the old.
    Must: the follower takes the first batch only.
    """
    stage = scene.stage(1, 2)
    stage.topic(1, 2)
    stage.send(1, "a")
    stage.run(150)
    stage.brokers[2].sees_metadata = False
    stage.held.add((2, 1))
    stage.run(110)
    stage.feed.change("orders", leader=1, isr=(1, 2))
    stage.run(5)
    stage.send(1, "b", acks=1)
    topic_id = stage.feed.image.topics_by_name["orders"].topic_id
    read = stage.log_of(1).read(1, 1 << 20, 2, at_least_one=True)
    part = FetchedPartition(
        "orders", topic_id, 0, ErrorCode.NONE, 1, 1, 0, list(read.chunks), read.size_bytes
    )
    stage.links.answer(stage.links.call_between(2, 1), FetchResponse(0, ErrorCode.NONE, 0, [part]))
    stage.run(0)
    scene.must(stage.values(2) == ["a"], "LeaderEpochMonotonic", f"b2 has {stage.values(2)}")
    stage.finish()


def s05_offsets_after_an_election(scene: Scene) -> None:
    """After an election nobody is told that the log ends earlier than it did.

    Origin: KIP-207, KAFKA-2334
    Story: a client hears that the log ends at 1; the leader dies; its successor has the record but
    has not heard that it is committed; the client asks again.
    Must: OFFSET_NOT_AVAILABLE until the high watermark has reached the start of the term.
    """
    stage = scene.stage(1, 2, 3)
    stage.topic(1, 2, 3)
    stage.send(1, "a")
    stage.run(3)
    stage.held |= {(1, 2), (1, 3)}
    stage.run(30)
    told = _latest(stage, 1)
    scene.must(told == (ErrorCode.NONE, 1), "Story", f"{told}")
    stage.kill(1)
    stage.held.add((3, 2))
    stage.feed.change("orders", leader=2, isr=(2, 3))
    stage.run(5)
    code, offset = _latest(stage, 2)
    scene.must(
        code is ErrorCode.OFFSET_NOT_AVAILABLE or offset >= 1, "OffsetsMonotone", f"{code} {offset}"
    )
    stage.finish()


def _latest(stage: Stage, node: int) -> tuple[ErrorCode, int]:
    query = ListOffsetsQuery("orders", 0, -1, LATEST_TIMESTAMP)
    replicas = stage.brokers[node].replicas
    (result,) = replicas.list_offsets([query], replica_id=-1, isolation_level=0)
    return result.error_code, result.offset


def s06_acks_end_with_the_leadership(scene: Scene) -> None:
    """Who waits for an acknowledgement hears when the leadership is over.

    Origin: KAFKA-13574
    Story: a record waits for a replica that does not answer; another leader is elected.
    Must: the producer is told NOT_LEADER_OR_FOLLOWER at once, not after its time-out; it must not
    be told that the record is committed.
    """
    stage = scene.stage(1, 2)
    stage.topic(1, 2)
    stage.cut |= {(1, 2), (2, 1)}
    name = stage.send(1, "b")
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(10)
    code = stage.code_of(name)
    scene.must(code is ErrorCode.NOT_LEADER_OR_FOLLOWER, "EveryAckEnds", f"{code}")
    stage.finish()


def s07_acknowledged_is_committed(scene: Scene) -> None:
    """An acknowledgement covers the last record of its batch.

    Origin: the promise P1
    Story: a batch of three waits; the follower has fetched another batch before it; the leader dies
    and the follower is elected.
    Must: the batch was not acknowledged one record early.
    """
    stage = scene.stage(1, 2)
    stage.topic(1, 2)
    stage.send(1, "a")
    stage.run(150)
    stage.held.add((2, 1))
    stage.send(1, "b")
    stage.run(3)
    stage.held.add((1, 2))
    stage.send(1, "c")
    stage.release(2, 1)
    stage.run(3)
    stage.kill(1)
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(10)
    stage.finish()


def s09_metadata_of_a_former_life(scene: Scene) -> None:
    """A broker that starts does not lead by metadata that is older than its own registration.

    Origin: KIP-631
    Story: the leader is killed and comes back; it reads the metadata from the beginning and passes
    through its own past, in which it led; a client writes to it; meanwhile another one is elected.
    Must: it acts only once its present registration is in the metadata.
    """
    stage = scene.stage(1, 2)
    stage.topic(1, 2)
    stage.send(1, "a")
    stage.run(150)
    stage.kill(1)
    stage.brokers[1].lives_in_the_past = True
    stage.start(1)
    stage.run(50)
    name = stage.send(1, "b", acks=1)
    stage.run(5)
    code = stage.code_of(name)
    scene.must(
        code is ErrorCode.NOT_LEADER_OR_FOLLOWER, "ActsOnPresentMetadata", f"b was answered {code}"
    )
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.finish()


def s10_elected_from_the_isr(scene: Scene) -> None:
    """A live replica that is not in sync is not elected while a member of the ISR is alive.

    Origin: the promise P1
    Story: broker 3 is alive and lacks a record, because its link to the leader is cut; the leader
    dies; broker 3 comes before broker 2 in the assignment.
    Must: broker 2 leads.
    """
    stage = scene.stage(1, 2, 3, controlled=True)
    feed = stage.feed
    assert isinstance(feed, ControlledFeed), "the real controller decides"
    stage.topic(1, 3, 2, min_insync_replicas="1")
    stage.send(1, "a")
    stage.run(200)
    stage.silent.add(3)
    stage.cut |= {(1, 3), (3, 1)}
    stage.run(500)
    stage.silent.discard(3)
    stage.run(500)
    stage.send(1, "b")
    stage.run(50)
    scene.must(feed.partition("orders").isr == (1, 2), "Story", f"{feed.partition('orders')}")
    scene.must(len(stage.acknowledged) == 2, "Story", "b is not acknowledged")
    stage.kill(1)
    feed.suspect(1)
    stage.run(100)
    stage.finish()


def s13_a_cut_is_no_damage(scene: Scene) -> None:
    """A replica that had durable records cut is not found damaged by its next process.

    Origin: seed 1350
    Story: a leader that is cut off writes two records and makes them durable; it dies, another is
    elected without them, and it comes back to follow. Its disk is slow when it hears where to cut,
    and it is killed before the disk has done anything.
    Must: its log is sound: no checkpoint claims what was cut.
    """
    stage = scene.stage(1, 2)
    stage.topic(1, 2, flush_messages="1", min_insync_replicas="2")
    stage.send(1, "a")
    stage.run(100)
    stage.held |= {(1, 2), (2, 1)}
    stage.send(1, "b")
    stage.send(1, "c")
    stage.run(6_000)
    scene.must(stage.brokers[1].log("orders").recovery_point == 3, "Story", "not durable")
    stage.kill(1)
    stage.held.clear()
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(50)
    stage.start(1)
    stage.brokers[1].flushes = False
    stage.run(300)
    stage.kill(1)
    stage.brokers[1].flushes = True
    stage.start(1)
    damaged = list(stage.brokers[1].directory.damaged)
    scene.must(not damaged, "NoFalseDamage", f"{damaged}")
    stage.run(300)
    ends = [stage.brokers[one].log("orders").log_end_offset for one in (1, 2)]
    scene.must(ends == [1, 1], "Story", f"the logs end at {ends}")
    stage.finish()
