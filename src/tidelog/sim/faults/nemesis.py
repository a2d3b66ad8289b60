"""Who makes things go wrong: strikes by chance, aims by name, and starts dead processes again.

A strike draws a kind among the seed's kinds and a victim: a node by chance, the controller, or the
leader or a follower of some partition. Whatever lasts is undone after a drawn time. Nothing here
waits: strikes, ends and restarts are actions in the world's queue. The kinds themselves are in the
modules beside this one: `processes`, `links`, `clocks`, `disks`.

Dead processes are started again by a supervisor that looks at all hosts now and then. A process
that ended by itself with an error though its disk was fine is a bug (`NoSpontaneousExit`).
"""

from collections import Counter
from typing import Final

from tidelog.env.prng import Prng
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World
from tidelog.sim.faults.arena import Arena, Strike
from tidelog.sim.faults.budget import Budget
from tidelog.sim.faults.clocks import ClockFaults
from tidelog.sim.faults.disks import DiskFaults
from tidelog.sim.faults.links import LinkFaults
from tidelog.sim.faults.processes import ProcessFaults
from tidelog.sim.scenarios.fault_kinds import FaultKind
from tidelog.sim.scenarios.swarm import Swarm

SUPERVISOR_MS: Final = 50


class SpontaneousExit(AssertionError):
    """A process gave up without a reason."""


class Nemesis:
    """The faults of one run."""

    def __init__(self, world: World, swarm: Swarm, prng: Prng, budget: Budget) -> None:
        self._world = world
        self._swarm = swarm
        self._prng = prng
        self._arena = Arena(world, swarm, prng, budget)
        # When a dead process is started again, by node.
        self._restart_at: dict[int, int] = {}
        self._disks = DiskFaults(self._arena)
        self._strikes: dict[FaultKind, Strike] = {
            **ProcessFaults(self._arena, self._restart).strikes,
            **LinkFaults(self._arena).strikes,
            **ClockFaults(self._arena).strikes,
            **self._disks.strikes,
        }
        missing = [kind for kind in FaultKind if kind not in self._strikes]
        assert not missing, f"no fault strikes {missing}"

    @property
    def counts(self) -> Counter[str]:
        """How often each kind struck."""
        return self._arena.counts

    @property
    def fired(self) -> Counter[str]:
        """How often each kind met something."""
        return self._arena.fired

    def start(self) -> None:
        """Begins to strike and to supervise."""
        self._schedule_strike()
        self._supervise()

    def heal(self) -> None:
        """Ends every fault; dead processes start again at once."""
        self._arena.end_all()
        self._restart_at.clear()
        for host in self._world.hosts.values():
            host.disk.fuse = None
            if host.node is None:
                self._restart(host)

    # Supervising ---------------------------------------------------------------------------

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
                self._restart(host)
        pause = SUPERVISOR_MS if not self._arena.stopped else SUPERVISOR_MS * 20
        self._world.at(pause, self._supervise)

    def _judge_exit(self, host: Host) -> None:
        if host.exit_code in (None, 0):
            return
        message, host.exit_code = host.exit_message, None
        host_name = host.name
        self._world.note(f"world {host_name}: exited ({message})")
        if host.node_id in self._disks.bad or host.disk.hurt:
            self._lose_unflushed(host)
            return
        raise SpontaneousExit(f"NoSpontaneousExit: {host_name} exited: {message}")

    def _lose_unflushed(self, host: Host) -> None:
        """Lets go what a failed flush should have saved, once."""
        if host.disk.loses_on_exit:
            host.disk.crash(self._prng)
            host.disk.loses_on_exit = False

    def _restart(self, host: Host) -> None:
        self._lose_unflushed(host)
        # What the last process noticed ends none after it.
        host.disk.hurt = host.disk.damaged
        started = self._world.start(host.node_id)
        self._world.note(f"world {host.name}: {'started' if started else 'did not start'}")
        if started and host.disk.is_well:
            self._disks.bad.pop(host.node_id, None)

    # Striking ------------------------------------------------------------------------------

    def _schedule_strike(self) -> None:
        gap = self._prng.between(1, self._swarm.fault_gap_ms * 2)
        self._world.at(gap, self._strike)

    def _strike(self) -> None:
        if self._arena.stopped:
            return
        kind = self._prng.choice(self._swarm.faults)
        self._arena.strike(kind, self._strikes[kind])
        self._schedule_strike()
