"""Faults of processes and of their machines' power: kills, stops, pauses, restarts, empty disks."""

from collections.abc import Callable
from functools import partial
from typing import Final

from tidelog.sim.engine.host import Host
from tidelog.sim.faults.arena import Arena, Strike
from tidelog.sim.faults.budget import is_back, newest_image
from tidelog.sim.scenarios.fault_kinds import FaultKind

ROLL_LIMIT_MS: Final = 8_000
"""A rolling restart waits so long for a node to come back, then gives up."""


class ProcessFaults:
    """The strikes. `restart` starts a dead process again, in the supervisor's way."""

    def __init__(self, arena: Arena, restart: Callable[[Host], None]) -> None:
        self._arena = arena
        self._world = arena.world
        self._prng = arena.prng
        self._restart = restart
        self.strikes: dict[FaultKind, Strike] = {
            FaultKind.KILL: lambda: self._kill(arena.victim()),
            FaultKind.KILL_RESET: lambda: self._kill(arena.victim(), reset=True),
            FaultKind.KILL_IN_WRITE: self._kill_in_write,
            FaultKind.KILL_ALL: lambda: self._to_all(self._kill),
            FaultKind.RESTART_STORM: self._restart_storm,
            FaultKind.CLEAN_STOP: lambda: self._stop(arena.victim()),
            FaultKind.ROLLING_RESTART: self._roll,
            FaultKind.PAUSE: partial(self._pause, None),
            FaultKind.PAUSE_LONG: lambda: self._pause(self._prng.between(3_000, 12_000)),
            FaultKind.SLOW_CPU: self._slow_down,
            FaultKind.POWER_CUT: lambda: self._cut_power(arena.victim()),
            FaultKind.POWER_CUT_ALL: lambda: self._to_all(self._cut_power),
            FaultKind.WIPE: self._wipe,
        }

    def _to_all(self, strike: Callable[[Host], bool]) -> bool:
        struck = [strike(host) for host in self._arena.hosts.values()]
        return any(struck)

    # Ends ----------------------------------------------------------------------------------

    def _kill(self, host: Host, *, reset: bool = False) -> bool:
        if host.node is None or not self._arena.budget.may_end_uncleanly(host.node_id):
            return False
        self._world.note(f"world {host.name}: killed")
        self._arena.budget.note_unclean(host.node_id, lossy=False)
        self._world.kill(host.node_id, reset=reset)
        return True

    def _kill_in_write(self) -> bool:
        arena, host = self._arena, self._arena.victim()
        if host.node is None or not arena.budget.may_end_uncleanly(host.node_id):
            return False
        arena.budget.note_unclean(host.node_id, lossy=False)
        host.disk.fuse = self._prng.below(30)
        return True

    def _restart_storm(self) -> bool:
        arena, host = self._arena, self._arena.victim()

        def again(left: int) -> None:
            if arena.stopped or left == 0:
                return
            if host.node is None:
                self._restart(host)
            else:
                self._kill(host)
            self._world.at(self._prng.between(1, 400), lambda: again(left - 1))

        again(self._prng.between(2, 6) * 2)
        return True

    def _stop(self, host: Host) -> bool:
        if host.node is None:
            return False
        self._world.note(f"world {host.name}: asked to stop")
        self._world.stop(host.node_id)
        return True

    def _roll(self) -> bool:
        """One after the other, each clean, and each time waiting until the node is back."""
        arena, world = self._arena, self._world
        left = list(arena.hosts.values())
        self._prng.shuffle(left)
        began: list[int] = [world.now]

        def look(host: Host) -> None:
            if arena.stopped or world.now - began[0] > ROLL_LIMIT_MS:
                return
            image = newest_image(world)
            if host.node is None:
                self._restart(host)
            elif image is not None and is_back(host, image) and world.now > began[0] + 500:
                proceed()
                return
            world.at(100, partial(look, host))

        def proceed() -> None:
            if left:
                host = left.pop()
                began[0] = world.now
                self._stop(host)
                world.at(100, partial(look, host))

        proceed()
        return True

    # Pauses --------------------------------------------------------------------------------

    def _pause(self, length_ms: int | None) -> bool:
        host = self._arena.victim()
        if not host.running:
            return False
        self._world.pause(host.node_id)
        life = host.life

        def resume() -> None:
            if host.life == life:
                self._world.resume(host.node_id)

        return self._arena.lasting(f"{host.name}: paused", resume, length_ms=length_ms)

    def _slow_down(self) -> bool:
        """The process runs for an instant, then waits for the next: everything it does is late."""
        host = self._arena.victim()
        if not host.running:
            return False
        life, slice_ms = host.life, self._prng.choice((10, 30, 80))
        ended: list[bool] = []

        def turn() -> None:
            if ended or host.life != life:
                return
            self._world.resume(host.node_id)
            self._world.at(1, sleep)

        def sleep() -> None:
            if not ended and host.life == life:
                self._world.pause(host.node_id)
                self._world.at(self._prng.between(1, slice_ms * 2), turn)

        def end() -> None:
            ended.append(True)
            if host.life == life:
                self._world.resume(host.node_id)

        sleep()
        return self._arena.lasting(f"{host.name}: slow processor", end)

    # Power and disks -----------------------------------------------------------------------

    def _cut_power(self, host: Host) -> bool:
        if host.node is None or not self._arena.budget.may_lose_data(host.node_id):
            return False
        self._world.note(f"world {host.name}: power cut")
        self._arena.budget.note_unclean(host.node_id, lossy=True)
        self._world.power_cut(host.node_id, torn=self._prng.chance(2, 3))
        return True

    def _wipe(self) -> bool:
        arena, host = self._arena, self._arena.victim()
        if host.node is None or not arena.budget.may_lose_everything(host.node_id):
            return False
        self._world.note(f"world {host.name}: killed, and its disk is gone")
        arena.budget.note_wiped(host.node_id)
        self._world.kill(host.node_id)
        self._world.wipe(host.node_id)
        return True
