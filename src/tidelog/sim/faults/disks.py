"""Faults of disks: full, failing, failing to flush, slow."""

from collections.abc import Callable

from tidelog.sim.engine.host import Host
from tidelog.sim.faults.arena import Arena, Strike
from tidelog.sim.scenarios.fault_kinds import FaultKind


class DiskFaults:
    """The strikes."""

    def __init__(self, arena: Arena) -> None:
        # Nodes whose disk was made to fail since their last good start.
        self.bad: dict[int, None] = {}
        self._arena = arena
        self.strikes: dict[FaultKind, Strike] = {
            FaultKind.SLOW_DISK: self._slow_disk,
            FaultKind.DISK_FULL: self._fill,
            FaultKind.DISK_ERROR: self._break,
            FaultKind.FLUSH_ERROR: self._fail_flushes,
        }

    def _slow_disk(self) -> bool:
        host = self._arena.victim()
        usual = (0, self._arena.swarm.flush_ms)
        host.flush_ms = (0, self._arena.prng.choice((300, 3_000)))

        def end() -> None:
            host.flush_ms = usual

        return self._arena.lasting(f"{host.name}: slow disk", end)

    def _may_break(self, host: Host) -> bool:
        budget = self._arena.budget
        if not host.disk.is_well or not budget.may_end_uncleanly(host.node_id):
            return False
        budget.note_unclean(host.node_id, lossy=False)
        self.bad[host.node_id] = None
        return True

    def _lasting(self, host: Host, name: str, end: Callable[[], None]) -> bool:
        # It mattered when it ended the process.
        return self._arena.lasting(f"{host.name}: {name}", end, probe=lambda: host.life)

    def _fill(self) -> bool:
        host = self._arena.victim()
        if not self._may_break(host):
            return False
        disk = host.disk
        disk.capacity_bytes = disk.used_bytes + self._arena.prng.below(2_000)

        def end() -> None:
            disk.capacity_bytes = None

        return self._lasting(host, "disk full", end)

    def _break(self) -> bool:
        host = self._arena.victim()
        if not self._may_break(host):
            return False
        disk = host.disk
        disk.failing = "input/output error"

        def end() -> None:
            disk.failing = None

        return self._lasting(host, "disk fails", end)

    def _fail_flushes(self) -> bool:
        host = self._arena.victim()
        if not self._may_break(host):
            return False
        disk = host.disk
        disk.failing_syncs = True

        def end() -> None:
            disk.failing_syncs = False

        return self._lasting(host, "flushes fail", end)
