"""Many seeds: one process or several, one report.

A seed is (tier, scenario, number) and nothing else: `run_seed` is a function of these three, so
seeds can run anywhere in any order and be run again alone.
"""

import gc
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tidelog.env.trace import Level
from tidelog.errors import UsageError
from tidelog.sim import beyond_run
from tidelog.sim.beyond_run import BeyondRun
from tidelog.sim.cluster_run import ClusterRun
from tidelog.sim.marks import MARKS
from tidelog.sim.outcome import Outcome
from tidelog.sim.quorum import membership
from tidelog.sim.quorum_run import QuorumRun
from tidelog.sim.regressions.run import RegressionRun
from tidelog.sim.regressions.stories import STORIES
from tidelog.sim.scenarios import swarm_of

CLUSTER: Final = "cluster"
QUORUM: Final = "quorum"
STORY: Final = "story"
"""Stories by number (`--scenario r01`); they choose their stage themselves."""


def prepare(
    tier: str, scenario: str, seed: int, *, trace_level: Level = Level.INFO
) -> ClusterRun | BeyondRun | QuorumRun | RegressionRun:
    """The run of a seed, not begun. Raises `UsageError` for a tier or scenario that is not."""
    if scenario in STORIES:
        return RegressionRun(STORIES[scenario], seed, trace_level=trace_level)
    if tier == CLUSTER and scenario == beyond_run.NAME:
        return BeyondRun(seed)
    if tier == CLUSTER:
        return ClusterRun(seed, swarm_of(scenario, seed), trace_level=trace_level)
    if tier != QUORUM:
        raise UsageError(f"there is no tier `{tier}`", f"use {CLUSTER} or {QUORUM}")
    if scenario != "all":
        raise UsageError(
            f"the quorum tier has no scenario `{scenario}`", f"leave it out, or use `{CLUSTER}`"
        )
    return QuorumRun(seed, trace_level=trace_level)


def run_seed(tier: str, scenario: str, seed: int) -> Outcome:
    """Plays one seed, and writes no trace.

    Garbage is collected once, behind it: a run makes little, and looking for it costs a fifth.
    What was there before the run, most of it code, is not looked at then.
    """
    gc.disable()
    gc.freeze()
    try:
        # Marks of whole nodes are read off the trace, so there it is on.
        level = Level.INFO if tier == CLUSTER and scenario not in STORIES else Level.ERROR
        one = prepare(tier, scenario, seed, trace_level=level)
        if isinstance(one, ClusterRun):
            one.world.silent = True
        return one.run()
    finally:
        gc.collect()
        gc.unfreeze()
        gc.enable()


def replay_command(tier: str, scenario: str, seed: int) -> str:
    """What a person types to see a seed again."""
    options = "" if tier == CLUSTER or scenario in STORIES else f" --tier {tier}"
    options += "" if scenario == "all" else f" --scenario {scenario}"
    return f"tidelog sim replay {seed}{options} --trace"


def marks_of(tier: str) -> frozenset[str]:
    """The rare states that runs of a tier can reach."""
    if tier == QUORUM:
        return frozenset(membership.MARKS)
    return MARKS | {membership.ADDED, membership.REMOVED}


@dataclass(slots=True)
class Tally:
    """The sum of many outcomes."""

    seeds: int = 0
    failed: list[Outcome] = field(default_factory=list)
    events: int = 0
    virtual_ms: int = 0
    acknowledged: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    # How many runs reached each mark.
    marks: Counter[str] = field(default_factory=Counter)
    slowest_heal_ms: int = 0
    # All marks that runs of this kind can reach.
    known_marks: frozenset[str] = MARKS

    @property
    def never_hit(self) -> list[str]:
        """The marks that no run reached."""
        return sorted(self.known_marks - set(self.marks))

    def add(self, outcome: Outcome) -> None:
        """Takes in one outcome."""
        self.seeds += 1
        if outcome.violation is not None:
            self.failed.append(outcome)
        self.events += outcome.events
        self.virtual_ms += outcome.virtual_ms
        self.acknowledged += outcome.acknowledged
        self.faults.update(outcome.faults)
        self.fired.update(outcome.fired)
        self.marks.update(outcome.marks)
        self.slowest_heal_ms = max(self.slowest_heal_ms, outcome.healed_ms)

    def as_json(self, cpu_seconds: float) -> dict[str, object]:
        """The report of `tidelog sim run --output json`, with which every other one begins."""
        return {
            "seeds": self.seeds,
            "failed": [
                {"seed": outcome.seed, "property": outcome.violated} for outcome in self.failed
            ],
            "events": self.events,
            "virtual_seconds": self.virtual_ms / 1000,
            "cpu_seconds": round(cpu_seconds, 3),
            "acknowledged": self.acknowledged,
            "faults": dict(sorted(self.faults.items())),
            "fired": dict(sorted(self.fired.items())),
            "marks": {
                "hit": len(self.marks),
                "total": len(self.known_marks),
                "never": self.never_hit,
            },
        }
