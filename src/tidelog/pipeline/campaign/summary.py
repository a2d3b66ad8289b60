"""The summary of a campaign, added up run by run.

The driver makes the sums in one pass over the rows, some 50 µs a run, and not on Spark: seven
queries over a few thousand rows took several seconds of planning and compiling in a Java that has
just started. It keeps the seed, the times and the set of marks of each run.

A seed counts once, by its first row with a final verdict, because a run is a function of its seed;
without one, the row with the least `wall_ms` counts. A violation is always reported, even if
another row of the seed is clean, which would show that the run is not deterministic.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tidelog.pipeline.campaign.runs import Run
from tidelog.pipeline.campaign.seeds import CLEAN, VIOLATION

BLOCK_SEEDS: Final = 1_000
"""New coverage is counted over so many seeds."""
COUNTS: Final = ("events", "virtual_ms", "acknowledged", "cpu_ms")
TIMES: Final = ("healing_ms", "election_ms", "unavailable_ms")


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that was not clean."""

    seed: int
    property: str
    verdict: str
    violation: str


@dataclass(frozen=True, slots=True)
class BrokenProperty:
    """One property that was violated, and the smallest seed that shows it."""

    property: str
    verdict: str
    runs: int
    seed: int
    violation: str


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of times in ms; each percentile is a time that occurred, or -1 for none."""

    count: int = 0
    p50: int = -1
    p90: int = -1
    p99: int = -1
    max: int = -1


@dataclass(frozen=True, slots=True)
class Growth:
    """The coverage that a block of seeds added to the blocks before it."""

    first_seed: int
    seeds: int
    new_marks: int
    new_signatures: int
    """A signature is the set of marks that one run reached."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """The report over all wanted seeds, run now or before."""

    revision: str
    seeds: int
    newly_run: int
    """Seeds that this campaign ran itself; the table had the others."""
    sums: dict[str, int]
    """Over all runs: `events`, `virtual_ms`, `acknowledged`, `cpu_ms`."""
    failed: list[Failure]
    violations: list[BrokenProperty]
    faults: dict[str, int]
    fired: dict[str, int]
    marks: dict[str, int]
    """How many runs reached each."""
    healing_ms: Spread
    election_ms: Spread
    unavailable_ms: Spread
    growth: list[Growth]


class RunTotals:
    """Runs of the wanted seeds, added up."""

    def __init__(self, wanted: range) -> None:
        # Runs of other seeds are ignored.
        self._wanted = wanted
        # Seeds that a run with a final verdict was counted for.
        self._final: set[int] = set()
        # Runs without a final verdict, by seed: the shortest one each.
        self._lost: dict[int, Run] = {}
        self._failed: dict[int, Failure] = {}
        self._sums: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self._faults: Counter[str] = Counter()
        self._fired: Counter[str] = Counter()
        self._marks: Counter[str] = Counter()
        self._times = {name: array("q") for name in TIMES}
        # The smallest seed that reached a mark, and the smallest with a set of marks.
        self._first_hits: dict[str, int] = {}
        self._signatures: dict[frozenset[str], int] = {}
        # How many seeds each block has.
        self._blocks: Counter[int] = Counter()

    def add(self, run: Run) -> None:
        seed, verdict = run["seed"], run["verdict"]
        if seed not in self._wanted:
            return
        if verdict not in (CLEAN, VIOLATION):
            known = self._lost.get(seed)
            if known is None or run["wall_ms"] < known["wall_ms"]:
                self._lost[seed] = run
            return
        if verdict == VIOLATION:
            self._note_failure(run)
        if seed not in self._final:
            self._final.add(seed)
            self._count(run)

    def campaign(self, revision: str, newly_run: int) -> Campaign:
        """The report; call it once, after the last `add`."""
        for seed in self._lost.keys() - self._final:
            self._note_failure(self._lost[seed])
            self._count(self._lost[seed])
        failed = sorted(self._failed.values(), key=lambda one: one.seed)
        return Campaign(
            revision=revision,
            seeds=self._blocks.total(),
            newly_run=newly_run,
            sums=dict(self._sums),
            failed=failed,
            violations=by_property(failed),
            faults=dict(sorted(self._faults.items())),
            fired=dict(sorted(self._fired.items())),
            marks=dict(sorted(self._marks.items())),
            **{name: spread_of(times) for name, times in self._times.items()},
            growth=list(self._growth()),
        )

    def _note_failure(self, run: Run) -> None:
        fields = (run[name] for name in ("seed", "property", "verdict", "violation"))
        self._failed[run["seed"]] = Failure(*fields)

    def _count(self, run: Run) -> None:
        seed = run["seed"]
        self._blocks[self._block(seed)] += 1
        for name in COUNTS:
            self._sums[name] += run[name]
        self._faults.update(dict(run["faults"]))
        self._fired.update(dict(run["fired"]))
        for mark in run["marks"]:
            self._marks[mark] += 1
            self._first_hits[mark] = min(seed, self._first_hits.get(mark, seed))
        signature = frozenset(run["marks"])
        self._signatures[signature] = min(seed, self._signatures.get(signature, seed))
        if run["healed_ms"] >= 0:
            self._times["healing_ms"].append(run["healed_ms"])
        self._times["election_ms"].extend(run["election_ms"])
        self._times["unavailable_ms"].extend(run["unavailable_ms"])

    def _block(self, seed: int) -> int:
        return (seed - self._wanted.start) // BLOCK_SEEDS

    def _growth(self) -> Iterator[Growth]:
        marks = Counter(map(self._block, self._first_hits.values()))
        signatures = Counter(map(self._block, self._signatures.values()))
        for block, seeds in sorted(self._blocks.items()):
            first = self._wanted.start + block * BLOCK_SEEDS
            yield Growth(first, seeds, marks[block], signatures[block])


def by_property(failed: Iterable[Failure]) -> list[BrokenProperty]:
    """Per violated property: how many runs, and the failure of the smallest seed."""
    found: dict[str, list[Failure]] = {}
    for failure in failed:
        found.setdefault(failure.property, []).append(failure)
    smallest = {name: min(those, key=lambda one: one.seed) for name, those in found.items()}
    return [
        BrokenProperty(name, one.verdict, len(found[name]), one.seed, one.violation)
        for name, one in sorted(smallest.items())
    ]


def spread_of(times: Iterable[int]) -> Spread:
    """Percentiles by nearest rank."""
    ordered = sorted(times)
    if not ordered:
        return Spread()
    ranks = (math.ceil(len(ordered) * percent / 100) for percent in (50, 90, 99, 100))
    return Spread(len(ordered), *(ordered[rank - 1] for rank in ranks))
