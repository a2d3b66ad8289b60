"""Stories of the in-sync replicas: whom the leader waits for, and who may be elected.

Theory. The controller owns the ISR and may elect any of its members at any moment; the leader
advances the high watermark. So the leader waits for every replica that the controller may have in
the ISR by now: committed, about to join, about to leave. And nobody joins who does not hold all
that is committed, by word of the very process that runs.

Source: KIP-497, KIP-841, KIP-903, KIP-966.
"""

from tidelog.sim.regressions.scene import Scene
from tidelog.sim.replicas.controlled import ControlledFeed
from tidelog.sim.replicas.stage import Stage


def r05_newcomer_below_the_epoch_start(scene: Scene) -> None:
    """A new leader with a low high watermark does not admit a replica that lacks records.

    Origin: KAFKA-7128
    Story: broker 2 is elected with three committed records of which it does not know that they are
    committed; broker 3, which has none, fetches from the beginning; broker 2 dies.
    Must: broker 3 is not in the ISR before it has reached the start of the term.
    """
    stage = scene.stage(1, 2, 3)
    stage.topic(1, 2, 3)
    stage.cut |= {(1, 3), (3, 1)}
    stage.feed.change("orders", isr=(1, 2))
    stage.run(1600)
    stage.send(1, "a", "b", "c")
    stage.held.add((1, 2))
    stage.run(5)
    scene.must(len(stage.acknowledged) == 3, "Story", "not acknowledged")
    stage.kill(1)
    stage.held.add((2, 3))
    stage.feed.change("orders", leader=2, isr=(1, 2))
    stage.run(50)
    scene.must(stage.log_of(2).high_watermark == 0, "Story", "broker 2 knows too much")
    stage.kill(2)
    stage.elect_survivor()
    stage.run(20)
    stage.start(2)
    stage.start(1)
    stage.feed.change("orders", leader=stage.feed.partition("orders").isr[0])
    stage.run(100)
    stage.finish()


def r08_changes_in_flight(scene: Scene) -> None:
    """An ISR change that is under way counts as both made and not made.

    Origin: KIP-497, KAFKA-12686, KAFKA-13091
    Story: the controller has committed that broker 2 joins, or refuses to let it leave, and the
    leader has not heard of it when it writes; then broker 2 is elected. On a third stage a replica
    leaves with the controller's consent while an acknowledgement waits for it.
    Must: the leader waits for broker 2 in both cases; in the third the high watermark is looked at
    again when the change is known, and the acknowledgement follows.
    """
    _expansion_in_flight(scene.stage(1, 2))
    _shrink_in_flight(scene.stage(1, 2))
    stage = scene.stage(1, 2)
    stage.topic(1, 2)
    stage.kill(2)
    stage.send(1, "b")
    stage.run(1_600)
    scene.must(stage.feed.partition("orders").isr == (1,), "Story", "broker 2 did not leave")
    scene.must(len(stage.acknowledged) == 1, "EveryAckEnds", "b waits for a replica that left")
    stage.finish()


def _expansion_in_flight(stage: Stage) -> None:
    stage.topic(1, 2)
    stage.kill(2)
    stage.feed.change("orders", isr=(1,))
    stage.run(10)
    stage.send(1, "a")
    stage.controller = "decides-unheard"
    stage.start(2)
    stage.run(1)
    stage.brokers[1].sees_metadata = False
    stage.run(100)
    assert stage.feed.partition("orders").isr == (1, 2), "Story: broker 2 did not join"
    stage.cut |= {(1, 2), (2, 1)}
    stage.send(1, "b")
    stage.run(50)
    stage.kill(1)
    stage.elect_survivor()
    stage.run(10)
    stage.finish()


def _shrink_in_flight(stage: Stage) -> None:
    stage.topic(1, 2)
    stage.send(1, "a")
    stage.run(150)
    stage.controller = "silent"
    stage.cut |= {(1, 2), (2, 1)}
    stage.send(1, "b")
    stage.run(2_000)
    stage.kill(1)
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(10)
    stage.finish()


def r09_fenced_newcomer(scene: Scene) -> None:
    """The controller admits nobody to an ISR who is fenced by now.

    Origin: KIP-841, KAFKA-13916
    Story: broker 3 has caught up and its leader proposes it; before the proposal arrives broker 3
    is fenced, and the leader has not read that.
    Must: the proposal is refused.
    """
    stage = scene.stage(1, 2, 3, controlled=True)
    stage.topic(1, 2, 3)
    stage.silent.add(3)
    stage.run(600)
    scene.must(stage.feed.partition("orders").isr == (1, 2), "Story", "broker 3 is in the ISR")
    stage.controller = "unreachable"
    stage.silent.discard(3)
    stage.run(300)
    stage.brokers[1].sees_metadata = False
    stage.silent.add(3)
    stage.run(600)
    scene.must(stage.feed.image.brokers[3].fenced, "Story", "broker 3 is not fenced")
    stage.controller = "decides"
    stage.run(200)
    scene.must(len(stage.proposals) > 1, "Story", "nothing was proposed")
    stage.finish()


def r10_fetch_from_before_a_reboot(scene: Scene) -> None:
    """What a process said before its machine lost power says nothing of the one after.

    Origin: KIP-903, KAFKA-14617, KAFKA-15221
    Story: broker 2 fetches at the end of the log; the fetch is late; the machine loses power and
    all records; the new process registers, then the old fetch arrives, then the leader dies.
    Must: broker 2 is not in the ISR until the new process itself has everything: the broker epoch
    is looked at in the fetch, in the leader's decision and in the controller's.
    """
    stage = scene.stage(1, 2, controlled=True)
    stage.topic(1, 2)
    stage.send(1, "a")
    stage.run(200)
    stage.held.add((2, 1))
    stage.run(200)
    stage.cut_power(2)
    feed = stage.feed
    assert isinstance(feed, ControlledFeed), "the real controller decides"
    feed.suspect(2)
    stage.run(100)
    scene.must(feed.partition("orders").isr == (1,), "Story", f"{feed.partition('orders')}")
    stage.held.add((1, 2))
    stage.start(2)
    stage.run(100)
    scene.must(not feed.image.brokers[2].fenced, "Story", "broker 2 is fenced")
    stage.release(2, 1)
    stage.run(40)
    stage.kill(1)
    feed.suspect(1)
    stage.run(100)
    stage.finish()


def r12_below_the_min_isr(scene: Scene) -> None:
    """Below the min ISR nothing is committed, whatever the acks.

    Origin: KAFKA-15583
    Story: the ISR is down to the leader, a client writes with acks=1, a consumer reads; then an
    eligible replica, which left when all that was committed was on it, is elected.
    Must: the high watermark stands still; nobody reads what the eligible replica lacks.
    """
    stage = scene.stage(1, 2, 3)
    stage.topic(1, 2, 3, min_insync_replicas="2")
    stage.send(1, "a")
    stage.run(150)
    stage.kill(2)
    stage.kill(3)
    stage.feed.fence(2)
    stage.feed.fence(3)
    stage.feed.change("orders", isr=(1,))
    stage.run(10)
    refused = stage.send(1, "b")
    stage.send(1, "c", acks=1)
    stage.run(100)
    stage.read(1, 1)
    stage.run(10)
    name = stage.code_of(refused)
    scene.must(name is not None and name.name == "NOT_ENOUGH_REPLICAS", "MinIsrFreeze", f"{name}")
    stage.kill(1)
    stage.start(2)
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(10)
    stage.finish()


def r45_removed_and_added_again(scene: Scene) -> None:
    """A replica that was removed and added again is a new one.

    Origin: the text of KIP-966 (reassignment ABA)
    Story: broker 3 says that it has everything, the fetch is late; it is removed from the
    partition, deletes its log, is added again and starts empty; the fetch arrives; the others die.
    Must: the fetch is fenced, because removing it began a new leader epoch.
    """
    stage = scene.stage(1, 2, 3, controlled=True)
    stage.topic(1, 2, 3)
    feed = stage.feed
    assert isinstance(feed, ControlledFeed), "the real controller decides"
    stage.send(1, "a")
    stage.run(200)
    stage.held.add((3, 1))
    stage.run(110)
    feed.reassign("orders", (1, 2))
    stage.run(50)
    scene.must(feed.partition("orders").replicas == (1, 2), "Story", "broker 3 is a replica")
    stage.held.add((1, 3))
    feed.reassign("orders", (1, 2, 3))
    stage.run(20)
    stage.release(3, 1)
    stage.run(40)
    isr = feed.partition("orders").isr
    scene.must(3 not in isr, "CandidateCompleteness", f"broker 3 is empty and in the ISR {isr}")
    stage.run(100)
    stage.finish()


def s12_proposal_of_a_deposed_leader(scene: Scene) -> None:
    """The controller hears no leader but the present one.

    Origin: KIP-497
    Story: a leader loses its session and does not notice; another one is elected; the old leader
    proposes an ISR without it.
    Must: the proposal is refused by its leader epoch.
    """
    stage = scene.stage(1, 2, 3, controlled=True)
    stage.topic(1, 2, 3)
    stage.send(1, "a")
    stage.run(200)
    stage.brokers[1].sees_metadata = False
    stage.silent.add(1)
    stage.cut |= {(1, 2), (2, 1), (1, 3), (3, 1)}
    stage.send(1, "b", acks=1)
    stage.run(2_500)
    scene.must(stage.feed.partition("orders").leader == 2, "Story", "broker 2 does not lead")
    proposed = any(proposal.broker_epoch == _epoch_of(stage, 1) for proposal in stage.proposals)
    scene.must(proposed, "Story", "broker 1 proposed nothing")
    isr = stage.feed.partition("orders").isr
    scene.must(2 in isr and 1 not in isr, "LeaderInIsr", f"broker 2 leads with ISR {isr}")
    stage.finish()


def _epoch_of(stage: Stage, node: int) -> int:
    return stage.brokers[node].replicas.broker_epoch
