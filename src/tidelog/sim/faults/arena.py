"""What every fault needs: a world, a victim, a length, and an end that comes for sure.

A fault that lasts is undone after a drawn time, or when everything heals, whichever comes first.
Whether it *mattered* is shown by a probe: a number that grows when the fault meets something (bytes
that a cut kept back, an append that a full disk refused). A fault that nothing met is counted as
struck and not as fired.
"""

from collections import Counter
from collections.abc import Callable

from tidelog.env.prng import Prng
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World
from tidelog.sim.faults.budget import Budget, newest_image
from tidelog.sim.scenarios.fault_kinds import FaultKind
from tidelog.sim.scenarios.swarm import Swarm

Strike = Callable[[], bool]
"""Does it, and returns whether it was possible."""


class Arena:
    """Where faults happen, in one run."""

    def __init__(self, world: World, swarm: Swarm, prng: Prng, budget: Budget) -> None:
        self.world = world
        self.swarm = swarm
        self.prng = prng
        self.budget = budget
        # Healing has begun: nothing new breaks.
        self.stopped = False
        # The kind whose strike runs now.
        self.kind = FaultKind.KILL
        # How often each kind struck, and how often it met something.
        self.counts: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        # Ends of lasting faults that have not come yet, in order of the strikes.
        self._ends: dict[int, Callable[[], None]] = {}
        self._strike_count = 0

    @property
    def hosts(self) -> dict[int, Host]:
        """All machines."""
        return self.world.hosts

    def strike(self, kind: FaultKind, strike: Strike) -> None:
        """Lets a fault happen, and counts it."""
        self.kind = kind
        before = self._strike_count
        if strike():
            self.counts[kind.value] += 1
            if self._strike_count == before:
                # Over at once, so it mattered at once.
                self.fired[kind.value] += 1

    def length(self) -> int:
        """How long a fault lasts."""
        return self.prng.between(1, self.swarm.fault_length_ms)

    def lasting(
        self,
        name: str,
        end: Callable[[], None],
        *,
        probe: Callable[[], int] | None = None,
        length_ms: int | None = None,
    ) -> bool:
        """Notes a fault that lasts, and ends it after a while; returns true. Without a probe it
        cannot miss."""
        self._strike_count += 1
        number = self._strike_count
        kind, before = self.kind, probe() if probe is not None else 0
        length = self.length() if length_ms is None else length_ms
        self.world.note(f"world {name} for {length} ms")

        def over() -> None:
            if probe is None or probe() != before:
                self.fired[kind.value] += 1
            end()

        def finish() -> None:
            if self._ends.pop(number, None) is not None:
                self.world.note(f"world end of {name}")
                over()

        self._ends[number] = over
        self.world.at(length, finish)
        return True

    def end_all(self) -> None:
        """Everything that lasts is over now."""
        self.stopped = True
        while self._ends:
            self._ends.pop(next(iter(self._ends)))()

    def held_by_network(self) -> int:
        """A probe: how often anything was kept back."""
        return self.world.network.effects["held"]

    # Victims -------------------------------------------------------------------------------

    def victim(self) -> Host:
        """A node by chance, or one with a role."""
        hosts = self.hosts
        image = newest_image(self.world)
        aim = self.prng.below(4)
        if aim == 0:
            for host in hosts.values():
                if host.node is not None and host.node.broker.quorum.is_leader:
                    return host
        if aim >= 2 and image is not None and image.topics_by_name:
            topic = image.topics_by_name[self.prng.choice(sorted(image.topics_by_name))]
            partition = topic.partitions[self.prng.choice(sorted(topic.partitions))]
            if aim == 2 and partition.leader in hosts:
                return hosts[partition.leader]
            return hosts[self.prng.choice(partition.replicas)]
        return hosts[self.prng.choice(list(hosts))]

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
