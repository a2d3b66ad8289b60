"""Faults of processes and of their machines: kills, stops, pauses, restarts, power, empty disks,
clocks that jump or go at another speed."""

from collections.abc import Callable
from functools import partial
from typing import Final

from tidelog.sim.engine.host import Host
from tidelog.sim.faults.arena import Arena, Lasting, Lasts, Strike
from tidelog.sim.faults.budget import Harm, is_back, newest_image
from tidelog.sim.scenarios.fault_kinds import FaultKind

ROLL_LIMIT_MS: Final = 8_000
"""A rolling restart waits so long for a node to come back, then gives up."""
LONG_PAUSE_MS: Final = (3_000, 12_000)
CLOCK_JUMP_MS: Final = 3_600_000
DRIFT_PER_MILLE: Final = 50


def _to_one(strike: Callable[[Arena, Host], bool]) -> Strike:
    return lambda arena: strike(arena, arena.victim())


def _to_all(strike: Callable[[Arena, Host], bool]) -> Strike:
    return lambda arena: bool(sum(strike(arena, host) for host in arena.hosts.values()))


def _kill(arena: Arena, host: Host, *, reset: bool = False) -> bool:
    if host.node is None or not arena.budget.may_end_uncleanly(host.node_id):
        return False
    arena.world.note(f"world {host.name}: killed")
    arena.budget.note(host.node_id)
    arena.world.kill(host.node_id, reset=reset)
    return True


def _kill_in_write(arena: Arena, host: Host) -> bool:
    if host.node is None or not arena.budget.may_end_uncleanly(host.node_id):
        return False
    arena.budget.note(host.node_id)
    host.disk.fuse = arena.prng.below(30)
    return True


def _restart_storm(arena: Arena, host: Host) -> bool:
    def again(left: int) -> None:
        if arena.stopped or left == 0:
            return
        if host.node is None:
            arena.restart(host)
        else:
            _kill(arena, host)
        arena.world.at(arena.prng.between(1, 400), lambda: again(left - 1))

    again(arena.prng.between(2, 6) * 2)
    return True


def _stop(arena: Arena, host: Host) -> bool:
    if host.node is None:
        return False
    arena.world.note(f"world {host.name}: asked to stop")
    arena.world.stop(host.node_id)
    return True


def _roll(arena: Arena) -> bool:
    """One after the other, each clean, and each time waiting until the node is back."""
    world = arena.world
    left = list(arena.hosts.values())
    arena.prng.shuffle(left)
    began = world.now

    def look(host: Host) -> None:
        if arena.stopped or world.now - began > ROLL_LIMIT_MS:
            return
        image = newest_image(world)
        if host.node is None:
            arena.restart(host)
        elif image is not None and is_back(host, image) and world.now > began + 500:
            proceed()
            return
        world.at(100, partial(look, host))

    def proceed() -> None:
        nonlocal began
        if left:
            host = left.pop()
            began = world.now
            _stop(arena, host)
            world.at(100, partial(look, host))

    proceed()
    return True


def _cut_power(arena: Arena, host: Host) -> bool:
    if host.node is None or not arena.budget.may_lose_data(host.node_id):
        return False
    arena.world.note(f"world {host.name}: power cut")
    arena.budget.note(host.node_id, Harm.LOSSY)
    arena.world.power_cut(host.node_id, torn=arena.prng.chance(2, 3))
    return True


def _wipe(arena: Arena, host: Host) -> bool:
    if host.node is None or not arena.budget.may_lose_everything(host.node_id):
        return False
    arena.world.note(f"world {host.name}: killed, and its disk is gone")
    arena.budget.note(host.node_id, Harm.WIPED)
    arena.world.kill(host.node_id)
    arena.world.wipe(host.node_id)
    return True


def _pause(arena: Arena, *, is_long: bool) -> Lasts:
    length_ms = arena.prng.between(*LONG_PAUSE_MS) if is_long else None
    host = arena.victim()
    if host.running:
        arena.world.pause(host.node_id)
        life = host.life
        yield Lasting(f"{host.name}: paused", length_ms=length_ms)
        if host.life == life:
            arena.world.resume(host.node_id)


def _slow_down(arena: Arena) -> Lasts:
    """The process runs for an instant, then waits for the next: everything it does is late."""
    world, host = arena.world, arena.victim()
    if not host.running:
        return
    life, slice_ms, is_slow = host.life, arena.prng.choice((10, 30, 80)), True

    def turn() -> None:
        if is_slow and host.life == life:
            world.resume(host.node_id)
            world.at(1, sleep)

    def sleep() -> None:
        if is_slow and host.life == life:
            world.pause(host.node_id)
            world.at(arena.prng.between(1, slice_ms * 2), turn)

    sleep()
    yield Lasting(f"{host.name}: slow processor")
    is_slow = False
    if host.life == life:
        world.resume(host.node_id)


def _jump(arena: Arena) -> Lasts:
    host, sign = arena.victim(), arena.prng.choice((-1, 1))
    arena.world.set_wall_offset(host.node_id, sign * arena.prng.below(CLOCK_JUMP_MS))
    yield Lasting(f"{host.name}: wall clock off")
    arena.world.set_wall_offset(host.node_id, 0)


def _drift(arena: Arena) -> Lasts:
    host = arena.victim()
    rate = 1000 + arena.prng.between(-DRIFT_PER_MILLE, DRIFT_PER_MILLE)
    arena.world.set_clock_rate(host.node_id, rate)
    yield Lasting(f"{host.name}: clock at {rate} per mille")
    arena.world.set_clock_rate(host.node_id, 1000)


STRIKES: Final[dict[FaultKind, Strike]] = {
    FaultKind.KILL: _to_one(_kill),
    FaultKind.KILL_RESET: _to_one(partial(_kill, reset=True)),
    FaultKind.KILL_IN_WRITE: _to_one(_kill_in_write),
    FaultKind.KILL_ALL: _to_all(_kill),
    FaultKind.RESTART_STORM: _to_one(_restart_storm),
    FaultKind.CLEAN_STOP: _to_one(_stop),
    FaultKind.ROLLING_RESTART: _roll,
    FaultKind.PAUSE: partial(_pause, is_long=False),
    FaultKind.PAUSE_LONG: partial(_pause, is_long=True),
    FaultKind.SLOW_CPU: _slow_down,
    FaultKind.POWER_CUT: _to_one(_cut_power),
    FaultKind.POWER_CUT_ALL: _to_all(_cut_power),
    FaultKind.WIPE: _to_one(_wipe),
    FaultKind.CLOCK_JUMP: _jump,
    FaultKind.CLOCK_DRIFT: _drift,
}
