"""Scenarios of the in-sync replicas: whom the leader waits for, and who may be elected.

Theory. The controller owns the ISR and may elect any of its members at any moment; the leader
advances the high watermark. So the leader waits for every replica that the controller may have in
the ISR by now: committed, about to join, about to leave. And no replica joins that does not hold
all that is committed, by word of the very process that runs.

Source: KIP-497, KIP-841, KIP-903, KIP-966.
"""

from tidelog.sim.regressions.testbed import Scene, Testbed


def r05_newcomer_below_the_epoch_start(testbed: Testbed) -> None:
    """A new leader with a low high watermark does not admit a replica that lacks records.

    Origin: KAFKA-7128
    Case: broker 2 is elected with three committed records of which it does not know that they are
    committed; broker 3, which has none, fetches from the beginning; broker 2 dies.
    Must: broker 3 is not in the ISR before it has reached the start of the term.
    """
    cluster = testbed.topic(1, 2, 3)
    cluster.part(1, 3)
    cluster.set_isr(1, 2, then_ms=1600)
    cluster.send(1, "a", "b", "c")
    cluster.held.add((1, 2))
    cluster.run(5)
    testbed.must(len(cluster.acknowledged) == 3, "Setup", "not acknowledged")
    cluster.kill(1)
    cluster.held.add((2, 3))
    cluster.elect(2, 1, 2, then_ms=50)
    testbed.must(cluster.log_of(2).high_watermark == 0, "Setup", "broker 2 knows too much")
    cluster.kill(2)
    cluster.elect_survivor()
    cluster.run(20)
    cluster.start(2)
    cluster.start(1)
    cluster.feed.change("orders", leader=cluster.newest.isr[0])
    cluster.run(100)


def r08_changes_in_flight(testbed: Testbed) -> None:
    """An ISR change that is under way counts as both made and not made.

    Origin: KIP-497, KAFKA-12686, KAFKA-13091
    Case: the controller has committed that broker 2 joins, or refuses to let it leave, and the
    leader does not know of it when it writes; then broker 2 is elected. On a third cluster a
    replica leaves with the controller's consent while an acknowledgement waits for it.
    Must: the leader waits for broker 2 in both cases; in the third the high watermark is looked at
    again when the change is known, and the acknowledgement follows.
    """
    _expansion_in_flight(testbed.replicas(1, 2))
    _shrink_in_flight(testbed.replicas(1, 2))
    cluster = testbed.topic(1, 2)
    cluster.kill(2)
    cluster.send(1, "b", then_ms=1_600)
    testbed.must(cluster.newest.isr == (1,), "Setup", "broker 2 did not leave")
    testbed.must(len(cluster.acknowledged) == 1, "EveryAckEnds", "b waits for a replica that left")


def _expansion_in_flight(cluster: Scene) -> None:
    cluster.topic(1, 2)
    cluster.kill(2)
    cluster.set_isr(1, then_ms=10)
    cluster.send(1, "a")
    cluster.controller = "decides-unheard"
    cluster.start(2, then_ms=1)
    cluster.brokers[1].sees_metadata = False
    cluster.run(100)
    assert cluster.newest.isr == (1, 2), "Setup: broker 2 did not join"
    cluster.part(1, 2)
    cluster.send(1, "b", then_ms=50)
    cluster.kill(1)
    cluster.elect_survivor()
    cluster.run(10)


def _shrink_in_flight(cluster: Scene) -> None:
    cluster.topic(1, 2)
    cluster.send(1, "a", then_ms=150)
    cluster.controller = "silent"
    cluster.part(1, 2)
    cluster.send(1, "b", then_ms=2_000)
    cluster.kill(1)
    cluster.elect(2, then_ms=10)


def r09_fenced_newcomer(testbed: Testbed) -> None:
    """The controller admits no replica to an ISR that is fenced by now.

    Origin: KIP-841, KAFKA-13916
    Case: broker 3 has caught up and its leader proposes it; before the proposal arrives broker 3
    is fenced, and the leader has not read that.
    Must: the proposal is refused.
    """
    cluster = testbed.topic(1, 2, 3, controlled=True)
    cluster.silence(3, then_ms=600)
    testbed.must(cluster.newest.isr == (1, 2), "Setup", "broker 3 is in the ISR")
    cluster.controller = "unreachable"
    cluster.silence(then_ms=300)
    cluster.brokers[1].sees_metadata = False
    cluster.silence(3, then_ms=600)
    testbed.must(cluster.feed.image.brokers[3].fenced, "Setup", "broker 3 is not fenced")
    cluster.controller = "decides"
    cluster.run(200)
    testbed.must(len(cluster.proposals) > 1, "Setup", "nothing was proposed")


def r10_fetch_from_before_a_reboot(testbed: Testbed) -> None:
    """What a process said before its machine lost power says nothing of the one after.

    Origin: KIP-903, KAFKA-14617, KAFKA-15221
    Case: broker 2 fetches at the end of the log; the fetch is late; the machine loses power and
    all records; the new process registers, then the old fetch arrives, then the leader dies.
    Must: broker 2 is not in the ISR until the new process itself has everything: the broker epoch
    is looked at in the fetch, in the leader's decision and in the controller's.
    """
    cluster = testbed.topic(1, 2, controlled=True)
    cluster.send(1, "a", then_ms=200)
    cluster.held.add((2, 1))
    cluster.run(200)
    cluster.cut_power(2)
    cluster.controlled.suspect(2)
    cluster.run(100)
    testbed.must(cluster.newest.isr == (1,), "Setup", f"{cluster.newest}")
    cluster.held.add((1, 2))
    cluster.start(2, then_ms=100)
    testbed.must(not cluster.controlled.image.brokers[2].fenced, "Setup", "broker 2 is fenced")
    cluster.release(2, 1, then_ms=40)
    cluster.kill(1)
    cluster.controlled.suspect(1)
    cluster.run(100)


def r12_below_the_min_isr(testbed: Testbed) -> None:
    """Below the min ISR nothing is committed, whatever the acks.

    Origin: KAFKA-15583
    Case: the ISR is down to the leader, a client writes with acks=1, a consumer reads; then an
    eligible replica, which left when all that was committed was on it, is elected.
    Must: the high watermark stands still; no consumer reads what the eligible replica lacks.
    """
    cluster = testbed.topic(1, 2, 3, min_insync_replicas="2", first="a")
    cluster.kill(2)
    cluster.kill(3)
    cluster.feed.fence(2)
    cluster.feed.fence(3)
    cluster.set_isr(1, then_ms=10)
    refused = cluster.send(1, "b")
    cluster.send(1, "c", acks=1, then_ms=100)
    cluster.read(1, 1)
    cluster.run(10)
    name = cluster.code_of(refused)
    testbed.must(name is not None and name.name == "NOT_ENOUGH_REPLICAS", "MinIsrFreeze", f"{name}")
    cluster.kill(1)
    cluster.start(2)
    cluster.elect(2, then_ms=10)


def r45_removed_and_added_again(testbed: Testbed) -> None:
    """A replica that was removed and added again is a new one.

    Origin: the text of KIP-966 (reassignment ABA)
    Case: broker 3 says that it has everything, the fetch is late; it is removed from the
    partition, deletes its log, is added again and starts empty; the fetch arrives; the others die.
    Must: the fetch is fenced, because removing it began a new leader epoch.
    """
    cluster = testbed.topic(1, 2, 3, controlled=True)
    cluster.send(1, "a", then_ms=200)
    cluster.held.add((3, 1))
    cluster.run(110)
    cluster.controlled.reassign("orders", (1, 2))
    cluster.run(50)
    testbed.must(cluster.newest.replicas == (1, 2), "Setup", "broker 3 is a replica")
    cluster.held.add((1, 3))
    cluster.controlled.reassign("orders", (1, 2, 3))
    cluster.run(20)
    cluster.release(3, 1, then_ms=40)
    isr = cluster.newest.isr
    testbed.must(3 not in isr, "CandidateCompleteness", f"broker 3 is empty and in the ISR {isr}")
    cluster.run(100)


def s12_proposal_of_a_deposed_leader(testbed: Testbed) -> None:
    """The controller takes proposals of the present leader only.

    Origin: KIP-497
    Case: a leader loses its session and does not notice; another one is elected; the old leader
    proposes an ISR without it.
    Must: the proposal is refused by its leader epoch.
    """
    cluster = testbed.topic(1, 2, 3, controlled=True)
    cluster.send(1, "a", then_ms=200)
    cluster.brokers[1].sees_metadata = False
    cluster.silence(1)
    cluster.part(1, 2)
    cluster.part(1, 3)
    cluster.send(1, "b", acks=1, then_ms=2_500)
    testbed.must(cluster.newest.leader == 2, "Setup", "broker 2 does not lead")
    proposed = any(proposal.broker_epoch == _epoch_of(cluster, 1) for proposal in cluster.proposals)
    testbed.must(proposed, "Setup", "broker 1 proposed nothing")
    isr = cluster.newest.isr
    testbed.must(2 in isr and 1 not in isr, "LeaderInIsr", f"broker 2 leads with ISR {isr}")


def _epoch_of(cluster: Scene, node: int) -> int:
    return cluster.brokers[node].replicas.broker_epoch
