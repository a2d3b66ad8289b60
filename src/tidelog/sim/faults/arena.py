"""What every fault needs: a world, a victim, a length, and an end that comes for sure.

A fault that lasts is undone after a drawn time, or when everything heals, whichever comes first.
It is a generator: it strikes, yields how it lasts, and undoes itself behind that. Whether it
*mattered* is shown by a probe: a number that grows when the fault meets something (bytes that a cut
kept back, an append that a full disk refused). If nothing met it, it struck and did not fire.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from tidelog.env.prng import Prng
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World
from tidelog.sim.faults.budget import Budget, newest_image
from tidelog.sim.scenarios.swarm import Swarm

Kind = TypeVar("Kind", bound=Enum)


@dataclass(frozen=True, slots=True)
class Lasting:
    """How a fault lasts that has struck."""

    name: str
    probe: Callable[[], int] | None = None
    """Without one it cannot miss."""
    length_ms: int | None = None
    """Drawn if `None`."""
    extends: bool = False
    """Whether it takes the place of one of the same name, which then has no end of its own."""


Lasts = Iterator[Lasting]
Strike = Callable[["Arena"], bool | Lasts]
"""Strikes if it can. One that is over at once returns whether it could; one that lasts yields."""


class Arena:
    """Where faults happen, in one run."""

    def __init__(self, world: World, swarm: Swarm, prng: Prng, budget: Budget) -> None:
        self.world = world
        self.swarm = swarm
        self.prng = prng
        self.budget = budget
        # All machines.
        self.hosts = world.hosts
        # Healing has begun: nothing new breaks.
        self.stopped = False
        # How often each kind struck, and how often it met something.
        self.counts: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        # Nodes whose disk was made to fail since their last good start.
        self.bad_disks: dict[int, None] = {}
        # Ends of lasting faults that have not come yet, in order of the strikes.
        self._ends: dict[object, Callable[[], None]] = {}

    def begin(self, kinds: Sequence[Kind], strikes: Mapping[Kind, Strike]) -> None:
        """Strikes now and then, until everything is over."""

        def turn() -> None:
            if not self.stopped:
                kind = self.prng.choice(kinds)
                self.strike(kind, strikes[kind])
                self.begin(kinds, strikes)

        self.world.at(self.prng.between(1, self.swarm.fault_gap_ms * 2), turn)

    def strike(self, kind: Enum, strike: Strike) -> None:
        """Lets a fault happen, and counts it."""
        struck = strike(self)
        if struck is True:
            # Over at once, so it mattered at once.
            self.counts[kind.value] += 1
            self.fired[kind.value] += 1
        elif struck and (lasting := next(struck, None)) is not None:
            self.counts[kind.value] += 1
            self._last(kind, lasting, struck)

    def _last(self, kind: Enum, lasting: Lasting, rest: Lasts) -> None:
        name, probe = lasting.name, lasting.probe
        before = probe() if probe is not None else 0
        length = self.length() if lasting.length_ms is None else lasting.length_ms
        self.world.note(f"world {name} for {length} ms")

        def over() -> None:
            if probe is None or probe() != before:
                self.fired[kind.value] += 1
            next(rest, None)

        key = name if lasting.extends else over

        def finish() -> None:
            if self._ends.get(key) is over:
                del self._ends[key]
                self.world.note(f"world end of {name}")
                over()

        self._ends[key] = over
        self.world.at(length, finish)

    def length(self) -> int:
        """How long a fault lasts."""
        return self.prng.between(1, self.swarm.fault_length_ms)

    def end_all(self) -> None:
        """Everything that lasts is over now."""
        self.stopped = True
        while self._ends:
            self._ends.pop(next(iter(self._ends)))()

    def held_by_network(self) -> int:
        """A probe: how often anything was kept back."""
        return self.world.network.effects["held"]

    def restart(self, host: Host) -> None:
        """Starts a dead process again."""
        self.lose_unflushed(host)
        # What the last process noticed ends none after it.
        for disk in host.disks:
            disk.hurt = disk.damaged
        started = self.world.start(host.node_id)
        self.world.note(f"world {host.name}: {'started' if started else 'did not start'}")
        if started and host.all_well:
            self.bad_disks.pop(host.node_id, None)

    def lose_unflushed(self, host: Host) -> None:
        """Lets go what a failed flush should have saved, once."""
        for disk in host.disks:
            if disk.loses_on_exit:
                disk.crash(self.prng)
                disk.loses_on_exit = False

    def victim(self) -> Host:
        """A node by chance, or one with a role."""
        hosts = self.hosts
        image = newest_image(self.world)
        aim = self.prng.below(4)
        if aim == 0:
            for node in self.world.nodes:
                if node.broker.quorum.is_leader:
                    return hosts[node.config.node_id]
        if aim >= 2 and image is not None and image.topics_by_name:
            topic = image.topics_by_name[self.prng.choice(sorted(image.topics_by_name))]
            partition = topic.partitions[self.prng.choice(sorted(topic.partitions))]
            if aim == 2 and partition.leader in hosts:
                return hosts[partition.leader]
            return hosts[self.prng.choice(partition.replicas)]
        return self.any_host()

    def any_host(self) -> Host:
        """A node by chance."""
        return self.hosts[self.prng.choice(list(self.hosts))]

    def others(self, host: Host) -> list[Host]:
        """All machines but one."""
        return [other for other in self.hosts.values() if other is not host]

    def two_names(self) -> tuple[str, str]:
        """A link: two different machines; of a single node and the clients when there is one."""
        first = self.victim()
        others = self.others(first)
        second = self.prng.choice(others).name if others else self.world.clients.name
        names = [first.name, second]
        self.prng.shuffle(names)
        return names[0], names[1]
