"""Scenarios of elections by the real controller: who may lead, after whom, and in which epoch.

Source: KIP-966; KAFKA-18106, 18635, 19522.
"""

from tidelog.sim.regressions.testbed import Testbed


def r11_last_replica_standing(testbed: Testbed) -> None:
    """The last member of an ISR does not lead again when it has lost its records.

    Origin: KIP-966 ("last replica standing")
    Case: two brokers are cut off from the controller, one after the other, so that the ISR shrinks
    to the leader; its machine loses power and all that was not flushed; it comes back first, then
    the others.
    Must: the eligible leader replica is elected, not the emptied leader; nothing acknowledged is
    lost.
    """
    cluster = testbed.replicas(1, 2, 3, controlled=True)
    cluster.topic(1, 2, 3, min_insync_replicas="2")
    cluster.send(1, "a", "b", then_ms=200)
    testbed.must(len(cluster.acknowledged) == 2, "Setup", "not acknowledged")
    cluster.silence(3, then_ms=500)
    cluster.silence(2, 3, then_ms=500)
    testbed.must(cluster.newest.eligible_leaders == (2,), "Setup", "broker 2 is not in the ELR")
    cluster.cut_power(1)
    cluster.controlled.suspect(1)
    cluster.run(100)
    cluster.start(1, then_ms=500)
    testbed.must(not cluster.controlled.image.brokers[1].fenced, "Setup", "broker 1 is fenced")
    cluster.silence(3, then_ms=500)


def r13_same_leader_after_a_crash(testbed: Testbed) -> None:
    """A leader that lost its tail and leads again begins a new term, also where another could.

    Origin: KAFKA-18106, KAFKA-18635
    Case: the ISR is the leader alone; its machine loses power and with it b; it registers again
    before its session ends, leads again and writes c where b was; a follower that has b returns.
    Must: ISR, eligible leaders and leader epoch show the restart; the follower cuts b.
    """
    cluster = testbed.replicas(1, 2, controlled=True)
    cluster.topic(1, 2, min_insync_replicas="1")
    cluster.send(1, "a", then_ms=200)
    cluster.log_of(1).request_flush()
    cluster.run(50)
    cluster.send(1, "b", then_ms=200)
    cluster.silence(2)
    cluster.part(1, 2, then_ms=500)
    before = cluster.newest
    testbed.must(before.isr == (1,), "Setup", f"{before}")
    cluster.cut_power(1)
    cluster.forgive()
    cluster.start(1, then_ms=500)
    after = cluster.newest
    testbed.must(after.leader == 1, "Setup", f"{after}")
    testbed.must(
        after.leader_epoch > before.leader_epoch, "TermsEnd", f"a restart within one term: {after}"
    )
    cluster.send(1, "c", then_ms=100)


def r14_last_known_leader_is_fenced(testbed: Testbed) -> None:
    """The last known leader is not elected while it is fenced.

    Origin: KAFKA-19522
    Case: the only member of the ISR dies uncleanly and registers again, but does not heartbeat;
    another replica, which lacks records, returns and makes the controller look for leaders.
    Must: there is no leader until the last known leader is there.
    """
    cluster = testbed.replicas(1, 2, controlled=True)
    cluster.topic(1, 2, min_insync_replicas="1")
    cluster.silence(2, then_ms=500)
    cluster.part(1, 2)
    cluster.send(1, "a", then_ms=100)
    cluster.kill(1)
    cluster.controlled.suspect(1)
    cluster.run(20)
    cluster.silence(1, 2)
    cluster.start(1, then_ms=100)
    partition = cluster.newest
    testbed.must(partition.last_known_eligible_leaders == (1,), "Setup", f"{partition}")
    cluster.silence(1, then_ms=500)
    partition = cluster.newest
    testbed.must(not cluster.controlled.image.brokers[2].fenced, "Setup", "broker 2 is fenced")
    testbed.must(partition.leader == -1, "FencedOutOfIsr", f"a fenced broker leads: {partition}")
    cluster.forgive()
