"""Stories of logs that part and must become one again: what a follower cuts, and by whose word.

Theory. A follower's high watermark lags behind its leader's, so it says nothing about what may be
cut; the leader epochs of the records do. A follower tells its last epoch and end, the leader
answers with the largest epoch not above it and where that ended, and they repeat until they agree.

Source: KIP-101, KIP-279, KIP-320.
"""

from tidelog.sim.regressions.scene import Scene


def r01_truncate_by_epoch(scene: Scene) -> None:
    """A follower that was promoted keeps what its high watermark did not cover.

    Origin: KIP-101 (a)
    Story: the follower holds m2, which is acknowledged, but has not heard that it is committed; it
    restarts, then the leader dies and the follower is elected.
    Must: m2 survives: logs are cut by epoch, never by high watermark.
    """
    stage = scene.stage(1, 2)
    stage.topic(1, 2)
    stage.send(1, "m1")
    stage.run(150)
    stage.send(1, "m2")
    stage.run(2)
    # From here on the follower hears nothing: its high watermark stays below m2.
    stage.held.add((1, 2))
    stage.run(20)
    scene.must(len(stage.acknowledged) == 2, "Story", f"{stage.acknowledged}")
    scene.must(stage.log_of(2).high_watermark == 1, "Story", "the follower knows too much")
    stage.kill(2)
    stage.start(2)
    stage.run(20)
    stage.kill(1)
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(50)
    stage.finish()


def r02_two_lose_power(scene: Scene) -> None:
    """Replicas that lost different amounts do not end up with different logs of one length.

    Origin: KIP-101 (b)
    Story: both lose power, with m2 flushed on the leader only; the shorter one comes back first and
    writes m3 where m2 was; the other one returns with the same end and the same high watermark.
    Must: the logs do not diverge: the one that returns cuts m2.
    """
    stage = scene.stage(1, 2)
    stage.topic(1, 2)
    stage.brokers[2].flushes = False
    stage.send(1, "m1")
    stage.run(150)
    stage.brokers[2].flushes = True
    for node in (1, 2):
        stage.log_of(node).request_flush()
    stage.run(150)
    stage.send(1, "m2")
    stage.run(150)
    stage.log_of(1).request_flush()
    stage.run(1)
    stage.cut_power(1)
    stage.cut_power(2)
    stage.forgive()
    stage.start(2)
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(50)
    scene.must(stage.values(2) == ["m1"], "Story", f"b2 has {stage.values(2)}")
    stage.send(2, "m3")
    stage.run(150)
    stage.start(1)
    scene.must(stage.values(1) == ["m1", "m2"], "Story", f"b1 has {stage.values(1)}")
    stage.finish()


def r03_two_quick_elections(scene: Scene) -> None:
    """A follower whose last epoch the leader never knew finds the place where they part.

    Origin: KIP-279, KAFKA-6361
    Story: three leaders in quick succession write without being heard; the last one knows epochs
    0, 2 and 4, the follower 0 and 3.
    Must: the leader answers with the largest epoch not above the asked one and where it ended; the
    follower, which does not have that epoch either, cuts to the end of its own epoch below, and
    they repeat until they agree.
    """
    stage = scene.stage(1, 2, 3)
    stage.topic(1, 2, 3)
    stage.send(1, "m0")
    stage.run(150)
    _isolate(stage.cut, (1, 2, 3))
    change = stage.feed.change
    change("orders", leader=3, isr=(1, 2, 3))
    stage.run(10)
    change("orders", leader=1, isr=(1, 2, 3))
    stage.run(10)
    stage.send(1, "p", acks=1)
    stage.send(1, "q", acks=1)
    change("orders", leader=2, isr=(1, 2, 3))
    stage.run(10)
    for value in ("x", "y", "z"):
        stage.send(2, value, acks=1)
    change("orders", leader=1, isr=(1, 2, 3))
    stage.run(10)
    stage.send(1, "r")
    stage.run(50)
    stage.cut.clear()
    stage.run(600)
    expected = ["m0", "p", "q", "r"]
    scene.must(stage.values(2) == expected, "ReplicasEqual", f"b2 has {stage.values(2)}")
    stage.finish()


def r06_elections_without_records(scene: Scene) -> None:
    """Epochs in which nobody wrote are remembered by the leader, and forgotten by the others.

    Origin: KAFKA-7415, KAFKA-10706
    Story: broker 2 writes b, which nobody else hears, then broker 1 leads an epoch and writes a
    record that nobody else hears; broker 2 leads the next epoch and writes nothing, broker 1
    follows it; then broker 1 leads, and broker 2 follows with an empty epoch that nobody else
    knows.
    Must: a leader notes its epoch on election, so that broker 1 learns where the one before ended;
    cutting at the log end or above still drops the empty epoch, so that broker 2 does not ask in
    circles.
    """
    stage = scene.stage(1, 2)
    stage.topic(2, 1)
    stage.send(2, "a")
    stage.run(150)
    _isolate(stage.cut, (1, 2))
    stage.send(2, "b", acks=1)
    stage.feed.change("orders", leader=1, isr=(1, 2))
    stage.run(10)
    stage.send(1, "lost", acks=1)
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(10)
    stage.cut.clear()
    stage.run(300)
    scene.must(stage.values(1) == ["a", "b"], "ReplicasEqual", f"b1 has {stage.values(1)}")
    stage.feed.change("orders", leader=1, isr=(1, 2))
    stage.run(10)
    stage.send(1, "c")
    stage.run(300)
    scene.must(stage.values(2) == ["a", "b", "c"], "ReplicasEqual", f"b2 has {stage.values(2)}")
    stage.finish()


def r07_same_leader_again(scene: Scene) -> None:
    """A follower that missed a leadership reconciles, though its leader is the same as before.

    Origin: KAFKA-7164
    Story: broker 1 leads, broker 2 leads for a moment and makes broker 1 cut b, broker 1 leads
    again and writes c where b was; broker 3 has b and hears of all that at once.
    Must: broker 3 cuts b.
    """
    stage = scene.stage(1, 2, 3)
    stage.topic(1, 2, 3)
    stage.send(1, "a")
    stage.run(150)
    stage.held.add((1, 2))
    stage.send(1, "b", acks=1)
    stage.run(20)
    scene.must(stage.values(3) == ["a", "b"], "Story", f"b3 has {stage.values(3)}")
    stage.brokers[3].sees_metadata = False
    stage.feed.change("orders", leader=2, isr=(1, 2, 3))
    stage.release(1, 2)
    stage.run(150)
    scene.must(stage.values(1) == ["a"], "Story", f"b1 has {stage.values(1)}")
    stage.feed.change("orders", leader=1, isr=(1, 2, 3))
    stage.run(10)
    stage.send(1, "c")
    stage.run(20)
    stage.brokers[3].sees_metadata = True
    stage.run(400)
    expected = ["a", "c"]
    scene.must(stage.values(3) == expected, "ReplicasEqual", f"b3 has {stage.values(3)}")
    stage.finish()


def _isolate(cut: set[tuple[int, int]], nodes: tuple[int, ...]) -> None:
    """Nobody hears anybody."""
    cut |= {(one, other) for one in nodes for other in nodes if one != other}
