"""The options of a seed beyond the promises (P6): power cuts that nothing holds back."""

from dataclasses import replace
from typing import Final

from tidelog.sim.scenarios.fault_kinds import FaultKind
from tidelog.sim.scenarios.swarm import Swarm, draw_plain, stream

NAME: Final = "data-loss"
ABOUT: Final = "P6: power cuts beyond the promise, lazy flush: losses are reported"


def data_loss_swarm(seed: int) -> Swarm:
    """The options of a seed: lossy and many, on few partitions."""
    prng = stream(seed, "beyond")
    kinds = (
        FaultKind.POWER_CUT,
        FaultKind.POWER_CUT_ALL,
        FaultKind.KILL,
        FaultKind.CLEAN_STOP,
        FaultKind.PAUSE,
        FaultKind.ISOLATE,
    )
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
    )
