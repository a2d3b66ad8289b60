"""Faults of disks: full, failing, slow, or with bytes that change by themselves.

Some strike with all other faults (`STRIKES`). Those of P4 and P7 have a schedule of their own
(`DEVICE_STRIKES`), one host's disk at a time, within the budget. Reported failures end the node
that notices them (P7): they may strike whenever its process may end. Damage (P4) may strike while
everybody else is intact and complete: one intact replica of everything and an intact majority of
voters remain, and any loss is a bug.
"""

from functools import partial
from typing import Final

from tidelog.env.prng import Prng
from tidelog.sim.engine.disk import READS, SYNCS, WRITES, Trouble
from tidelog.sim.engine.host import Host
from tidelog.sim.faults.arena import Arena, Lasting, Lasts, Strike
from tidelog.sim.faults.budget import Harm
from tidelog.sim.faults.damage import damage
from tidelog.sim.scenarios.fault_kinds import DiskFault, FaultKind

STALL_MS: Final = 30_000
_TROUBLES: Final = {
    DiskFault.READ_ERROR: (READS, False),
    DiskFault.READS_FAIL: (READS, True),
    DiskFault.WRITE_ERROR: (WRITES, False),
    DiskFault.WRITES_FAIL: (WRITES, True),
    DiskFault.FLUSH_ERROR: (SYNCS, False),
}


def _slow_disk(arena: Arena) -> Lasts:
    host = arena.victim()
    most_ms = arena.prng.choice((300, 3_000))
    yield from _slow_flushes(arena, host, most_ms, Lasting(f"{host.name}: slow disk"))


def _slow_flushes(arena: Arena, host: Host, most_ms: int, lasting: Lasting) -> Lasts:
    """With the fault ends what it has slowed down, too: a flush that took 20 s longer kept a voter
    silent while everything was to heal (seed 74000600)."""
    host.flush_ms = (0, most_ms)
    yield lasting
    host.flush_ms = arena.swarm.flush_range_ms
    arena.world.driver.hurry_flush(host)


def _may_break(arena: Arena, host: Host) -> bool:
    if not host.disk.is_well or not arena.budget.may_end_uncleanly(host.node_id):
        return False
    arena.budget.note(host.node_id)
    arena.bad_disks[host.node_id] = None
    return True


def _until_it_ends(host: Host, name: str) -> Lasting:
    # It mattered when it ended the process.
    return Lasting(f"{host.name}: {name}", probe=lambda: host.life)


def _fill(arena: Arena) -> Lasts:
    host = arena.victim()
    disk = host.disk
    if _may_break(arena, host):
        disk.capacity_bytes = disk.used_bytes + arena.prng.below(2_000)
        yield _until_it_ends(host, "disk full")
        disk.capacity_bytes = None


def break_disk(arena: Arena, host: Host) -> Lasts:
    """Everything on the first disk of a node fails, and the process ends."""
    disk = host.disk
    if _may_break(arena, host):
        disk.failing = "input/output error"
        yield _until_it_ends(host, "disk fails")
        disk.failing = None


def _fail_flushes(arena: Arena) -> Lasts:
    host = arena.victim()
    disk = host.disk
    if _may_break(arena, host):
        disk.failing_syncs = True
        yield _until_it_ends(host, "flushes fail")
        disk.failing_syncs = False


def _stall(arena: Arena) -> Lasts:
    host = arena.any_host()
    most_ms = arena.prng.choice((1_000, 5_000, STALL_MS))
    lasting = Lasting(f"{host.name}: {DiskFault.STALL.value}", extends=True)
    yield from _slow_flushes(arena, host, most_ms, lasting)


def let_die(arena: Arena, host: Host) -> Lasts:
    """One of the other disks of a node fails until the node is started again on it."""
    if not host.more_disks or not _may_break(arena, host):
        return
    disk = arena.prng.choice(host.more_disks)
    if not disk.is_well:
        return
    disk.failing = "input/output error"
    refused = disk.refused_count
    yield Lasting(f"{disk.root}: {DiskFault.DISK_DIES.value}")
    disk.failing = None
    has_struck = disk.refused_count > refused
    if has_struck:
        disk.fired[DiskFault.DISK_DIES.value] += 1
    # A process goes on without the directory, or will when it gets the refusal; so an operator has
    # to start it again.
    if host.node is not None and (has_struck or host.node.broker.directories.offline):
        if arena.prng.chance(1, 2):
            arena.world.stop(host.node_id)
        else:
            arena.world.kill(host.node_id)


def _trouble(fault: DiskFault, arena: Arena) -> Lasts:
    host, budget = arena.any_host(), arena.budget
    may_strike = budget.may_lose_data if fault.loses else budget.may_end_uncleanly
    if not may_strike(host.node_id) or not host.disk.is_well:
        return
    budget.note(host.node_id, Harm.LOSSY if fault.loses else Harm.UNCLEAN)
    operations, sticky = _TROUBLES[fault]
    trouble = Trouble(f"{fault.value}-reported", operations, sticky=sticky)
    host.disk.troubles.append(trouble)
    yield Lasting(f"{host.name}: {fault.value}", extends=True)
    if trouble in host.disk.troubles:
        host.disk.troubles.remove(trouble)


def _misread(arena: Arena) -> Lasts:
    host = arena.any_host()
    if arena.budget.may_damage(host.node_id):
        host.disk.misread_prng = Prng(arena.prng.next_u64())
        host.disk.misread_in = arena.prng.below(20)
        _note_damaged(arena, host, DiskFault.BIT_FLIP_ON_READ.value)
        yield Lasting(f"{host.name}: {DiskFault.BIT_FLIP_ON_READ.value}", extends=True)
        host.disk.misread_in = None


def _damage(fault: DiskFault, arena: Arena) -> bool:
    host = arena.any_host()
    if not arena.budget.may_damage(host.node_id):
        return False
    done = damage(host.disk, fault, arena.prng, arena.swarm.damaged_files)
    if done is not None:
        _note_damaged(arena, host, done)
    return done is not None


def _note_damaged(arena: Arena, host: Host, done: str) -> None:
    arena.world.note(f"world {host.name}: {done}")
    host.disk.damaged = host.disk.hurt = True
    arena.budget.note(host.node_id, Harm.DAMAGED)


STRIKES: Final[dict[FaultKind, Strike]] = {
    FaultKind.SLOW_DISK: _slow_disk,
    FaultKind.DISK_FULL: _fill,
    FaultKind.DISK_ERROR: lambda arena: break_disk(arena, arena.victim()),
    FaultKind.FLUSH_ERROR: _fail_flushes,
}
DEVICE_STRIKES: Final[dict[DiskFault, Strike]] = {
    **{fault: partial(_damage, fault) for fault in DiskFault if fault.damages},
    **{fault: partial(_trouble, fault) for fault in _TROUBLES},
    DiskFault.STALL: _stall,
    DiskFault.DISK_DIES: lambda arena: let_die(arena, arena.any_host()),
    DiskFault.BIT_FLIP_ON_READ: _misread,
}
