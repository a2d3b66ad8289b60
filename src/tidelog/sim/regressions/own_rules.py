"""Scenarios of rules that are not in the list of other logs' bugs and are as easily lost.

Source: KIP-207, KIP-497; KAFKA-13574, 18723.
"""

from dataclasses import replace

from tidelog.errors import ErrorCode
from tidelog.replication.messages import LATEST_TIMESTAMP, ListOffsetsQuery
from tidelog.sim.regressions.testbed import Scene, Testbed
from tidelog.sim.replicas.cluster import CONFIG
from tidelog.sim.replicas.watched import TOPIC
from tidelog.wire.fetch import FetchedPartition, FetchResponse


def s02_old_metadata_after_an_answer(testbed: Testbed) -> None:
    """What the controller answered is not undone by older metadata.

    Origin: KIP-497
    Case: two proposals of the leader are accepted, one after the other, and both answers arrive
    before any metadata; then the metadata of the first one arrives.
    Must: the partition stays as the second answer said.
    """
    cluster = testbed.topic(1, 2, 3)
    cluster.kill(2)
    cluster.kill(3)
    cluster.set_isr(1, then_ms=20)
    cluster.start(2)
    cluster.start(3)
    cluster.run(0)
    known = cluster.feed.record_count
    cluster.brokers[1].metadata_end = known
    cluster.run(300)
    testbed.must(cluster.newest.isr == (1, 2, 3), "Setup", "nothing was proposed")
    cluster.brokers[1].metadata_end = known + 1
    cluster.run(0)
    (partition,) = cluster.brokers[1].replicas.partitions.values()
    leadership = partition.leadership
    isr = None if leadership is None else leadership.isr
    testbed.must(isr == (1, 2, 3), "PartitionEpochMonotonic", f"isr {isr}")


def s03_group_commit(testbed: Testbed) -> None:
    """With group commit an acknowledged record survives the loss of power everywhere.

    Origin: the promise P2
    Case: the follower's disk flushes nothing while the leader's does, then the other way round;
    each time a record is written, and both machines lose power.
    Must: nothing was acknowledged that is not on both disks.
    """
    for lazy in (1, 2):
        cluster = testbed.topic(1, 2, flush_messages="1")
        cluster.send(1, "a", then_ms=200)
        testbed.must(len(cluster.acknowledged) == 1, "Setup", "not acknowledged")
        cluster.brokers[lazy].flushes = False
        cluster.send(1, "b", then_ms=200)
        cluster.cut_power(1)
        cluster.cut_power(2)
        cluster.committed.pop(1, None)
        cluster.brokers[lazy].flushes = True
        cluster.start(lazy)
        cluster.elect(lazy, then_ms=20)


def s04_later_epochs_are_skipped(testbed: Testbed) -> None:
    """A follower does not take batches of a term that it does not know.

    Origin: KAFKA-18723
    Case: the leader was elected again between a fetch and its answer; the answer has a batch of
    the new term behind one of the old.
    Must: the follower takes the first batch only.
    """
    cluster = testbed.topic(1, 2, first="a")
    cluster.brokers[2].sees_metadata = False
    cluster.held.add((2, 1))
    cluster.run(110)
    cluster.elect(1, 1, 2, then_ms=5)
    cluster.send(1, "b", acks=1)
    topic_id = cluster.feed.image.topics_by_name["orders"].topic_id
    read = cluster.log_of(1).read(1, 1 << 20, 2, at_least_one=True)
    part = FetchedPartition(
        "orders", topic_id, 0, ErrorCode.NONE, 1, 1, 0, list(read.chunks), read.size_bytes
    )
    cluster.links.answer(
        cluster.links.call_between(2, 1), FetchResponse(0, ErrorCode.NONE, 0, [part])
    )
    cluster.run(0)
    cluster.must_hold(2, "a", name="LeaderEpochMonotonic")


def s05_offsets_after_an_election(testbed: Testbed) -> None:
    """After an election no client receives that the log ends earlier than it did.

    Origin: KIP-207, KAFKA-2334
    Case: a client receives that the log ends at 1; the leader dies; its successor has the record
    but does not know that it is committed; the client asks again.
    Must: OFFSET_NOT_AVAILABLE until the high watermark has reached the start of the term.
    """
    cluster = testbed.topic(1, 2, 3)
    cluster.send(1, "a", then_ms=3)
    cluster.held |= {(1, 2), (1, 3)}
    cluster.run(30)
    latest = _latest(cluster, 1)
    testbed.must(latest == (ErrorCode.NONE, 1), "Setup", f"{latest}")
    cluster.kill(1)
    cluster.held.add((3, 2))
    cluster.elect(2, 2, 3, then_ms=5)
    code, offset = _latest(cluster, 2)
    testbed.must(
        code is ErrorCode.OFFSET_NOT_AVAILABLE or offset >= 1, "OffsetsMonotone", f"{code} {offset}"
    )


def _latest(cluster: Scene, node: int) -> tuple[ErrorCode, int]:
    query = ListOffsetsQuery("orders", 0, -1, LATEST_TIMESTAMP)
    replicas = cluster.brokers[node].replicas
    result = replicas.list_offset(query, replica_id=-1, isolation_level=0)
    return result.error_code, result.offset


def s06_acks_end_with_the_leadership(testbed: Testbed) -> None:
    """A client that waits for an acknowledgement receives when the leadership is over.

    Origin: KAFKA-13574
    Case: a record waits for a replica that does not answer; another leader is elected.
    Must: the producer receives NOT_LEADER_OR_FOLLOWER at once, not after its time-out; it must
    not receive that the record is committed.
    """
    cluster = testbed.topic(1, 2)
    cluster.part(1, 2)
    name = cluster.send(1, "b")
    cluster.elect(2, then_ms=10)
    code = cluster.code_of(name)
    testbed.must(code is ErrorCode.NOT_LEADER_OR_FOLLOWER, "EveryAckEnds", f"{code}")


def s07_acknowledged_is_committed(testbed: Testbed) -> None:
    """An acknowledgement covers the last record of its batch.

    Origin: the promise P1
    Case: a batch of three waits; the follower has fetched another batch before it; the leader dies
    and the follower is elected.
    Must: the batch was not acknowledged one record early.
    """
    cluster = testbed.topic(1, 2, first="a")
    cluster.held.add((2, 1))
    cluster.send(1, "b", then_ms=3)
    cluster.held.add((1, 2))
    cluster.send(1, "c")
    cluster.release(2, 1, then_ms=3)
    cluster.kill(1)
    cluster.elect(2, then_ms=10)


def s09_metadata_of_a_former_life(testbed: Testbed) -> None:
    """A broker that starts does not lead by metadata that is older than its own registration.

    Origin: KIP-631
    Case: the leader is killed and comes back; it reads the metadata from the beginning and passes
    through its own past, in which it led; a client writes to it; meanwhile another one is elected.
    Must: it acts only once its present registration is in the metadata.
    """
    cluster = testbed.topic(1, 2, first="a")
    cluster.kill(1)
    cluster.brokers[1].lives_in_the_past = True
    cluster.start(1, then_ms=50)
    name = cluster.send(1, "b", acks=1, then_ms=5)
    code = cluster.code_of(name)
    testbed.must(
        code is ErrorCode.NOT_LEADER_OR_FOLLOWER, "ActsOnPresentMetadata", f"b was answered {code}"
    )
    cluster.elect(2)


def s17_the_configuration_comes_with_the_isr(testbed: Testbed) -> None:
    """A leader does not take an ISR over before the configuration that it was decided on.

    Origin: KIP-966
    Case: a broker follows the metadata a step at a time; `min.insync.replicas` is raised to 2, then
    the follower leaves the ISR and stays eligible, because the ISR is too small now; the leader
    gets a record, is alone for a while and dies; the follower is elected.
    Must: the record was not committed without the follower.
    """
    config = replace(CONFIG, metadata_work_per_turn=1)
    cluster = testbed.topic(1, 2, config=config, first="a")
    cluster.part(1, 2)
    cluster.feed.configure(TOPIC, "min.insync.replicas", "2")
    cluster.set_isr(1, then_ms=50)
    cluster.send(1, "b", acks=1, then_ms=2 * CONFIG.replica_lag_time_max_ms)
    cluster.kill(1)
    cluster.reunite()
    cluster.elect(2, then_ms=50)
    cluster.start(1)


def s10_elected_from_the_isr(testbed: Testbed) -> None:
    """A live replica that is not in sync is not elected while a member of the ISR is alive.

    Origin: the promise P1
    Case: broker 3 is alive and lacks a record, because its link to the leader is cut; the leader
    dies; broker 3 comes before broker 2 in the assignment.
    Must: broker 2 leads.
    """
    cluster = testbed.replicas(1, 2, 3, controlled=True)
    cluster.topic(1, 3, 2, min_insync_replicas="1")
    cluster.send(1, "a", then_ms=200)
    cluster.silence(3)
    cluster.part(1, 3, then_ms=500)
    cluster.silence(then_ms=500)
    cluster.send(1, "b", then_ms=50)
    testbed.must(cluster.newest.isr == (1, 2), "Setup", f"{cluster.newest}")
    testbed.must(len(cluster.acknowledged) == 2, "Setup", "b is not acknowledged")
    cluster.kill(1)
    cluster.controlled.suspect(1)
    cluster.run(100)


def s13_a_cut_is_not_damage(testbed: Testbed) -> None:
    """A replica that had durable records cut is not found damaged by its next process.

    Origin: seed 1350
    Case: a leader that is cut off writes two records and makes them durable; it dies, another is
    elected without them, and it comes back to follow. Its disk is slow when it receives where to
    cut, and it is killed before the disk has done anything.
    Must: its log is sound: no checkpoint claims what was cut.
    """
    cluster = testbed.topic(1, 2, flush_messages="1", min_insync_replicas="2")
    cluster.send(1, "a", then_ms=100)
    cluster.held |= {(1, 2), (2, 1)}
    cluster.send(1, "b")
    cluster.send(1, "c", then_ms=6_000)
    testbed.must(cluster.brokers[1].log("orders").recovery_point == 3, "Setup", "not durable")
    cluster.kill(1)
    cluster.held.clear()
    cluster.elect(2, then_ms=50)
    cluster.start(1)
    cluster.brokers[1].flushes = False
    cluster.run(300)
    cluster.kill(1)
    cluster.brokers[1].flushes = True
    cluster.start(1)
    damaged = list(cluster.brokers[1].directory.damaged)
    testbed.must(not damaged, "NoFalseDamage", f"{damaged}")
    cluster.run(300)
    ends = [cluster.brokers[one].log("orders").log_end_offset for one in (1, 2)]
    testbed.must(ends == [1, 1], "Setup", f"the logs end at {ends}")


def s19_compaction_keeps_where_epochs_began(testbed: Testbed) -> None:
    """A replica that got a compacted log knows where each epoch began.

    Origin: reading (promise P1, compaction)
    Case: broker 1 writes what no other replica receives, and dies; broker 2 leads the next epoch,
    and its cleaner removes the first records of that epoch; broker 3, which was empty, gets what is
    left of them and leads; broker 1 comes back.
    Must: broker 1 cuts what only it has.
    """
    cluster = testbed.replicas(1, 2, 3)
    cluster.kill(3)
    cluster.topic(1, 2, 3, cleanup_policy="compact", segment_bytes="600")
    cluster.set_isr(1, 2)
    cluster.send(1, "first", key=b"of it", then_ms=150)
    cluster.part(1, 2)
    for value in ("lost", "lost, too"):
        cluster.send(1, value, acks=1, key=b"other", then_ms=10)
    cluster.kill(1)
    cluster.elect(2, then_ms=10)
    for number in range(10):
        cluster.send(2, f"{number}", key=b"a", then_ms=10)
    cluster.run(3_000)
    left = cluster.values(2)
    testbed.must(left[:1] == ["first"] and "0" not in left, "Setup", f"not compacted: {left}")
    # What compaction has removed is not lost.
    cluster.forgive()
    cluster.start(3, then_ms=500)
    cluster.must_hold(3, *left)
    cluster.kill(2)
    cluster.elect(3, then_ms=10)
    cluster.reunite()
    cluster.start(1, then_ms=500)
    cluster.must_hold(1, *left, name="ReplicasEqual")
