"""What work costs on this machine: the rows of the simulator's table (`sim/engine/work.py`).

    make bench-work-costs                                # the disk that /tmp is on
    python -m bench.work_costs --directory DIR --output json

The disk's rows are means of the operations of the real disk (`runtime/os_disk.py`) in a directory
of its own, one after the other, by the clock on the wall: what blocks the event loop. The node's
rows are CPU time of production nodes in this process, on disks of memory, so that nothing is
counted twice; each is measured where it is most of the work. Beside each row stands what the table
says. It takes some seconds.
"""

import argparse
import json
import os
import platform
import socket
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.controller import all_partitions, is_settled, running

from tidelog.config import profile_settings
from tidelog.env.disk import File
from tidelog.env.event import Event
from tidelog.env.memory_disk import Operation
from tidelog.env.trace import TraceLine
from tidelog.errors import ErrorCode
from tidelog.runtime.os_disk import OsDisk
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.work import COSTS_US, MIB, Work
from tidelog.sim.engine.world import ROLE_CHANGES, World

Row = Operation | Work
ROUNDS = 300
LARGE_BYTES = 900_000
PARTITIONS = 1000


# The disk ------------------------------------------------------------------------------------


def mean_us(action: Callable[[int], object], rounds: int = ROUNDS) -> float:
    """Microseconds of an action that is given the number of its round."""
    begun = time.perf_counter_ns()
    for number in range(rounds):
        action(number)
    return (time.perf_counter_ns() - begun) / rounds / 1000


def measure_disk(root: str) -> dict[Row, float]:
    """Every operation that the disk port has, on directories and files like those of logs."""
    disk = OsDisk(root)
    found: dict[Row, float] = {Operation.MAKE_DIR: mean_us(lambda n: disk.make_dir(f"t-{n}"))}
    files: list[File] = []
    files.extend(disk.new_file(f"t-{n}/{0:020}.log") for n in range(ROUNDS))
    # Its first append makes a file.
    first_us = mean_us(lambda n: files[n].append([bytes(100)]))
    found[Operation.LOOK] = mean_us(lambda n: disk.exists(f"t-{n}/{0:020}.log"))
    found[Operation.APPEND] = mean_us(lambda n: files[n].append([bytes(100)]))
    found[Operation.CREATE] = first_us - found[Operation.APPEND]
    found[Operation.READ] = mean_us(lambda n: files[n].read(0, 100))
    mib = bytes(MIB)
    found[Work.APPEND_MIB] = mean_us(lambda _: files[0].append([mib]), 50) - found[Operation.APPEND]
    found[Work.READ_MIB] = mean_us(lambda n: files[0].read(n * MIB, MIB), 50)
    found[Operation.TRUNCATE] = mean_us(lambda n: files[n].truncate(50))
    found[Operation.SYNC] = mean_us(lambda n: disk.sync(files[n]))
    found[Operation.LINK] = mean_us(lambda n: disk.link(f"t-0/{0:020}.log", f"t-{n}/second"))
    found[Operation.REPLACE] = mean_us(
        lambda n: disk.replace(f"t-{n}/partition.metadata", mib[:60])
    )
    for file in files:
        file.close()
    found[Operation.RENAME] = mean_us(lambda n: disk.rename(f"t-{n}", f"t-{n}.{'0' * 32}-delete"))
    found[Operation.DELETE] = mean_us(lambda n: disk.delete(f"t-{n}.{'0' * 32}-delete"))
    return found


def measure_send() -> float:
    """One small write to a socket: most of what carrying out an effect takes."""
    near, far = socket.socketpair()
    with near, far:
        return mean_us(lambda _: (near.send(bytes(100)), far.recv(4096)), 2000) / 2


# The node ------------------------------------------------------------------------------------


class Turns:
    """CPU time of the turns of a world's nodes, and what each of them did."""

    def __init__(self, world: World) -> None:
        self._world = world
        # Nanoseconds of the turn that goes on, by host.
        self._spent: dict[str, int] = defaultdict(int)
        # Changes of role in it.
        self._role_changes: dict[str, int] = defaultdict(int)
        # Ends of the metadata log and of the image, by host.
        self._ends: dict[str, tuple[int, int]] = {}
        # Microseconds, records decided, records replayed, changes of role.
        self.turns: list[tuple[float, int, int, int]] = []
        world.driver.observers.append(self._on_turn)
        world.watchers.append(self._on_event)
        for host in running(world):
            node = host.node
            assert node is not None, "it runs"
            for name in ("receive", "wake", "take_effects"):
                setattr(node, name, self._timed(host.name, getattr(node, name)))

    def _timed(self, host: str, verb: Callable[..., object]) -> Callable[..., object]:
        def timed(*arguments: object) -> object:
            begun = time.thread_time_ns()
            try:
                return verb(*arguments)
            finally:
                self._spent[host] += time.thread_time_ns() - begun

        return timed

    def _on_event(self, host: str, event: Event | TraceLine) -> None:
        self._role_changes[host] += isinstance(event, ROLE_CHANGES)

    def _on_turn(self, host: Host) -> None:
        assert host.node is not None, "it runs"
        broker = host.node.broker
        ends = (broker.quorum.log_end_offset, broker.image.offset)
        decided, replayed = (
            new - old for new, old in zip(ends, self._ends.get(host.name, ends), strict=True)
        )
        self._ends[host.name] = ends
        changes = self._role_changes.pop(host.name, 0)
        self.turns.append((self._spent.pop(host.name, 0) / 1000, decided, replayed, changes))

    def per_unit(self, column: int, least: int) -> float:
        """Microseconds for each record or change, in turns with at least so many of them."""
        chosen = [turn for turn in self.turns if turn[column] >= least]
        assert chosen, f"no turn had {least} of column {column}"
        return sum(turn[0] for turn in chosen) / sum(turn[column] for turn in chosen)


@contextmanager
def small_world(nodes: int) -> Iterator[World]:
    """Nodes that know each other, with default timers and free work."""
    world = World(1, nodes=nodes, settings=profile_settings("default", nodes))
    world.driver.check_every = 0
    world.silent = True
    world.start_all()
    world.run_until(
        lambda: all(
            host.node is not None
            and sum(one.active for one in host.node.broker.image.brokers.values()) == nodes
            for host in world.hosts.values()
        )
    )
    yield world


def measure_requests() -> dict[Row, float]:
    """A turn with nothing to do, small requests and large ones, at a node that is alone."""
    with small_world(1) as world:
        (host,) = running(world)
        node = host.node
        assert node is not None, "it runs"
        client = SimClient(world, 1)
        assert client.create_topic("t", replication_factor=1) == ErrorCode.NONE
        world.run_for(1000)
        idle_us = mean_us(lambda _: node.wake(host.local(world.now)), 2000)

        def produce(size_bytes: int, count: int) -> float:
            turns = Turns(world)
            for _ in range(count):
                client.produce("t", 0, [bytes(size_bytes)], acks=1)
            return sum(turn[0] for turn in turns.turns) / count

        small_us, large_us = produce(100, 500), produce(LARGE_BYTES, 10)
    return {
        Work.TURN: idle_us,
        # The produce and the answer of the disk, when it asks for one, are two inputs at most.
        Work.INPUT: small_us - idle_us,
        Work.INPUT_MIB: (large_us - small_us) * MIB / LARGE_BYTES,
    }


def measure_metadata() -> dict[Row, float]:
    """A topic of a thousand partitions, and the end of one of its three brokers."""
    with small_world(3) as world:
        turns = Turns(world)
        client = SimClient(world, 1)
        assert client.create_topic("t", partitions=PARTITIONS) == ErrorCode.NONE
        world.run_until(lambda: is_settled(world), 600_000)
        found: dict[Row, float] = {
            Work.METADATA_DECIDED: turns.per_unit(1, PARTITIONS),
            Work.METADATA_REPLAYED: turns.per_unit(2, PARTITIONS),
        }
        turns.turns.clear()
        victim = next(one for one in world.hosts if one != _controller(world))
        world.kill(victim)
        world.run_until(
            lambda: all(
                one.leader not in (victim, -1)
                for host in running(world)
                for one in all_partitions(host)
            ),
            600_000,
        )
        world.run_for(1000)
        # What replaying the same records takes is a row of its own.
        both = turns.per_unit(3, 2)
        found[Work.ROLE_CHANGE] = max(1.0, both - found[Work.METADATA_REPLAYED])
    return found


def _controller(world: World) -> int:
    (first, *_) = running(world)
    assert first.node is not None, "it runs"
    return first.node.broker.quorum.leader_id


def measure(directory: str) -> dict[Row, float]:
    """All rows of the table, in microseconds."""
    return {
        **measure_disk(directory),
        Work.EFFECT: measure_send(),
        **measure_requests(),
        **measure_metadata(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.work_costs", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--directory", help="where the disk is measured; a new one in it is used")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="work-costs-", dir=options.directory) as directory:
        found = measure(directory)
    assert found.keys() == COSTS_US.keys(), f"not measured: {COSTS_US.keys() - found.keys()}"
    if options.output == "json":
        rows = {
            row.value: {"us": round(us, 1), "table": COSTS_US[row]} for row, us in found.items()
        }
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        machine = f"{os.cpu_count()} cores, {platform.machine()}"
        print(json.dumps({"rows": rows, "machine": machine, "at": at}))
        return
    for row in COSTS_US:
        print(f"{row.value:28} {found[row]:10.1f} us, the table says {COSTS_US[row]}")


if __name__ == "__main__":
    main()
