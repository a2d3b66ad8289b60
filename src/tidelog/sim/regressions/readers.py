"""Stories of readers: what a consumer may be shown, by whom, and whose word counts as a replica's.

Source: KIP-98, KIP-392; KAFKA-9807, 14372; CVE-2018-1288.
"""

from dataclasses import replace

from tidelog.config import RACK_AWARE_SELECTOR
from tidelog.errors import ErrorCode
from tidelog.sim.engine.client import SimClient
from tidelog.sim.regressions.scene import Scene
from tidelog.sim.regressions.small_cluster import SmallCluster
from tidelog.sim.replicas.cluster import CONFIG
from tidelog.sim.replicas.requests import Producer


def r23_read_committed(scene: Scene) -> None:
    """A reader of decided transactions is never given what is undecided.

    Origin: KAFKA-9807
    Story: a transaction is open, its records and those behind it are committed; a consumer reads
    with read_committed while the high watermark moves.
    Must: nothing at or above the last stable offset is given.
    """
    stage = scene.stage(1, 2)
    stage.topic(1, 2)
    stage.send(1, "a")
    stage.run(150)
    stage.send(1, "open", producer=Producer(7, 0, 0, is_transactional=True))
    for step in range(6):
        stage.send(1, f"behind-{step}")
        name = stage.read(1, 0, committed=True)
        stage.run(step)
        scene.must(
            all(offset < 1 for offset in stage.offsets_in(name)),
            "ReadsBelowLastStableOffset",
            f"{stage.offsets_in(name)} while the transaction at 1 is open",
        )
    stage.run(200)
    scene.must(stage.log_of(1).high_watermark == 8, "Story", "not committed")
    stage.read(1, 0, committed=True)
    stage.finish()


def r28_visible_and_lost(scene: Scene) -> None:
    """What a reader was shown is never lost, whatever the acks.

    Origin: Redpanda 14794
    Story: a record written with acks=1 is on the leader only; a consumer reads; the leader dies and
    another replica is elected.
    Must: the record was not shown.
    """
    stage = scene.stage(1, 2)
    stage.topic(1, 2)
    stage.send(1, "a")
    stage.run(150)
    stage.cut |= {(1, 2), (2, 1)}
    stage.send(1, "lost", acks=1)
    stage.read(1, 0)
    stage.run(5)
    stage.kill(1)
    stage.feed.change("orders", leader=2, isr=(2,))
    stage.run(10)
    stage.finish()


def r42_reads_from_followers(scene: Scene) -> None:
    """A consumer is sent to a follower only if it can go on there.

    Origin: KIP-392, KAFKA-14372
    Story: a consumer has read two records and asks from the rack of broker 3, which has fallen out
    of the ISR and has only the first one; later broker 3 has both and is in sync, but does not know
    yet that the second one is committed.
    Must: at first the leader serves; later broker 3 does, and answers "nothing yet", never that the
    offset does not exist.
    """
    config = replace(CONFIG, replica_selector_class=RACK_AWARE_SELECTOR)
    stage = scene.stage(1, 2, 3, config=config)
    stage.topic(1, 2, 3)
    stage.send(1, "a")
    stage.run(150)
    stage.cut |= {(1, 3), (3, 1)}
    stage.feed.change("orders", isr=(1, 2))
    stage.run(1_600)
    stage.send(1, "b")
    stage.run(50)
    preferred = stage.answer_to(stage.read(1, 2, rack_id="rack-3")).preferred_read_replica
    scene.must(preferred == -1, "FollowerReadsAreMonotone", f"sent to {preferred} with one record")
    stage.cut.clear()
    stage.run(400)
    scene.must(stage.feed.partition("orders").isr == (1, 2, 3), "Story", "broker 3 is not in sync")
    stage.send(1, "c")
    stage.run(2)
    stage.held.add((1, 3))
    stage.run(20)
    scene.must(stage.log_of(3).high_watermark == 2, "Story", "broker 3 knows too much")
    preferred = stage.answer_to(stage.read(1, 3, rack_id="rack-3")).preferred_read_replica
    scene.must(preferred == 3, "FollowerReadsAreMonotone", f"sent to {preferred}")
    code = stage.code_of(stage.read(3, 3))
    scene.must(code is ErrorCode.NONE, "FollowerReadsAreMonotone", f"told {code}")
    stage.read(3, 0)
    stage.finish()


def r43_forged_replica(scene: Scene) -> None:
    """A client that claims to be a replica moves nothing.

    Origin: CVE-2018-1288
    Story: on whole nodes, a record waits for a follower that is cut off; a client fetches in its
    name, without a broker epoch and with one that it made up.
    Must: the fetches are refused; high watermark and ISR stay.
    """
    world = scene.world()
    cluster = SmallCluster(world)
    cluster.begin()
    leader = cluster.leader
    client = SimClient(world, leader)
    client.produce("t", 0, [b"a"])
    follower = leader % 3 + 1
    world.cut(leader, follower)
    world.cut(follower, leader)
    client.send_produce("t", 0, [b"b"])
    world.run_for(20)
    host = world.hosts[leader]
    assert host.node is not None, f"Story: {host.name} is down"
    (partition,) = host.node.broker.replicas.partitions.values()
    scene.must(partition.log.high_watermark == 1, "Story", "b is committed")
    for epoch in (-1, 0, 1 << 40):
        forger = SimClient(world, leader)
        response = forger.fetch_as((follower, epoch), partition.topic_id, 0, 2)
        told = [answer.error_code for answer in response.partitions]
        scene.must(ErrorCode.NONE not in told, "ForgersMoveNothing", f"epoch {epoch}: {told}")
    world.run_for(20)
    bounds = (partition.log.high_watermark, len(partition.image.isr) if partition.image else 0)
    scene.must(bounds == (1, 3), "ForgersMoveNothing", f"high watermark and ISR: {bounds}")
