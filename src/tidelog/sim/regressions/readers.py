"""Scenarios of readers: what a consumer may be shown, by whom, and whose word counts as a
replica's.

Source: KIP-98, KIP-392; KAFKA-9807, 14372; CVE-2018-1288.
"""

from dataclasses import replace

from tidelog.config import RACK_AWARE_SELECTOR
from tidelog.errors import ErrorCode
from tidelog.sim.engine.client import SimClient
from tidelog.sim.regressions.testbed import SmallCluster, Testbed
from tidelog.sim.replicas.cluster import CONFIG, Producer


def r23_read_committed(testbed: Testbed) -> None:
    """A reader of decided transactions is never given what is undecided.

    Origin: KAFKA-9807
    Case: a transaction is open, its records and those behind it are committed; a consumer reads
    with read_committed while the high watermark moves.
    Must: nothing at or above the last stable offset is given.
    """
    cluster = testbed.topic(1, 2, first="a")
    cluster.send(1, "open", producer=Producer(7, 0, 0, is_transactional=True))
    for step in range(6):
        cluster.send(1, f"behind-{step}")
        name = cluster.read(1, 0, committed=True)
        cluster.run(step)
        testbed.must(
            all(offset < 1 for offset in cluster.offsets_in(name)),
            "ReadsBelowLastStableOffset",
            f"{cluster.offsets_in(name)} while the transaction at 1 is open",
        )
    cluster.run(200)
    testbed.must(cluster.log_of(1).high_watermark == 8, "Setup", "not committed")
    cluster.read(1, 0, committed=True)


def r28_visible_and_lost(testbed: Testbed) -> None:
    """What a reader was shown is never lost, whatever the acks.

    Origin: Redpanda 14794
    Case: a record written with acks=1 is on the leader only; a consumer reads; the leader dies and
    another replica is elected.
    Must: the record was not shown.
    """
    cluster = testbed.topic(1, 2, first="a")
    cluster.part(1, 2)
    cluster.send(1, "lost", acks=1)
    cluster.read(1, 0)
    cluster.run(5)
    cluster.kill(1)
    cluster.elect(2, then_ms=10)


def r42_reads_from_followers(testbed: Testbed) -> None:
    """A consumer is sent to a follower only if it can go on there.

    Origin: KIP-392, KAFKA-14372
    Case: a consumer has read two records and asks from the rack of broker 3, which has fallen out
    of the ISR and has only the first one; later broker 3 has both and is in sync, but does not know
    yet that the second one is committed.
    Must: at first the leader serves; later broker 3 does, and answers "nothing yet", never that the
    offset does not exist.
    """
    config = replace(CONFIG, replica_selector_class=RACK_AWARE_SELECTOR)
    cluster = testbed.topic(1, 2, 3, config=config, first="a")
    cluster.part(1, 3)
    cluster.set_isr(1, 2, then_ms=1_600)
    cluster.send(1, "b", then_ms=50)
    preferred = cluster.answer_to(cluster.read(1, 2, rack_id="rack-3")).preferred_read_replica
    testbed.must(
        preferred == -1, "FollowerReadsAreMonotone", f"sent to {preferred} with one record"
    )
    cluster.reunite(then_ms=400)
    testbed.must(cluster.newest.isr == (1, 2, 3), "Setup", "broker 3 is not in sync")
    cluster.send(1, "c", then_ms=2)
    cluster.held.add((1, 3))
    cluster.run(20)
    testbed.must(cluster.log_of(3).high_watermark == 2, "Setup", "broker 3 knows too much")
    preferred = cluster.answer_to(cluster.read(1, 3, rack_id="rack-3")).preferred_read_replica
    testbed.must(preferred == 3, "FollowerReadsAreMonotone", f"sent to {preferred}")
    code = cluster.code_of(cluster.read(3, 3))
    testbed.must(code is ErrorCode.NONE, "FollowerReadsAreMonotone", f"answered {code}")
    cluster.read(3, 0)


def r43_forged_replica(testbed: Testbed) -> None:
    """A client that claims to be a replica moves nothing.

    Origin: CVE-2018-1288
    Case: on whole nodes, a record waits for a follower that is cut off; a client fetches in its
    name, without a broker epoch and with one that it made up.
    Must: the fetches are refused; high watermark and ISR stay.
    """
    world = testbed.world()
    cluster = SmallCluster(world)
    leader = cluster.leader
    client = SimClient(world, leader)
    client.produce("t", 0, [b"a"])
    follower = leader % 3 + 1
    world.cut(leader, follower)
    world.cut(follower, leader)
    client.send_produce("t", 0, [b"b"])
    world.run_for(20)
    host = world.hosts[leader]
    assert host.node is not None, f"Setup: {host.name} is down"
    (partition,) = host.node.broker.replicas.partitions.values()
    testbed.must(partition.log.high_watermark == 1, "Setup", "b is committed")
    for epoch in (-1, 0, 1 << 40):
        forger = SimClient(world, leader)
        response = forger.fetch_as((follower, epoch), partition.topic_id, 0, 2)
        codes = [answer.error_code for answer in response.partitions]
        testbed.must(ErrorCode.NONE not in codes, "ForgersMoveNothing", f"epoch {epoch}: {codes}")
    world.run_for(20)
    bounds = (partition.log.high_watermark, len(partition.image.isr) if partition.image else 0)
    testbed.must(bounds == (1, 3), "ForgersMoveNothing", f"high watermark and ISR: {bounds}")
