"""The families of aimed faults: what others have, and faults right behind what nodes do.

A seed draws what the run is rich in (moves between disks, compaction, changes of the metadata,
damage, or nothing), what is aimed at, and with which faults. Most seeds aim at one thing or two: a
run that aims at everything meets the frequent things only. Faults at random times stay, fewer of
them, since it takes an election or a follower that was away until anything is cut, restarted or
repaired.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tidelog.env.prng import Prng
from tidelog.sim.engine.work import FREE, USUAL
from tidelog.sim.scenarios.fault_kinds import Aim, DiskFault, FaultKind
from tidelog.sim.scenarios.swarm import Swarm, draw_keyed, on_damaged_disks, on_several_disks, some

K = FaultKind
Rich = Callable[[Swarm, Prng], Swarm]

_OF_MOVES: Final = (Aim.COPY_BEGAN, Aim.COPY_SWAPPED, Aim.COPY_ENDED, Aim.DISK_OFFLINE)
_OF_DAMAGE: Final = (Aim.DAMAGE_FOUND, Aim.DAMAGE_REPAIRED)
_OF_METADATA: Final = (Aim.QUORUM_CUT, Aim.QUORUM_LED, Aim.SNAPSHOT)
_OF_RECORDS: Final = (Aim.GAPS_NOTED, Aim.LOG_CLEANED, Aim.LOG_RESTARTED, Aim.SEGMENT_MADE)
_OF_ALL: Final = tuple(
    aim for aim in Aim if aim not in (*_OF_MOVES, *_OF_DAMAGE, *_OF_METADATA, *_OF_RECORDS)
)


def _with_moves(swarm: Swarm, prng: Prng) -> Swarm:
    if prng.chance(1, 2):
        return _with_swaps(swarm, prng)
    swarm = on_several_disks(swarm, prng)
    return replace(swarm, aimed_faults=(*swarm.aimed_faults, DiskFault.DISK_DIES))


def _with_swaps(swarm: Swarm, prng: Prng) -> Swarm:
    """Power goes while the names of copies wait for a flush. No disk dies, so no log may be missing
    (NoFalseLoss)."""
    return replace(
        on_several_disks(swarm, prng),
        disk_faults=(),
        disk_move_gap_ms=200,
        partitions=3,
        group_commit=True,
        flush_ms=20,
        hardware=FREE,
        faults=(K.PAUSE,),
        aims=(Aim.COPY_SWAPPED,),
        aimed_faults=(K.POWER_CUT,),
    )


def _with_damage(swarm: Swarm, prng: Prng) -> Swarm:
    """Of partitions only where power goes as well: a voter may lose by both what it promised."""
    kinds = some(prng, K.KILL, K.POWER_CUT, K.ISOLATE)
    swarm = replace(on_damaged_disks(swarm, prng), aimed_faults=kinds)
    return replace(swarm, damaged_files=("data",)) if K.POWER_CUT in kinds else swarm


def _with_metadata(swarm: Swarm, prng: Prng) -> Swarm:
    return replace(
        swarm,
        admin_gap_ms=300,
        snapshot_bytes=1_000,
        metadata_retention_bytes=prng.choice((0, 5_000)),
        metadata_segment_bytes=prng.choice((1_000, 1 << 14)),
    )


def _with_keys(swarm: Swarm, prng: Prng) -> Swarm:
    return replace(
        swarm,
        segment_bytes=1024,
        cleaner_backoff_ms=100,
        keyed=draw_keyed(prng, prng.choice(("compact", "compact", "compact,delete", "delete"))),
    )


def _with_nothing(swarm: Swarm, _: Prng) -> Swarm:
    return swarm


_RICH: Final[tuple[tuple[Rich, tuple[Aim, ...]], ...]] = (
    *((_with_moves, _OF_MOVES),) * 2,
    (_with_damage, _OF_DAMAGE),
    (_with_metadata, _OF_METADATA),
    *((_with_keys, _OF_RECORDS),) * 2,
    (_with_nothing, _OF_ALL),
)
"""What a run is rich in, as often as it is here, and what it shows more often than others do."""


def aimed(swarm: Swarm, prng: Prng) -> Swarm:
    """A seed's own swarm, rich in something and aimed at."""
    kinds = some(prng, K.KILL, K.POWER_CUT, K.POWER_CUT_ALL, K.ISOLATE, K.DISK_ERROR)
    kinds = tuple(kind for kind in kinds if swarm.group_commit or not kind.needs_group_commit)
    rich, own_aims = prng.choice(_RICH)
    aims = [prng.choice(own_aims), *(aim for aim in Aim if prng.chance(1, 8))]
    swarm = replace(
        _with_few_clients(swarm),
        hardware=prng.choice((FREE, USUAL)),
        fault_gap_ms=700,
        fault_phase_ms=6_000,
        fault_length_ms=prng.choice((300, 1_500)),
        aims=tuple(dict.fromkeys(aims)),
        aimed_faults=kinds or (K.KILL,),
        restart_at_end=prng.chance(1, 2),
    )
    return rich(swarm, prng)


def aimed_at_swaps(swarm: Swarm, prng: Prng) -> Swarm:
    """One window alone, many times in a run."""
    swarm = replace(
        _with_few_clients(swarm),
        keyed=(),
        admin_gap_ms=0,
        operator_gap_ms=0,
        rewind_gap_ms=0,
        voters_in_log=False,
        voter_gap_ms=0,
        fault_gap_ms=400,
        fault_phase_ms=15_000,
    )
    return _with_swaps(swarm, prng)


def _with_few_clients(swarm: Swarm) -> Swarm:
    """An aimed fault is worth more than a record, and costs less."""
    return replace(
        swarm,
        profile="test",
        nodes=3,
        controllers=0,
        producers=("idempotent", swarm.producers[0]),
        consumers=1,
        records_per_second=20,
        batch_records=min(swarm.batch_records, 3),
        committers=0,
        members=0,
        transactors=0,
        sharers=0,
        copiers=0,
        readers=0,
    )
