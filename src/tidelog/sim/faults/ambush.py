"""Aimed faults: they strike right after a node did something, before that is durable or known.

Faults at random times hardly ever hit a window of a few disk operations: between a log's new name
and its sync, between a record of the metadata and what a node makes of it, between damage and its
report. An *ambush* watches what nodes do (`faults/aims.py`) and lies in wait for some of it:

1. A node does what the seed aims at. The oftener a run has seen that, the more rarely it counts, so
   that what comes often does not hide what comes once.
2. A kind of fault, a number of disk operations and a few milliseconds are drawn. Whichever passes
   first decides when the fault strikes: in the middle of the turn, before the next operation, or a
   moment behind it.
3. It strikes that node, or for `POWER_CUT_ALL` all of them, if the budget lets it.
4. Some nodes are struck again in their next start, at a drawn operation of it. Recovery has windows
   of its own, and what it does may rest on what the first fault has undone.

Invariants:

- One ambush at a time, and a drawn pause behind each: a cluster that is down does nothing.
- The budget is asked at the moment of the strike, so an ambush needs no place in it.
- Everything is drawn from generators of its own: other faults of the seed are what they were.

Left out: faults of a node's peers, which the other faults of the run make.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidelog.env.event import Event
from tidelog.env.memory_disk import Operation
from tidelog.env.trace import TraceLine
from tidelog.sim.engine.disk import ProcessKilled
from tidelog.sim.engine.host import Host
from tidelog.sim.faults import disks, links
from tidelog.sim.faults.aims import aim_of_event, aim_of_operation
from tidelog.sim.faults.arena import Arena, Lasts
from tidelog.sim.faults.budget import Harm
from tidelog.sim.scenarios.fault_kinds import Aim, DiskFault, FaultKind

_DOES_NOT_COUNT: Final = frozenset((Operation.LOOK, Operation.READ))
_MOST_OPERATIONS: Final = (1, 4, 16)
_START_OPERATIONS: Final = (4, 16, 64)
_DELAYS_MS: Final = (0, 0, 1, 5, 20, 50)
_LONGEST_START_MS: Final = 2_000
_FEW: Final = 3
"""What was seen so rarely does not wait for the end of a pause."""
_REFUSED_MS: Final = 20
"""So soon after a strike that the budget did not allow another one may be waited for."""


def _kill(arena: Arena, host: Host) -> bool:
    """Also while it starts, where `host` has no node yet."""
    if not arena.budget.may_end_uncleanly(host.node_id):
        return False
    arena.budget.note(host.node_id)
    arena.world.kill(host.node_id)
    return True


def _cut_power(arena: Arena, host: Host) -> bool:
    if not arena.budget.may_lose_data(host.node_id):
        return False
    arena.budget.note(host.node_id, Harm.LOSSY)
    arena.world.power_cut(host.node_id, torn=arena.prng.chance(2, 3))
    return True


def _cut_power_of_all(arena: Arena, host: Host) -> bool:
    running = [other for other in arena.others(host) if other.node is not None]
    return bool(sum(_cut_power(arena, each) for each in (host, *running)))


STRIKES: Final[dict[FaultKind | DiskFault, Callable[[Arena, Host], bool | Lasts]]] = {
    FaultKind.KILL: _kill,
    FaultKind.POWER_CUT: _cut_power,
    FaultKind.POWER_CUT_ALL: _cut_power_of_all,
    FaultKind.ISOLATE: links.isolate,
    FaultKind.DISK_ERROR: disks.break_disk,
    DiskFault.DISK_DIES: disks.let_die,
}
"""The kinds that can be aimed."""


@dataclass(slots=True, eq=False)
class _Wait:
    """A fault that is about to strike."""

    host: Host
    # Of the process that it is for.
    life: int
    kind: FaultKind | DiskFault
    # Disk operations of that process until then.
    left: int
    # What it follows.
    behind: str


class Ambush:
    """The aimed faults of one run."""

    def __init__(self, arena: Arena) -> None:
        """The arena is its own, with a generator of its own."""
        self._arena = arena
        self._hosts = {host.name: host for host in arena.hosts.values()}
        self._aims = frozenset(arena.swarm.aims)
        # How often what was seen while nothing was waited for.
        self._seen: Counter[Aim] = Counter()
        # What is about to strike.
        self._wait: _Wait | None = None
        # Nothing is waited for before.
        self._next_at = 0
        # Hosts that are struck in their next start.
        self._again: dict[int, None] = {}
        # How often a fault struck, by what it was behind.
        self.struck: Counter[str] = Counter()

    def start(self) -> None:
        """Watches all nodes from now on."""
        world = self._arena.world
        self._watch_disks()
        world.watchers.append(self._on_event)
        world.starters.append(lambda _: self._watch_disks())

    def _watch_disks(self) -> None:
        """A wiped disk is another one."""
        for host in self._arena.hosts.values():
            for disk in host.disks:
                if disk.witness is None:
                    disk.witness = partial(self._on_operation, host)

    # What is seen --------------------------------------------------------------------------------

    def _on_event(self, name: str, event: Event | TraceLine) -> None:
        """A node has decided something, in the middle of a turn or of its start."""
        aim = aim_of_event(event)
        if aim is not None:
            self._maybe_wait(self._hosts[name], aim)

    def _on_operation(self, host: Host, operation: Operation, path: str) -> None:
        """A disk is asked for something. Raises `ProcessKilled` where the process ends by it."""
        if operation in _DOES_NOT_COUNT or self._arena.stopped:
            return
        if host.node is None and self._wait is None and host.node_id in self._again:
            self._wait_in_start(host)
        wait = self._wait
        if wait is not None and wait.host is host and wait.life == host.life:
            if wait.left == 0:
                self._strike(wait)
                if wait.life != host.life:
                    raise ProcessKilled(path)
            wait.left -= 1
        aim = aim_of_operation(operation, path)
        if aim is not None:
            self._maybe_wait(host, aim)

    # What is waited for --------------------------------------------------------------------------

    def _maybe_wait(self, host: Host, aim: Aim) -> None:
        arena, prng = self._arena, self._arena.prng
        if aim not in self._aims or self._wait is not None or arena.stopped:
            return
        if arena.world.now < self._next_at and self._seen[aim] >= _FEW:
            return
        self._seen[aim] += 1
        if prng.chance(1, 1 + self._seen[aim] // _FEW):
            left = prng.below(prng.choice(_MOST_OPERATIONS))
            self._begin(host, left, aim.value, prng.choice(_DELAYS_MS))

    def _wait_in_start(self, host: Host) -> None:
        del self._again[host.node_id]
        left = self._arena.prng.below(self._arena.prng.choice(_START_OPERATIONS))
        self._begin(host, left, "start", _LONGEST_START_MS)

    def _begin(self, host: Host, left: int, behind: str, limit_ms: int) -> None:
        kind = self._arena.prng.choice(self._arena.swarm.aimed_faults)
        wait = self._wait = _Wait(host, host.life, kind, left, behind)
        self._arena.world.at(limit_ms, lambda: self._on_limit(wait))

    def _on_limit(self, wait: _Wait) -> None:
        """The process has not done as much as was waited for."""
        if wait is not self._wait:
            return
        if wait.life == wait.host.life and wait.host.node is not None and not self._arena.stopped:
            self._strike(wait)
        else:
            self._wait = None

    def _strike(self, wait: _Wait) -> None:
        arena, host, name = self._arena, wait.host, wait.kind.value
        self._wait = None
        before = arena.counts[name]
        arena.world.note(f"world {host.name}: {name} behind {wait.behind}")
        strike = STRIKES[wait.kind]
        arena.strike(wait.kind, lambda arena: strike(arena, host))
        if arena.counts[name] == before:
            arena.world.note("world does not allow it")
            self._next_at = arena.world.now + _REFUSED_MS
            return
        self.struck[f"behind {wait.behind}"] += 1
        self._next_at = arena.world.now + arena.prng.between(1, arena.swarm.fault_gap_ms)
        if wait.life != host.life and arena.prng.chance(1, 3):
            self._again[host.node_id] = None
