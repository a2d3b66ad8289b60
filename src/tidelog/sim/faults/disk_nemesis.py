"""Who makes disks go wrong: strikes one host's disk at a time, within the budget.

Reported failures end the node that notices them (P7): they may strike whenever its process may
end. Damage (P4) may strike while everybody else is intact and complete: then one intact complete
replica of everything and an intact majority of voters remain, whatever is damaged here, and any
loss is a bug. A damaged host counts as lossy until it is back in all its ISRs and a scrub of its
disk finds nothing wrong.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from tidelog.env.prng import Prng
from tidelog.sim.engine.disk import READS, SYNCS, WRITES, Trouble
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World
from tidelog.sim.faults.budget import Budget
from tidelog.sim.faults.damage import damage
from tidelog.sim.scenarios.fault_kinds import DiskFault
from tidelog.sim.scenarios.swarm import Swarm

STALL_MS: Final = 30_000
_TROUBLES: Final = {
    DiskFault.READ_ERROR: (READS, False),
    DiskFault.READS_FAIL: (READS, True),
    DiskFault.WRITE_ERROR: (WRITES, False),
    DiskFault.WRITES_FAIL: (WRITES, True),
    DiskFault.FLUSH_ERROR: (SYNCS, False),
}


class DiskNemesis:
    """The disk faults of one run."""

    def __init__(self, world: World, swarm: Swarm, prng: Prng, budget: Budget) -> None:
        # How often each kind struck; what came of it is counted by the disks.
        self.counts: Counter[str] = Counter()
        self._world = world
        self._swarm = swarm
        self._prng = prng
        self._budget = budget
        self._stopped = False
        # Ends of faults that last, by host and kind.
        self._ends: dict[tuple[str, str], Callable[[], None]] = {}

    def start(self) -> None:
        """Begins to strike."""
        if self._swarm.disk_faults:
            self._schedule()

    def heal(self) -> None:
        """Ends every fault; what is damaged stays damaged."""
        self._stopped = True
        while self._ends:
            self._ends.pop(next(iter(self._ends)))()
        for host in self._world.hosts.values():
            host.disk.heal()

    def _schedule(self) -> None:
        gap = self._prng.between(1, self._swarm.fault_gap_ms * 2)
        self._world.at(gap, self._strike)

    def _strike(self) -> None:
        if self._stopped:
            return
        fault = self._prng.choice(self._swarm.disk_faults)
        host = self._world.hosts[self._prng.choice(list(self._world.hosts))]
        if self._hit(fault, host):
            self.counts[fault.value] += 1
        self._schedule()

    def _hit(self, fault: DiskFault, host: Host) -> bool:
        if fault is DiskFault.STALL:
            return self._stall(host)
        if fault in _TROUBLES:
            return self._trouble(fault, host)
        return self._damage(fault, host)

    def _stall(self, host: Host) -> bool:
        usual = (0, self._swarm.flush_ms)
        host.flush_ms = (0, self._prng.choice((1_000, 5_000, STALL_MS)))

        def end() -> None:
            host.flush_ms = usual

        self._lasting(host, fault=DiskFault.STALL, end=end)
        return True

    def _trouble(self, fault: DiskFault, host: Host) -> bool:
        node_id = host.node_id
        allowed = (
            self._budget.may_lose_data(node_id)
            if fault.loses
            else self._budget.may_end_uncleanly(node_id)
        )
        if not allowed or not host.disk.is_well:
            return False
        self._budget.note_unclean(node_id, lossy=fault.loses)
        operations, sticky = _TROUBLES[fault]
        trouble = Trouble(f"{fault.value}-reported", operations, sticky=sticky)
        host.disk.troubles.append(trouble)

        def end() -> None:
            if trouble in host.disk.troubles:
                host.disk.troubles.remove(trouble)

        self._lasting(host, fault=fault, end=end)
        return True

    def _damage(self, fault: DiskFault, host: Host) -> bool:
        if not self._budget.may_damage(host.node_id):
            return False
        if fault is DiskFault.BIT_FLIP_ON_READ:
            host.disk.misread_prng = Prng(self._prng.next_u64())
            host.disk.misread_in = self._prng.below(20)
            done: str | None = fault.value

            def end() -> None:
                host.disk.misread_in = None

            self._lasting(host, fault=fault, end=end)
        else:
            done = damage(host.disk, fault, self._prng, self._swarm.damaged_files)
        if done is None:
            return False
        self._world.note(f"world {host.name}: {done}")
        host.disk.damaged = host.disk.hurt = True
        self._budget.note_damaged(host.node_id)
        return True

    def _lasting(self, host: Host, *, fault: DiskFault, end: Callable[[], None]) -> None:
        length = self._prng.between(1, self._swarm.fault_length_ms)
        self._world.note(f"world {host.name}: {fault.value} for {length} ms")
        key = (host.name, fault.value)
        self._ends[key] = end

        def finish() -> None:
            if self._ends.get(key) is end:
                del self._ends[key]
                self._world.note(f"world {host.name}: end of {fault.value}")
                end()

        self._world.at(length, finish)
