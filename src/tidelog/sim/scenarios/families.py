"""Named families of runs: a seed's swarm with some options fixed.

Each promise of `docs/protocol/durability.md` that the simulator reaches has a family of its own, so
that a campaign can spend its time on one of them. `all` is the plain swarm.
"""

from dataclasses import replace
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import UsageError
from tidelog.sim.engine.work import FREE, SLOW, USUAL
from tidelog.sim.scenarios.aimed import aimed, aimed_at_swaps
from tidelog.sim.scenarios.fault_kinds import FaultKind
from tidelog.sim.scenarios.promises import FAMILIES as PROMISES
from tidelog.sim.scenarios.promises import Family
from tidelog.sim.scenarios.swarm import (
    KEYED_POLICIES,
    Swarm,
    draw,
    draw_keyed,
    draw_plain,
    on_secured,
    on_several_disks,
    some,
    stream,
)

K = FaultKind
ALL: Final = "all"
DATA_LOSS: Final = "data-loss"
_LOSES: Final = "P6: power cuts beyond the promise, lazy flush: losses are reported"


def _without_restart(promise: str) -> Family:
    """The family of a promise, but for the restart of all nodes at its end."""
    _, family = PROMISES[promise]
    return lambda swarm, prng: replace(family(swarm, prng), restart_at_end=False)


def _power_cuts(swarm: Swarm, prng: Prng) -> Swarm:
    faults = some(prng, K.POWER_CUT, K.POWER_CUT_ALL, K.KILL_IN_WRITE, K.SLOW_DISK)
    return replace(swarm, group_commit=True, faults=(K.POWER_CUT, *faults[1:]))


def _disk_faults(swarm: Swarm, prng: Prng) -> Swarm:
    faults = some(prng, K.DISK_FULL, K.DISK_ERROR, K.FLUSH_ERROR, K.SLOW_DISK, K.POWER_CUT)
    return replace(swarm, group_commit=True, faults=faults)


def _links(swarm: Swarm, prng: Prng) -> Swarm:
    kinds = (K.CUT_ONE_WAY, K.CUT, K.ISOLATE, K.CUT_CLIENTS, K.FLAP, K.SLOW_LINK)
    return replace(swarm, faults=some(prng, *kinds), split_percent=20)


def _elections(swarm: Swarm, prng: Prng) -> Swarm:
    faults = some(prng, K.KILL, K.PAUSE, K.CLEAN_STOP, K.ISOLATE, K.CUT_ONE_WAY)
    return replace(swarm, profile="test", faults=faults, fault_gap_ms=400, fault_length_ms=1_500)


def _topics(swarm: Swarm, prng: Prng) -> Swarm:
    faults = some(prng, K.KILL, K.KILL_IN_WRITE, K.CLEAN_STOP, K.POWER_CUT, K.PAUSE)
    return replace(swarm, admin_gap_ms=300, faults=faults)


def _many_partitions(swarm: Swarm, prng: Prng) -> Swarm:
    return replace(
        swarm,
        nodes=3,
        controllers=0,
        profile="test",
        topics=1,
        partitions=prng.choice((20, 60)),
        admin_gap_ms=prng.choice((0, 2_000)),
        voters_in_log=False,
        voter_gap_ms=0,
        faults=some(prng, K.KILL, K.CLEAN_STOP, K.PAUSE, K.POWER_CUT, K.ISOLATE),
        fault_gap_ms=1_200,
        fault_phase_ms=5_000,
        # A disk that does one thing after the other has a hundred logs to flush.
        flush_ms=2,
        hardware=prng.choice((USUAL, SLOW)),
    )


def _transactions(swarm: Swarm, prng: Prng) -> Swarm:
    return replace(
        _elections(swarm, prng),
        nodes=3,
        profile="test",
        topics=1,
        partitions=1,
        producers=("idempotent",),
        consumers=1,
        admin_gap_ms=0,
        committers=0,
        transactors=2,
        copiers=0,
        readers=0,
        flush_ms=2,
        hardware=FREE,
        fault_gap_ms=1_200,
    )


def _sharers(swarm: Swarm, prng: Prng) -> Swarm:
    return replace(
        _transactions(swarm, prng),
        partitions=2,
        transactors=0,
        members=0,
        sharers=3,
        records_per_second=20,
        batch_records=3,
    )


def _copies(swarm: Swarm, prng: Prng) -> Swarm:
    return replace(
        _transactions(swarm, prng),
        transactors=0,
        members=0,
        sharers=0,
        keyed=(),
        copiers=3,
        readers=3,
    )


def _keyed(swarm: Swarm, prng: Prng) -> Swarm:
    return replace(
        _elections(swarm, prng),
        topics=1,
        partitions=1,
        producers=("idempotent",),
        consumers=1,
        admin_gap_ms=0,
        committers=0,
        transactors=0,
        copiers=0,
        readers=0,
        segment_bytes=1024,
        cleaner_backoff_ms=100,
        keyed=draw_keyed(prng, prng.choice(KEYED_POLICIES)),
        faults=some(prng, K.KILL, K.PAUSE, K.CLEAN_STOP, K.ISOLATE, K.KILL_IN_WRITE, K.POWER_CUT),
    )


_FAMILIES: Final[dict[str, tuple[str, Family]]] = {
    ALL: ("whatever the seed draws", lambda swarm, _: swarm),
    "plain": ("the same, on disks that keep what they hold", lambda swarm, _: swarm),
    "kills": ("P1: any number of killed processes, lazy flush", _without_restart("p1-kills")),
    "power-cuts": ("P2: any number of power cuts, group commit", _power_cuts),
    "lossy-restarts": (
        "P3: one lossy restart at a time, lazy flush",
        _without_restart("p3-lossy-restarts"),
    ),
    "metadata": ("P5: power cuts while topics change", _without_restart("p5-metadata")),
    "disk-faults": ("P7: full, failing and slow disks", _disk_faults),
    "several-disks": ("nodes with several disks, one of which dies", on_several_disks),
    "secured": ("logins and rights, and a client without them", on_secured),
    "aimed": ("faults right behind what nodes do, before that is durable or known", aimed),
    "aimed-swaps": ("power cuts right behind the end of a move between disks", aimed_at_swaps),
    "links": ("cuts, flapping and slow links", _links),
    "elections": ("leaders and controllers struck by name", _elections),
    "transactions": ("transactions while leaders and coordinators die", _transactions),
    "sharers": ("members of a share group while leaders and coordinators die", _sharers),
    "copies": ("classic groups that read and copy a topic while coordinators die", _copies),
    "keyed": ("compaction, retention and deleted records while leaders die", _keyed),
    "topics": ("topics created, deleted and grown all the time", _topics),
    "many-partitions": ("dozens of partitions at once, where work costs time", _many_partitions),
    **PROMISES,
}


_FORMER_NAMES: Final = {"beyond": DATA_LOSS}
"""Names that scenarios had in the release before; they still work."""


def present_name(scenario: str) -> str:
    """The name of a scenario that may have been asked for by a former one."""
    return _FORMER_NAMES.get(scenario, scenario)


def names() -> dict[str, str]:
    """Every scenario and what it is about."""
    return {name: text for name, (text, _) in _FAMILIES.items()} | {DATA_LOSS: _LOSES}


def swarm_of(scenario: str, seed: int) -> Swarm:
    """The options of a seed in a scenario. Raises `UsageError` for an unknown one."""
    if scenario not in _FAMILIES:
        raise UsageError(f"there is no scenario `{scenario}`", f"use one of {', '.join(_FAMILIES)}")
    swarm = draw(seed) if scenario == ALL else draw_plain(seed)
    return _FAMILIES[scenario][1](swarm, stream(seed, scenario))


def data_loss_swarm(seed: int) -> Swarm:
    """The options of a seed beyond the promises (P6): power cuts that nothing holds back, lossy and
    many, on few partitions."""
    prng = stream(seed, "beyond")
    kinds = (K.POWER_CUT, K.POWER_CUT_ALL, K.KILL, K.CLEAN_STOP, K.PAUSE, K.ISOLATE)
    faults = tuple(kind for kind in kinds[2:] if prng.chance(1, 3))
    unclean = stream(seed, "unclean elections").choice(("", "", "topics", "cluster"))
    return replace(
        draw_plain(seed),
        nodes=3,
        controllers=0,
        profile="test",
        group_commit=False,
        topics=prng.between(1, 2),
        producers=("all",) * prng.between(1, 3),
        consumers=0,
        follower_reads=False,
        racks=False,
        admin_gap_ms=0,
        operator_gap_ms=0,
        rewind_gap_ms=0,
        faults=(*kinds[: prng.between(1, 2)], *faults),
        fault_gap_ms=prng.choice((200, 500, 1_500)),
        voter_gap_ms=0,
        unclean_elections=unclean,
        committers=0,
        members=0,
        transactors=0,
        keyed=(),
        sharers=0,
        copiers=0,
        readers=0,
    )
