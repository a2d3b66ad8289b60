"""What it costs, without disks, to lead the partitions of a dead broker again.

    make bench-controller                       # 1,000 and 10,000 partitions
    python -m bench.controller --partitions 1000 --output json

Three nodes with default settings in the simulator, on disks of memory, where other work on the
machine does not count; topics of 100 partitions with three replicas, so that every partition has a
replica on every broker and each broker leads a third of them. A broker that is not the active
controller is killed. The figure is two: the virtual time from the kill to the last node that knows
all new leaders (the half second of `tidelog.broker.disconnect.grace.ms`, and delays of messages and
flushes), and the CPU seconds that all nodes together spent meanwhile. On real nodes, which
`bench.scale` kills, the time is at most their sum, when each has a core.
"""

import argparse
import json
import os
import platform
import time

from tidelog.config import profile_settings
from tidelog.errors import ErrorCode
from tidelog.metadata.image import PartitionImage
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World

PER_TOPIC = 100


def topics_of(partitions: int) -> list[str]:
    """Names of the topics that make up so many partitions."""
    return [f"t{number:03}" for number in range(max(1, partitions // PER_TOPIC))]


def measure(partitions: int) -> dict[str, object]:
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
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    rows = []
    for partitions in options.partitions:
        rows.append(measure(partitions))
        if options.output == "table":
            print(", ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    if options.output == "json":
        machine = f"{os.cpu_count()} cores, {platform.machine()}"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        print(json.dumps({"sizes": rows, "machine": machine, "at": at}))


if __name__ == "__main__":
    main()
