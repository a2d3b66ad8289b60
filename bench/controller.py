"""How long until all partitions of a dead broker are led again.

    make bench-controller                       # 1,000 and 10,000 partitions
    python -m bench.controller --partitions 1000 --rounds 5 --output json
    python -m bench.controller --partitions 10000 --in-memory

Three real nodes with default settings, topics of 100 partitions with three replicas, so that every
partition has a replica on every broker and each broker leads a third of them. A broker that is not
the active controller is killed, and then one that is. The figure is the time from the kill until
both other nodes name a live leader for the partitions that the dead one led: two of them, the first
and the last that were created, are asked for all the time (describing ten thousand would itself
take longer), then all of them once.
The half second of `tidelog.broker.disconnect.grace.ms` is in it.

With `--in-memory` the same nodes run in the simulator, on disks of memory, where other work on the
machine does not count. The figure is then two: the virtual time from the kill to the last node that
knows all new leaders (the half second, and delays of messages and flushes), and the CPU seconds
that all nodes together spent meanwhile. On real nodes the time is at most their sum, when each has
a core.

Besides: how long creating the topics, a clean stop of all nodes, and their start took.
"""

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tidelog.client import AdminClient, AdminError, Unreachable
from tidelog.client.blocking import Brokers
from tidelog.client.core.calls import request
from tidelog.client.core.values import parse_addresses
from tidelog.config import profile_settings
from tidelog.errors import ErrorCode
from tidelog.metadata.image import PartitionImage
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until
from tidelog.wire.api import ApiKey
from tidelog.wire.values import millis

PER_TOPIC = 100
PATIENCE_S = 300


def topics_of(partitions: int) -> list[str]:
    """Names of the topics that make up so many partitions."""
    return [f"t{number:03}" for number in range(max(1, partitions // PER_TOPIC))]


def led_by(cluster: LocalCluster, asked: int, topics: Sequence[str], node_id: int) -> int | None:
    """How many partitions `node_id` leads, or no broker, by the metadata of the node `asked`."""
    try:
        with AdminClient([cluster.node(asked).address], timeout_s=30) as admin:
            found = admin.describe_topics(topics)
    except (Unreachable, AdminError):
        return None
    return sum(one.leader in (node_id, -1) for topic in found for one in topic.partitions)


def measure_round(cluster: LocalCluster, topics: Sequence[str], victim: int) -> float:
    """Kills a broker; seconds until its partitions are led again. It is back and in sync after."""
    others = [node.node_id for node in cluster.nodes if node.node_id != victim]
    sample = [f"first-{victim}", f"last-{victim}"]
    assert led_by(cluster, victim, sample, victim), "the broker to be killed leads nothing"
    killed = time.monotonic()
    cluster.kill(victim)
    for other in others:
        wait_until(
            lambda other=other: led_by(cluster, other, sample, victim) == 0,
            PATIENCE_S,
            f"leaders as node {other} sees them",
        )
    took = time.monotonic() - killed
    for other in others:
        assert led_by(cluster, other, topics, victim) == 0, f"node {other} sees less"
    cluster.start_node(victim)
    cluster.wait_until_ready(PATIENCE_S)
    wait_until(lambda: is_in_sync(cluster, topics), PATIENCE_S, "full ISRs")
    balance(cluster, topics)
    return took


def balance(cluster: LocalCluster, topics: Sequence[str]) -> None:
    """Each broker leads its third again, or the next round would find less to do."""
    wish = request(
        ApiKey.ELECT_LEADERS,
        election_type=0,
        topic_partitions=None,
        timeout=millis(PATIENCE_S * 1000),
    )
    addresses = parse_addresses(node.address for node in cluster.nodes)
    with closing(Brokers(addresses, client_id="bench", timeout_s=PATIENCE_S)) as brokers:
        brokers.any(wish, attempt_s=PATIENCE_S)
    wait_until(lambda: is_balanced(cluster, topics), PATIENCE_S, "preferred leaders")


def create_samples(admin: AdminClient, name: str) -> None:
    """A partition led by each of the three nodes."""
    for leader in (1, 2, 3):
        others = [node_id for node_id in (1, 2, 3) if node_id != leader]
        admin.create_topic(f"{name}-{leader}", assignment=[[leader, *others]])


def is_in_sync(cluster: LocalCluster, topics: Sequence[str]) -> bool:
    """Whether all replicas are."""
    with cluster.admin(PATIENCE_S) as admin:
        found = admin.describe_topics(topics)
    return all({*one.isr} == {*one.replicas} for topic in found for one in topic.partitions)


def is_balanced(cluster: LocalCluster, topics: Sequence[str]) -> bool:
    """Whether the first replica leads everywhere."""
    with cluster.admin(PATIENCE_S) as admin:
        found = admin.describe_topics(topics)
    return all(one.leader == one.replicas[0] for topic in found for one in topic.partitions)


def measure(partitions: int, rounds: int, base_port: int | None) -> dict[str, object]:
    """All figures of one size."""
    figures: dict[str, object] = {"partitions": partitions}
    topics = topics_of(partitions)
    with tempfile.TemporaryDirectory(prefix="controller-") as directory:
        place = Path(directory) / "cluster"
        cluster = LocalCluster(3, data_dir=place, profile="default", base_port=base_port)
        with cluster:
            began = time.monotonic()
            with cluster.admin(PATIENCE_S) as admin:
                create_samples(admin, "first")
                for topic in topics:
                    admin.create_topic(topic, partitions=PER_TOPIC, replication_factor=3)
                create_samples(admin, "last")
            wait_until(lambda: is_in_sync(cluster, topics), PATIENCE_S, "topics")
            figures["create_s"] = round(time.monotonic() - began, 2)
            figures["re_led_s"] = []
            figures["re_led_with_controller_s"] = []
            for number in range(2 * rounds):
                with cluster.admin() as admin:
                    controller = admin.describe_quorum().leader_id
                others = [node.node_id for node in cluster.nodes if node.node_id != controller]
                victim = controller if number % 2 else others[number // 2 % 2]
                name = "re_led_with_controller_s" if number % 2 else "re_led_s"
                took = round(measure_round(cluster, topics, victim), 2)
                figures[name] = [*figures[name], took]  # type: ignore[misc]
            began = time.monotonic()
            cluster.stop(PATIENCE_S)
            figures["stop_s"] = round(time.monotonic() - began, 2)
            began = time.monotonic()
            cluster.start(PATIENCE_S)
            figures["start_s"] = round(time.monotonic() - began, 2)
    return figures


def measure_in_memory(partitions: int) -> dict[str, object]:
    """One kill of a broker that is not the controller, on simulated nodes."""
    world = World(1, settings=profile_settings("default", 3))
    world.driver.check_every = 0
    world.silent = True
    world.start_all()
    world.run_until(lambda: all(len(active(host)) == 3 for host in running(world)), 60_000)
    client = SimClient(world, 1)
    began = time.process_time()
    for topic in topics_of(partitions):
        assert client.create_topic(topic, partitions=PER_TOPIC) == ErrorCode.NONE, topic
    world.run_until(lambda: is_settled(world), 600_000)
    create_s = time.process_time() - began
    (first, *_) = running(world)
    assert first.node is not None, "it runs"
    controller = first.node.broker.quorum.leader_id
    victim = next(node_id for node_id in world.hosts if node_id != controller)
    led = sum(one.leader == victim for host in [first] for one in all_partitions(host))
    killed_at, began = world.now, time.process_time()
    world.kill(victim)
    world.run_until(
        lambda: all(
            one.leader not in (victim, -1)
            for host in running(world)
            for one in all_partitions(host)
        ),
        600_000,
    )
    return {
        "partitions": partitions,
        "led_by_the_dead": led,
        "virtual_s": round((world.now - killed_at) / 1000, 3),
        "cpu_s": round(time.process_time() - began, 2),
        "create_cpu_s": round(create_s, 2),
    }


def running(world: World) -> list[Host]:
    """The hosts whose node runs."""
    return [host for host in world.hosts.values() if host.node is not None]


def active(host: Host) -> list[int]:
    """The brokers that a host's node believes to be unfenced."""
    assert host.node is not None, "it runs"
    return [one for one, broker in host.node.broker.image.brokers.items() if broker.active]


def all_partitions(host: Host) -> list[PartitionImage]:
    """Every partition in the metadata of a host's node."""
    assert host.node is not None, "it runs"
    topics = host.node.broker.image.topics_by_name.values()
    return [one for topic in topics for one in topic.partitions.values()]


def is_settled(world: World) -> bool:
    """Whether all nodes know all partitions, with leaders and full ISRs."""
    counts = {len(all_partitions(host)) for host in running(world)}
    return len(counts) == 1 and all(
        one.leader >= 0 and len(one.isr) == 3 for one in all_partitions(running(world)[0])
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.controller", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--partitions", type=int, nargs="*", default=[1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=3, help="kills of each kind")
    parser.add_argument("--base-port", type=int)
    parser.add_argument("--in-memory", action="store_true", help="simulated nodes, no files")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    rows = []
    for partitions in options.partitions:
        rows.append(
            measure_in_memory(partitions)
            if options.in_memory
            else measure(partitions, options.rounds, options.base_port)
        )
        if options.output == "table":
            print(", ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    if options.output == "json":
        machine = f"{os.cpu_count()} cores, {platform.machine()}, {hard} open files"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        print(json.dumps({"sizes": rows, "machine": machine, "at": at}))


if __name__ == "__main__":
    main()
