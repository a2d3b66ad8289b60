"""Scenarios of logs that part and must become one again: what a follower cuts, and by whose word.

Theory. A follower's high watermark lags behind its leader's, so it says nothing about what may be
cut; the leader epochs of the records do. A follower sends its last epoch and end, the leader
answers with the largest epoch not above it and where that ended, and they repeat until they agree.

Source: KIP-101, KIP-279, KIP-320.
"""

from tidelog.sim.regressions.testbed import Testbed


def r01_truncate_by_epoch(testbed: Testbed) -> None:
    """A follower that was promoted keeps what its high watermark did not cover.

    Origin: KIP-101 (a)
    Case: the follower holds m2, which is acknowledged, but does not know that it is committed; it
    restarts, then the leader dies and the follower is elected.
    Must: m2 survives: logs are cut by epoch, never by high watermark.
    """
    cluster = testbed.topic(1, 2, first="m1")
    cluster.send(1, "m2", then_ms=2)
    # From here on the follower receives nothing: its high watermark stays below m2.
    cluster.held.add((1, 2))
    cluster.run(20)
    testbed.must(len(cluster.acknowledged) == 2, "Setup", f"{cluster.acknowledged}")
    testbed.must(cluster.log_of(2).high_watermark == 1, "Setup", "the follower knows too much")
    cluster.kill(2)
    cluster.start(2, then_ms=20)
    cluster.kill(1)
    cluster.elect(2, then_ms=50)


def r02_two_lose_power(testbed: Testbed) -> None:
    """Replicas that lost different amounts do not end up with different logs of one length.

    Origin: KIP-101 (b)
    Case: both lose power, with m2 flushed on the leader only; the shorter one comes back first and
    writes m3 where m2 was; the other one returns with the same end and the same high watermark.
    Must: the logs do not diverge: the one that returns cuts m2.
    """
    cluster = testbed.topic(1, 2)
    cluster.brokers[2].flushes = False
    cluster.send(1, "m1", then_ms=150)
    cluster.brokers[2].flushes = True
    for node in (1, 2):
        cluster.log_of(node).request_flush()
    cluster.run(150)
    cluster.send(1, "m2", then_ms=150)
    cluster.log_of(1).request_flush()
    cluster.run(1)
    cluster.cut_power(1)
    cluster.cut_power(2)
    cluster.forgive()
    cluster.start(2)
    cluster.elect(2, then_ms=50)
    cluster.must_hold(2, "m1")
    cluster.send(2, "m3", then_ms=150)
    cluster.start(1)
    cluster.must_hold(1, "m1", "m2")


def r03_two_quick_elections(testbed: Testbed) -> None:
    """A follower whose last epoch the leader never knew finds the place where they part.

    Origin: KIP-279, KAFKA-6361
    Case: three leaders in quick succession write what no other replica receives; the last one knows
    epochs 0, 2 and 4, the follower 0 and 3.
    Must: the leader answers with the largest epoch not above the asked one and where it ended; the
    follower, which does not have that epoch either, cuts to the end of its own epoch below, and
    they repeat until they agree.
    """
    cluster = testbed.topic(1, 2, 3, first="m0")
    cluster.part(1, 2, 3)
    cluster.elect(3, 1, 2, 3, then_ms=10)
    cluster.elect(1, 1, 2, 3, then_ms=10)
    cluster.send(1, "p", acks=1)
    cluster.send(1, "q", acks=1)
    cluster.elect(2, 1, 2, 3, then_ms=10)
    for value in ("x", "y", "z"):
        cluster.send(2, value, acks=1)
    cluster.elect(1, 1, 2, 3, then_ms=10)
    cluster.send(1, "r", then_ms=50)
    cluster.reunite(then_ms=600)
    expected = ["m0", "p", "q", "r"]
    cluster.must_hold(2, *expected, name="ReplicasEqual")


def r06_elections_without_records(testbed: Testbed) -> None:
    """Epochs without records are remembered by the leader, and forgotten by the others.

    Origin: KAFKA-7415, KAFKA-10706
    Case: broker 2 writes b, which no other replica receives, then broker 1 leads an epoch and
    writes a record that no other replica receives; broker 2 leads the next epoch and writes
    nothing, broker 1 follows it; then broker 1 leads, and broker 2 follows with an empty epoch that
    no other knows.
    Must: a leader notes its epoch on election, so that broker 1 learns where the one before ended;
    cutting at the log end or above still drops the empty epoch, so that broker 2 does not ask in
    circles.
    """
    cluster = testbed.replicas(1, 2)
    cluster.topic(2, 1)
    cluster.send(2, "a", then_ms=150)
    cluster.part(1, 2)
    cluster.send(2, "b", acks=1)
    cluster.elect(1, 1, 2, then_ms=10)
    cluster.send(1, "lost", acks=1)
    cluster.elect(2, then_ms=10)
    cluster.reunite(then_ms=300)
    cluster.must_hold(1, "a", "b", name="ReplicasEqual")
    cluster.elect(1, 1, 2, then_ms=10)
    cluster.send(1, "c", then_ms=300)
    cluster.must_hold(2, "a", "b", "c", name="ReplicasEqual")


def r07_same_leader_again(testbed: Testbed) -> None:
    """A follower that missed a leadership reconciles, though its leader is the same as before.

    Origin: KAFKA-7164
    Case: broker 1 leads, broker 2 leads for a moment and makes broker 1 cut b, broker 1 leads
    again and writes c where b was; broker 3 has b and receives all that at once.
    Must: broker 3 cuts b.
    """
    cluster = testbed.topic(1, 2, 3, first="a")
    cluster.held.add((1, 2))
    cluster.send(1, "b", acks=1, then_ms=20)
    cluster.must_hold(3, "a", "b")
    cluster.brokers[3].sees_metadata = False
    cluster.elect(2, 1, 2, 3)
    cluster.release(1, 2, then_ms=150)
    cluster.must_hold(1, "a")
    cluster.elect(1, 1, 2, 3, then_ms=10)
    cluster.send(1, "c", then_ms=20)
    cluster.brokers[3].sees_metadata = True
    cluster.run(400)
    expected = ["a", "c"]
    cluster.must_hold(3, *expected, name="ReplicasEqual")
