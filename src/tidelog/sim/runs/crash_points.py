"""The crash-point sweep: one scripted run, and one more for each thing it asks of a disk, in which
the process or the power ends right there.

Faults that strike by chance hardly ever hit the window between two writes that belong together. The
script is the same every time, so its operations can be numbered: the n-th write, flush,
replacement, link, renaming or deletion of any node. For each number the run is repeated and the
node that asks for that operation dies before it is done; or, where half of it can be done, in the
middle of it; or its machine loses power. Then it starts again, the script goes on, and everything
is judged as at the end of any run: nothing acknowledged is lost, all files are sound, all replicas
equal, and a restart of everybody loses nothing either.

The script: topics are made and deleted, small segments roll all the time, replicas are moved, a
follower is cut off and comes back, a leader is stopped cleanly and starts again, checkpoints are
written. Records are flushed before they are acknowledged.

Left out: two crashes in one run, which the families of P1 and P2 have; transactions, which would
ask for six times as much.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

from tidelog.env.memory_disk import Operation
from tidelog.env.prng import Prng
from tidelog.env.trace import Level
from tidelog.sim.engine.disk import ProcessKilled, SimDisk
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.work import FREE
from tidelog.sim.engine.world import World
from tidelog.sim.report.outcome import Outcome
from tidelog.sim.report.violation import Violation
from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.scenarios.swarm import Swarm, draw_plain

SEED: Final = 6
SCRIPT_MS: Final = 5_000
DOWN_MS: Final = 250
SUPERVISOR_MS: Final = 50
_NOT_COUNTED: Final = frozenset((Operation.LOOK, Operation.READ))
_IN_HALVES: Final = frozenset((Operation.APPEND, Operation.REPLACE))


class Ending(Enum):
    """How the process ends at a point."""

    KILL = "kill"
    """Before the operation; the page cache stays."""
    TORN = "torn"
    """In the middle of it."""
    POWER = "power"
    """Before it, and what was not flushed is lost, or some part of it."""


class Point(NamedTuple):
    """One run of the sweep."""

    number: int
    """Of the operation, from 0."""
    operation: Operation
    ending: Ending

    def __str__(self) -> str:
        return f"{self.number}:{self.operation.value}:{self.ending.value}"


@dataclass(slots=True)
class Sweep:
    """The sum of many points."""

    endings: Counter[str] = field(default_factory=Counter)
    """How many points of each sort were run."""
    acknowledged: int = 0
    """Records, over all runs; none of them was lost unless a run failed."""
    failed: list[tuple[Point, str]] = field(default_factory=list)

    def add(self, point: Point, outcome: Outcome) -> None:
        """Takes in one run."""
        self.endings[point.ending.value] += 1
        self.acknowledged += outcome.acknowledged
        if outcome.violation is not None:
            self.failed.append((point, outcome.violated or ""))

    def as_json(self) -> dict[str, object]:
        """The report of `tidelog sim sweep --output json`."""
        points = self.endings.total()
        return {
            "points": points,
            "survived": points - len(self.failed),
            "failed": [{"point": str(point), "property": name} for point, name in self.failed],
            "endings": dict(sorted(self.endings.items())),
            "acknowledged": self.acknowledged,
        }


def swarm() -> Swarm:
    """The options of the script."""
    return replace(
        draw_plain(SEED),
        nodes=3,
        controllers=0,
        profile="test",
        hardware=FREE,
        group_commit=True,
        topics=1,
        partitions=2,
        segment_bytes=1024,
        producers=("idempotent",),
        codec=0,
        consumers=1,
        follower_reads=False,
        racks=False,
        records_per_second=10,
        batch_records=2,
        client_timeout_ms=1_500,
        admin_gap_ms=900,
        operator_gap_ms=1_000,
        rewind_gap_ms=0,
        faults=(),
        fault_gap_ms=1_000,
        fault_length_ms=1_000,
        split_percent=0,
        flush_ms=2,
        fault_phase_ms=SCRIPT_MS,
        restart_at_end=True,
        members=0,
        transactors=0,
        keyed=(),
        sharers=0,
        copiers=0,
        readers=0,
    )


class Script:
    """What happens in the run beside the clients' work; stands where other runs have a nemesis."""

    def __init__(self, world: World, point: Point | None) -> None:
        self.counts: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        # What was asked of all disks, in order.
        self.operations: list[Operation] = []
        self._world = world
        self._point = point
        self._prng = Prng(0 if point is None else point.number)
        self._stopped = False
        # When a dead process starts again, by node.
        self._restart_at: dict[int, int] = {}

    def start(self) -> None:
        """Begins to count operations, and to supervise."""
        for host in self._world.hosts.values():
            host.disk.witness = self._witness_of(host.disk)
        self._supervise()
        follower, leader = self._world.hosts[3], self._world.hosts[1]
        self._world.at(1_600, lambda: self._cut_off(follower))
        self._world.at(2_600, self._world.heal)
        self._world.at(3_200, lambda: self._stop(leader))

    def heal(self) -> None:
        """The script is over; operations count on, to the end of the run."""
        self._stopped = True
        self._world.heal()

    def _witness_of(self, disk: SimDisk) -> Callable[[Operation, str], None]:
        def witness(operation: Operation, path: str) -> None:
            if operation in _NOT_COUNTED:
                return
            number = len(self.operations)
            self.operations.append(operation)
            if self._point is not None and number == self._point.number:
                self._end(disk, operation, path)

        return witness

    def _end(self, disk: SimDisk, operation: Operation, path: str) -> None:
        point = self._point
        assert point is not None
        assert operation is point.operation, f"{operation} at {point}: the run is not the same"
        self._world.note(f"world {disk.root}: {point.ending.value} at {operation.value} of {path}")
        self.counts[point.ending.value] += 1
        if point.ending is Ending.TORN and operation is Operation.APPEND:
            disk.tears_next_append = True
            return
        if point.ending is Ending.TORN:
            with disk.observed():
                disk.open(f"{path}.tmp", create=True).append((b"half of what",))
        if point.ending is Ending.POWER:
            disk.crash(self._prng if self._prng.chance(2, 3) else None)
        raise ProcessKilled(path)

    def _supervise(self) -> None:
        now = self._world.now
        for node_id, host in self._world.hosts.items():
            if host.node is not None:
                self._restart_at.pop(node_id, None)
                continue
            if host.exit_code:
                raise Violation("NoSpontaneousExit", f"{host.name}: {host.exit_message}")
            if self._restart_at.setdefault(node_id, now + DOWN_MS) <= now:
                self._world.start(node_id)
        self._world.at(SUPERVISOR_MS, self._supervise)

    def _cut_off(self, victim: Host) -> None:
        for node_id in self._world.hosts:
            if node_id != victim.node_id:
                self._world.cut(victim.node_id, node_id)
                self._world.cut(node_id, victim.node_id)

    def _stop(self, host: Host) -> None:
        if host.node is not None and not self._stopped:
            self._world.stop(host.node_id)


class SweepRun(ClusterRun):
    """The script, with a crash at one point or without."""

    def __init__(self, point: Point | None) -> None:
        super().__init__(SEED, swarm(), trace_level=Level.ERROR)
        self.script = Script(self.world, point)
        self.nemesis = self.script  # type: ignore[assignment]


def points() -> list[Point]:
    """Runs the script without a crash and names every point of it."""
    run = SweepRun(None)
    outcome = run.run()
    assert outcome.violation is None, outcome.violation
    return [
        Point(number, operation, ending)
        for number, operation in enumerate(run.script.operations)
        for ending in Ending
        if ending is not Ending.TORN or operation in _IN_HALVES
    ]


def run_point(point: Point) -> Outcome:
    """The run that ends a process at this point, judged."""
    run = SweepRun(point)
    outcome = run.run()
    if outcome.violation is None and not run.script.counts:
        outcome.violation = f"PointReached: {point} was not reached"
    return outcome
