"""Faults of clocks: a wall clock that jumps, a clock that goes too fast or too slow."""

from typing import Final

from tidelog.sim.faults.arena import Arena, Strike
from tidelog.sim.scenarios.fault_kinds import FaultKind

CLOCK_JUMP_MS: Final = 3_600_000
DRIFT_PER_MILLE: Final = 50


class ClockFaults:
    """The strikes."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.strikes: dict[FaultKind, Strike] = {
            FaultKind.CLOCK_JUMP: self._jump,
            FaultKind.CLOCK_DRIFT: self._drift,
        }

    def _jump(self) -> bool:
        arena, host = self._arena, self._arena.victim()
        sign = arena.prng.choice((-1, 1))
        arena.world.set_wall_offset(host.node_id, sign * arena.prng.below(CLOCK_JUMP_MS))
        return arena.lasting(
            f"{host.name}: wall clock off", lambda: arena.world.set_wall_offset(host.node_id, 0)
        )

    def _drift(self) -> bool:
        arena, host = self._arena, self._arena.victim()
        rate = 1000 + arena.prng.between(-DRIFT_PER_MILLE, DRIFT_PER_MILLE)
        arena.world.set_clock_rate(host.node_id, rate)
        return arena.lasting(
            f"{host.name}: clock at {rate} per mille",
            lambda: arena.world.set_clock_rate(host.node_id, 1000),
        )
