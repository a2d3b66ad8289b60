"""What a run of the cluster tier does with disks: their faults, and the checkers that read files.

Kept apart from `cluster_run`, which knows of clients and phases, so that the quorum tier and the
sweeps can use the same parts.
"""

from collections import Counter
from collections.abc import Callable

from tidelog.sim.checkers.base import EndChecker, SweepChecker
from tidelog.sim.checkers.committed_is_durable import CommittedIsDurable
from tidelog.sim.checkers.disks_are_sound import DisksAreSound
from tidelog.sim.checkers.recovered_from_image import RecoveredFromImage
from tidelog.sim.checkers.restart_loses_nothing import RestartLosesNothing
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World
from tidelog.sim.faults.arena import Arena
from tidelog.sim.faults.budget import Budget
from tidelog.sim.faults.disks import DEVICE_STRIKES
from tidelog.sim.scenarios.swarm import Swarm, stream

MIN_ISR = 2


class DiskSide:
    """The disks of one run."""

    def __init__(self, world: World, swarm: Swarm, seed: int, budget: Budget) -> None:
        self._world = world
        self._swarm = swarm
        self._prng = stream(seed, "restart")
        self._arena = Arena(world, swarm, stream(seed, "disks"), budget)
        # How often each kind struck; what came of it is counted by the disks.
        self.counts = self._arena.counts
        self._recovered = RecoveredFromImage()
        for host in world.hosts.values():
            host.disk.on_crash = self._recovered.before_power_cut
        world.starters.append(lambda host: self._recovered.after_start(host.disk))

    def start(self) -> None:
        """Begins to strike."""
        if self._swarm.disk_faults:
            self._arena.begin(self._swarm.disk_faults, DEVICE_STRIKES)

    def heal(self) -> None:
        """Ends every fault; what is damaged stays damaged."""
        self._arena.end_all()
        for host in self._world.hosts.values():
            host.disk.heal()

    @property
    def sweeps(self) -> list[SweepChecker]:
        """What looks at the devices every so often."""
        if not self._swarm.group_commit or self._swarm.damages:
            # What was durable may be damaged on one device at a time.
            return []
        # An operator may turn the min ISR down to one.
        alone = self._swarm.nodes == 1 or self._swarm.operator_gap_ms
        return [CommittedIsDurable(1 if alone else MIN_ISR)]

    @property
    def end_checkers(self) -> list[EndChecker]:
        """What looks at the files at the end."""
        return [DisksAreSound(), RestartLosesNothing()] if self._swarm.restart_at_end else []

    @property
    def fired(self) -> Counter[str]:
        """What the disks made of the faults."""
        return sum((host.disk.fired for host in self._world.hosts.values()), start=Counter[str]())

    def unseen(self, look: Callable[[Host], None]) -> Callable[[Host], None]:
        """An observer whose reads are none of the node's: no fault strikes them."""

        def observe(host: Host) -> None:
            with host.disk.observed():
                look(host)

        return observe

    def last_restarts(self) -> list[list[int]]:
        """Who is restarted together at the end, group after group: everything at once, or one node
        at a time where a file may be damaged that is not read yet (P4)."""
        nodes = list(self._world.hosts)
        return [[node_id] for node_id in nodes] if self._swarm.damaged_files else [nodes]

    def restart(self, nodes: list[int]) -> None:
        """As hard as the promise allows."""
        torn = self._prng.chance(1, 2)
        for node_id in nodes:
            if self._swarm.group_commit:
                self._world.power_cut(node_id, torn=torn)
            elif self._world.hosts[node_id].node is not None:
                self._world.kill(node_id)
        for node_id in nodes:
            self._world.start(node_id)
