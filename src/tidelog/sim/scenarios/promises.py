"""One family of runs for each promise, and for its variants: everything the promise covers, nothing
else, and no acknowledged record may be missing.

The budget (`faults.budget`) sees to what may happen at the same time; a family says which kinds of
faults exist and whether records are flushed before they are acknowledged. All end with a restart of
every node at once (RestartLosesNothing), except where that would go past the promise.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tidelog.env.prng import Prng
from tidelog.sim.scenarios.fault_kinds import REPORTED, DiskFault, FaultKind
from tidelog.sim.scenarios.swarm import Swarm, on_damaged_disks, some

K = FaultKind
Family = Callable[[Swarm, Prng], Swarm]
ACKNOWLEDGED: Final = ("idempotent", "all")


def _kills(swarm: Swarm, prng: Prng) -> Swarm:
    faults = some(prng, K.KILL, K.KILL_RESET, K.KILL_IN_WRITE, K.KILL_ALL, K.RESTART_STORM)
    return replace(swarm, group_commit=False, faults=faults, restart_at_end=True)


def _power_cuts(swarm: Swarm, prng: Prng) -> Swarm:
    faults = some(prng, K.POWER_CUT_ALL, K.KILL_IN_WRITE, K.SLOW_DISK, K.CLEAN_STOP, K.ISOLATE)
    return replace(swarm, group_commit=True, faults=(K.POWER_CUT, *faults), restart_at_end=True)


def _lossy_restarts(swarm: Swarm, prng: Prng) -> Swarm:
    faults = some(prng, K.KILL, K.KILL_IN_WRITE, K.CLEAN_STOP, K.PAUSE, K.CUT)
    return replace(swarm, group_commit=False, faults=(K.POWER_CUT, *faults), restart_at_end=True)


def _metadata(swarm: Swarm, prng: Prng) -> Swarm:
    faults = (K.POWER_CUT_ALL, *some(prng, K.POWER_CUT, K.ISOLATE, K.KILL_IN_WRITE))
    return replace(swarm, group_commit=True, admin_gap_ms=300, faults=faults, restart_at_end=True)


def _bad_devices(swarm: Swarm, prng: Prng) -> Swarm:
    return replace(
        swarm,
        group_commit=True,
        faults=some(prng, K.DISK_FULL, K.DISK_ERROR, K.FLUSH_ERROR, K.SLOW_DISK, K.POWER_CUT),
        disk_faults=some(prng, *REPORTED, DiskFault.STALL),
        restart_at_end=True,
    )


def _bad_devices_lazily(swarm: Swarm, prng: Prng) -> Swarm:
    return replace(
        swarm,
        group_commit=False,
        faults=some(prng, K.DISK_FULL, K.DISK_ERROR, K.SLOW_DISK, K.KILL),
        disk_faults=some(prng, *REPORTED, DiskFault.STALL),
        restart_at_end=True,
    )


def _cuts_only(kind: FaultKind) -> Family:
    """As many power cuts in a run as recovery leaves time for."""

    def family(swarm: Swarm, prng: Prng) -> Swarm:
        return replace(
            swarm,
            profile="test",
            group_commit=True,
            nodes=3,
            controllers=0,
            topics=1,
            partitions=prng.between(1, 2),
            producers=ACKNOWLEDGED[: prng.between(1, 2)],
            codec=0,
            consumers=1,
            records_per_second=20,
            admin_gap_ms=0,
            operator_gap_ms=0,
            rewind_gap_ms=0,
            faults=(kind,),
            fault_gap_ms=400 if kind is K.POWER_CUT else 1_200,
            fault_length_ms=300,
            fault_phase_ms=60_000,
            flush_ms=prng.choice((2, 20)),
        )

    return family


FAMILIES: Final[dict[str, tuple[str, Family]]] = {
    "p1-kills": ("P1: any number of killed processes, lazy flush", _kills),
    "p2-power-cuts": ("P2: any number of power cuts, group commit", _power_cuts),
    "p3-lossy-restarts": ("P3: one lossy restart at a time, lazy flush", _lossy_restarts),
    "p4-damage": ("P4: damaged files while the other replicas are intact", on_damaged_disks),
    "p5-metadata": ("P5: power cuts while topics change", _metadata),
    "p7-bad-devices": ("P7: full, failing and stalling disks, group commit", _bad_devices),
    "p7-bad-devices-lazily": ("P7: the same, lazy flush", _bad_devices_lazily),
    "power-cuts-single": (
        "P2: machines lose power, one by one, all the time",
        _cuts_only(K.POWER_CUT),
    ),
    "power-cuts-all": ("P2: all machines lose power at once", _cuts_only(K.POWER_CUT_ALL)),
}
