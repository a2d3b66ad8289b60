"""Who makes things go wrong: strikes by chance, aims by name, and starts dead processes again.

A strike draws a kind among the seed's kinds and a victim: a node by chance, the controller, or the
leader or a follower of some partition. Whatever lasts is undone after a drawn time. Nothing here
waits: strikes, ends and restarts are actions in the world's queue. The kinds themselves are in the
modules beside this one: `processes`, `links`, `disks`. Faults that follow what nodes do have an
`ambush` of their own.

Dead processes are started again by a supervisor that looks at all hosts now and then. A process
that ended by itself with an error though its disk was fine is a bug (`NoSpontaneousExit`).
"""

from collections import Counter
from typing import Final

from tidelog.env.prng import Prng
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World
from tidelog.sim.faults import disks, links, processes
from tidelog.sim.faults.ambush import Ambush
from tidelog.sim.faults.arena import Arena, Strike
from tidelog.sim.faults.budget import Budget
from tidelog.sim.report.violation import Violation
from tidelog.sim.scenarios.fault_kinds import FaultKind
from tidelog.sim.scenarios.swarm import Swarm

SUPERVISOR_MS: Final = 50
STRIKES: Final[dict[FaultKind, Strike]] = {**processes.STRIKES, **links.STRIKES, **disks.STRIKES}
assert STRIKES.keys() == set(FaultKind), "some kind has no strike"


class Nemesis:
    """The faults of one run."""

    def __init__(
        self,
        world: World,
        swarm: Swarm,
        prng: Prng,
        budget: Budget,
        *,
        device_prng: Prng | None = None,
        aimed_prng: Prng | None = None,
    ) -> None:
        """`device_prng` is for the faults of disks that have a schedule of their own, `aimed_prng`
        for those that follow what nodes do."""
        self._world = world
        self._arena = Arena(world, swarm, prng, budget)
        self._devices = Arena(world, swarm, device_prng or Prng(0), budget)
        self._aimed = Arena(world, swarm, aimed_prng or Prng(0), budget)
        self.ambush = Ambush(self._aimed)
        # When a dead process is started again, by node.
        self._restart_at: dict[int, int] = {}

    @property
    def counts(self) -> Counter[str]:
        """How often each kind struck, and behind what the aimed ones did."""
        arenas = (self._arena, self._devices, self._aimed)
        return sum((arena.counts for arena in arenas), start=self.ambush.struck)

    @property
    def fired(self) -> Counter[str]:
        """How often each kind met something; disks count what came of their own faults."""
        return self._arena.fired + self._aimed.fired + self.ambush.struck

    def start(self) -> None:
        """Begins to strike and to supervise."""
        self._arena.begin(self._arena.swarm.faults, STRIKES)
        self._supervise()
        if self._arena.swarm.disk_faults:
            self._devices.begin(self._arena.swarm.disk_faults, disks.DEVICE_STRIKES)
        if self._arena.swarm.aims:
            self.ambush.start()

    def heal(self) -> None:
        """Ends every fault; dead processes start again at once. What is damaged stays damaged."""
        self._arena.end_all()
        self._aimed.end_all()
        self._restart_at.clear()
        for host in self._world.hosts.values():
            host.disk.fuse = None
            if host.node is None:
                self._arena.restart(host)
        self._devices.end_all()
        for host in self._world.hosts.values():
            for disk in host.disks:
                disk.heal()

    def _supervise(self) -> None:
        now = self._world.now
        for node_id, host in self._world.hosts.items():
            if host.node is not None:
                self._restart_at.pop(node_id, None)
                continue
            self._judge_exit(host)
            if node_id not in self._restart_at:
                self._restart_at[node_id] = now + self._arena.length()
            elif self._restart_at[node_id] <= now:
                del self._restart_at[node_id]
                self._arena.restart(host)
        pause = SUPERVISOR_MS if not self._arena.stopped else SUPERVISOR_MS * 20
        self._world.at(pause, self._supervise)

    def _judge_exit(self, host: Host) -> None:
        if host.exit_code in (None, 0):
            return
        message, host.exit_code = host.exit_message, None
        self._world.note(f"world {host.name}: exited ({message})")
        if host.node_id not in self._arena.bad_disks and not host.disk.hurt:
            raise Violation("NoSpontaneousExit", f"{host.name} exited: {message}")
        self._arena.lose_unflushed(host)
