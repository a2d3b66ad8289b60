"""One seed of any kind: what it is, how it is run, and how a person runs it again.

A seed is (tier, scenario, number) and nothing else: `run_seed` is a function of these three, so
seeds can run anywhere in any order and be run again alone.
"""

import gc
from typing import Final

from tidelog.env.trace import Level
from tidelog.errors import UsageError
from tidelog.sim.quorum import membership
from tidelog.sim.regressions.catalogue import REGRESSIONS, RegressionRun
from tidelog.sim.report.marks import MARKS
from tidelog.sim.report.outcome import Outcome
from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.runs.data_loss import DataLossRun
from tidelog.sim.runs.quorum import QuorumRun
from tidelog.sim.scenarios.families import DATA_LOSS, present_name, swarm_of

CLUSTER: Final = "cluster"
QUORUM: Final = "quorum"
REGRESSION: Final = "regression"
"""Regression scenarios by number (`--scenario r01`); they choose themselves what they run on."""


def prepare(
    tier: str, scenario: str, seed: int, *, trace_level: Level = Level.INFO
) -> ClusterRun | DataLossRun | QuorumRun | RegressionRun:
    """The run of a seed, not begun. Raises `UsageError` for an unknown tier or scenario."""
    scenario = present_name(scenario)
    if scenario in REGRESSIONS:
        return RegressionRun(REGRESSIONS[scenario], seed, trace_level=trace_level)
    if tier == CLUSTER and scenario == DATA_LOSS:
        return DataLossRun(seed)
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
    """Runs one seed, and writes no trace.

    Garbage is collected once, behind it: a run makes little, and looking for it costs a fifth.
    What was there before the run, most of it code, is not looked at then.
    """
    gc.disable()
    gc.freeze()
    try:
        return _run(tier, scenario, seed)
    finally:
        gc.collect()
        gc.unfreeze()
        gc.enable()


def _run(tier: str, scenario: str, seed: int) -> Outcome:
    """A function of its own: when it has returned nothing refers to the run, so what is collected
    then is all of it. Before the next run it would be frozen, and stay."""
    # Marks of whole nodes are read off the trace, so there it is on.
    level = Level.INFO if tier == CLUSTER and scenario not in REGRESSIONS else Level.ERROR
    one = prepare(tier, scenario, seed, trace_level=level)
    if isinstance(one, ClusterRun | DataLossRun):
        one.world.silent = True
    return one.run()


def replay_command(tier: str, scenario: str, seed: int) -> str:
    """What a person types to see a seed again."""
    options = "" if tier == CLUSTER or scenario in REGRESSIONS else f" --tier {tier}"
    options += "" if scenario == "all" else f" --scenario {scenario}"
    return f"tidelog sim replay {seed}{options} --trace"


def marks_of(tier: str) -> frozenset[str]:
    """The rare states that runs of a tier can reach."""
    if tier == QUORUM:
        return frozenset(membership.MARKS)
    return MARKS | {membership.ADDED, membership.REMOVED}
