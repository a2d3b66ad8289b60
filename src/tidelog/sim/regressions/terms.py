"""Stories of elections by the real controller: who may lead, after whom, and in which epoch.

Source: KIP-966; KAFKA-18106, 18635, 19522.
"""

from tidelog.sim.regressions.scene import Scene
from tidelog.sim.replicas.controlled import ControlledFeed
from tidelog.sim.replicas.stage import Stage


def _feed(stage: Stage) -> ControlledFeed:
    feed = stage.feed
    assert isinstance(feed, ControlledFeed), "the real controller decides"
    return feed


def r11_last_replica_standing(scene: Scene) -> None:
    """The last member of an ISR does not lead again when it has lost its records.

    Origin: KIP-966 ("last replica standing")
    Story: two brokers are cut off from the controller, one after the other, so that the ISR shrinks
    to the leader; its machine loses power and all that was not flushed; it comes back first, then
    the others.
    Must: the eligible leader replica is elected, not the emptied leader; nothing acknowledged is
    lost.
    """
    stage = scene.stage(1, 2, 3, controlled=True)
    feed = _feed(stage)
    stage.topic(1, 2, 3, min_insync_replicas="2")
    stage.send(1, "a", "b")
    stage.run(200)
    scene.must(len(stage.acknowledged) == 2, "Story", "not acknowledged")
    stage.silent.add(3)
    stage.run(500)
    stage.silent.add(2)
    stage.run(500)
    scene.must(feed.partition("orders").eligible_leaders == (2,), "Story", "broker 2 is no ELR")
    stage.cut_power(1)
    feed.suspect(1)
    stage.run(100)
    stage.start(1)
    stage.run(500)
    scene.must(not feed.image.brokers[1].fenced, "Story", "broker 1 is fenced")
    stage.silent.discard(2)
    stage.run(500)
    stage.finish()


def r13_same_leader_after_a_crash(scene: Scene) -> None:
    """A leader that lost its tail and leads again begins a new term, whoever else there is.

    Origin: KAFKA-18106, KAFKA-18635
    Story: the ISR is the leader alone; its machine loses power and with it b; it registers again
    before its session ends, leads again and writes c where b was; a follower that has b returns.
    Must: ISR, eligible leaders and leader epoch show the restart; the follower cuts b.
    """
    stage = scene.stage(1, 2, controlled=True)
    feed = _feed(stage)
    stage.topic(1, 2, min_insync_replicas="1")
    stage.send(1, "a")
    stage.run(200)
    stage.log_of(1).request_flush()
    stage.run(50)
    stage.send(1, "b")
    stage.run(200)
    stage.silent.add(2)
    stage.cut |= {(1, 2), (2, 1)}
    stage.run(500)
    before = feed.partition("orders")
    scene.must(before.isr == (1,), "Story", f"{before}")
    stage.cut_power(1)
    stage.forgive()
    stage.start(1)
    stage.run(500)
    after = feed.partition("orders")
    scene.must(after.leader == 1, "Story", f"{after}")
    scene.must(
        after.leader_epoch > before.leader_epoch, "TermsEnd", f"a restart within one term: {after}"
    )
    stage.send(1, "c")
    stage.run(100)
    stage.finish()


def r14_last_known_leader_is_fenced(scene: Scene) -> None:
    """The last known leader is not elected while it is fenced.

    Origin: KAFKA-19522
    Story: the only member of the ISR dies uncleanly and registers again, but does not heartbeat;
    another replica, which lacks records, returns and makes the controller look for leaders.
    Must: nobody leads until the last known leader is there.
    """
    stage = scene.stage(1, 2, controlled=True)
    feed = _feed(stage)
    stage.topic(1, 2, min_insync_replicas="1")
    stage.silent.add(2)
    stage.run(500)
    stage.cut |= {(1, 2), (2, 1)}
    stage.send(1, "a")
    stage.run(100)
    stage.kill(1)
    feed.suspect(1)
    stage.run(20)
    stage.silent.add(1)
    stage.start(1)
    stage.run(100)
    partition = feed.partition("orders")
    scene.must(partition.last_known_eligible_leaders == (1,), "Story", f"{partition}")
    stage.silent.discard(2)
    stage.run(500)
    partition = feed.partition("orders")
    scene.must(not feed.image.brokers[2].fenced, "Story", "broker 2 is fenced")
    scene.must(partition.leader == -1, "FencedOutOfIsr", f"a fenced broker leads: {partition}")
    stage.forgive()
    stage.finish()
