"""What is done to a cluster, drawn from a seed before anything runs.

A schedule is a list of steps. A step begins a fault, holds it, may carry out another step
meanwhile, and ends it; then comes a calm, sometimes one that waits until every replica is in sync,
so that the next fault meets a cluster that has recovered and not only one that never does. Targets
are roles (the leader of a partition, one of its followers, the controller, any node); which node
that is shows when the step begins.

Every fault here is within the promise: `acks=all` with three replicas and a minimum ISR of two
loses nothing through any number of process kills, pauses, cuts, full disks and changes of kind. So
there is no budget, and no combination that would be asking too much.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tidelog.env.prng import Prng


class Fault(Enum):
    """Kinds of faults."""

    KILL = "kill"
    """SIGKILL; starting it again ends the fault."""
    KILL_ALL = "kill all"
    """All nodes at once."""
    PAUSE = "pause"
    """SIGSTOP and SIGCONT."""
    STORM = "restart storm"
    """Nodes are killed and started at once, several times in a row; each counts."""
    ROLLING = "rolling restart"
    """Every node in turn is stopped cleanly and started; each counts."""
    DISK_FULL = "disk full"
    """No write succeeds any more on the node with the small disk."""
    CUT = "cut"
    """Nothing passes between the target and any other process."""
    CUT_NODES = "cut from nodes"
    """Nothing passes between the target and the other nodes; clients reach it."""
    ONE_WAY_OUT = "one-way cut, out"
    """What the target sends does not arrive; what others send arrives."""
    ONE_WAY_IN = "one-way cut, in"
    """What is sent to the target does not arrive; what it sends does."""
    PAIR = "cut of a pair"
    """Nothing passes between two nodes; all other links are open."""
    RESET = "reset"
    """All connections of the target are reset, and new ones for a while too."""
    STALL = "stall"
    """Links of the target stand still for a moment; everything arrives late."""
    MOVE = "move between disks"
    """The target's replicas of a partition or more go to its other log directory. Only in clusters
    whose nodes have two."""
    ROTATION = "rotation of certificates"
    """All nodes get certificates of another authority, and take them without a restart. This and
    the next two only in protected clusters (`protection.py`)."""
    PASSWORD = "change of a password"
    """The user that all clients are has another password, until the fault ends."""
    RIGHTS = "exchange of rights"
    """The same rights come from other entries."""
    CHANGE = "change of kind"
    """The target ends, killed or cleanly, and a node of the other kind takes over its disk. Only
    in clusters whose nodes have kinds (`kinds.py`)."""


class Role(Enum):
    """The role of the node that a fault hits."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CONTROLLER = "controller"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Step:
    """One fault."""

    fault: Fault
    role: Role
    draw: int
    """Chooses among the nodes that have the role, and the topic and partition."""
    hold_ms: int
    calm_ms: int
    recover: bool
    """Whether to wait for all replicas to be in sync before what follows."""
    count: int = 1
    """How many times, for a storm."""
    within: "Step | None" = None
    """Another fault while this one holds."""

    def __str__(self) -> str:
        inner = f" [{self.within}]" if self.within else ""
        return f"{self.fault.value} of {self.role.value} for {self.hold_ms} ms{inner}"


_WEIGHTS: Final[tuple[tuple[Fault, int], ...]] = (
    (Fault.KILL, 6),
    (Fault.KILL_ALL, 1),
    (Fault.PAUSE, 4),
    (Fault.STORM, 2),
    (Fault.ROLLING, 1),
    (Fault.DISK_FULL, 2),
    (Fault.CUT, 3),
    (Fault.CUT_NODES, 3),
    (Fault.ONE_WAY_OUT, 3),
    (Fault.ONE_WAY_IN, 3),
    (Fault.PAIR, 2),
    (Fault.RESET, 3),
    (Fault.STALL, 3),
)

_OF_DISKS: Final[tuple[tuple[Fault, int], ...]] = ((Fault.MOVE, 6),)
"""What a cluster of Tidelog alone draws besides: its nodes have two disks."""

_OF_KINDS: Final[tuple[tuple[Fault, int], ...]] = ((Fault.CHANGE, 6),)
"""What a cluster whose nodes have kinds draws besides."""

OF_SECURITY: Final[tuple[tuple[Fault, int], ...]] = (
    (Fault.ROTATION, 4),
    (Fault.PASSWORD, 4),
    (Fault.RIGHTS, 4),
)
"""What a protected cluster draws besides."""

_ALONE: Final = frozenset((Fault.ROLLING, Fault.KILL_ALL, Fault.CHANGE))
"""Never inside another fault: they ask for nodes that can be stopped and started."""

_ROLES: Final = (Role.LEADER, Role.LEADER, Role.FOLLOWER, Role.CONTROLLER, Role.ANY)


def draw_schedule(
    seed: int, steps: int, *, kinds: bool = False, secure: bool = False
) -> list[Step]:
    """A schedule of this many steps; every fault comes up before any comes up twice. With `kinds`
    nodes change theirs; without, their replicas move between disks. In a `secure` cluster
    certificates, passwords and rights change, and these come up first."""
    prng = Prng(seed)
    weights = _WEIGHTS + (_OF_KINDS if kinds else _OF_DISKS)
    if secure:
        first = _draw_faults(prng, min(steps, len(OF_SECURITY)), OF_SECURITY)
        rest = _draw_faults(prng, steps - len(first), weights + OF_SECURITY)
        return [_draw_step(prng, fault) for fault in (*first, *rest)]
    return [_draw_step(prng, fault) for fault in _draw_faults(prng, steps, weights)]


def _draw_faults(prng: Prng, count: int, weights: Sequence[tuple[Fault, int]]) -> list[Fault]:
    first = [fault for fault, _ in weights]
    prng.shuffle(first)
    bag = [fault for fault, weight in weights for _ in range(weight)]
    return [*first, *(prng.choice(bag) for _ in range(max(0, count - len(first))))][:count]


def _draw_step(prng: Prng, fault: Fault) -> Step:
    within = None
    if fault not in _ALONE and fault is not Fault.STORM and prng.chance(1, 5):
        inner: Sequence[Fault] = [one for one, _ in _WEIGHTS if one not in (*_ALONE, fault)]
        within = _draw_inner(prng, prng.choice(inner))
    low, high = (100, 700) if fault in (Fault.STALL, Fault.RESET) else (300, 1800)
    return Step(
        fault,
        prng.choice(_ROLES),
        draw=prng.below(1 << 30),
        hold_ms=prng.between(low, high),
        calm_ms=prng.between(0, 800),
        recover=prng.chance(1, 4),
        count=prng.between(3, 5) if fault is Fault.STORM else 1,
        within=within,
    )


def _draw_inner(prng: Prng, fault: Fault) -> Step:
    return Step(
        fault,
        prng.choice(_ROLES),
        draw=prng.below(1 << 30),
        hold_ms=prng.between(100, 800),
        calm_ms=0,
        recover=False,
        count=2 if fault is Fault.STORM else 1,
    )
