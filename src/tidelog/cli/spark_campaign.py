"""`tidelog spark campaign`: many seeds of the simulator, as a Spark job.

The command line knows both the simulator and the pipeline, so it gives the job the function that
runs a seed.
"""

import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from tidelog.cli import terminal
from tidelog.cli.arguments import option
from tidelog.cli.sim import Scenario, Tier, seed_range
from tidelog.cli.spark_job import Master, open_session
from tidelog.cli.terminal import TABLE, BadAnswer, Output
from tidelog.errors import UsageError

if TYPE_CHECKING:
    from tidelog.pipeline.campaign.seeds import RunKind
    from tidelog.pipeline.campaign.summary import Campaign

_SEEDS_PER_TASK: Final = {"cluster": 5, "quorum": 100}
"""At most, by tier: some 10 s of work; what a task ran is in the table when it ends."""
_TABLE: Final = "runs"


def campaign(
    seeds: Annotated[str, option("--seeds", "From A up to, without, B; or one seed.", "A:B")],
    out: Annotated[Path, option("--out", "Where the table of runs is, or shall be.", "DIR")],
    scenario: Scenario = "all",
    tier: Tier = "cluster",
    seeds_per_task: Annotated[
        int, option("--seeds-per-task", "At most; 0: about 10 s of work.", "N", min=0)
    ] = 0,
    seed_limit: Annotated[
        float, option("--seed-limit", "Give a seed up after that.", "SECONDS", min=1)
    ] = 300.0,
    master: Master = "local[*]",
    output: Output = TABLE,
) -> None:
    """Run seeds as a Spark job, add them to a table, and sum up; exit code 1 if any failed.

    Seeds that the table has already, of the same scenario and the same sources, are not run
    again: an interrupted campaign is continued by the same command. On a cluster, `--out` is a
    path that all workers see, and Tidelog is installed on each.
    """
    from tidelog.sim.campaign.seeds import prepare, run_seed

    wanted = seed_range(seeds)
    prepare(tier, scenario, wanted[0])
    begun = time.monotonic()
    with open_session(master) as spark:
        from tidelog.pipeline.campaign.seeds import RunKind
        from tidelog.pipeline.jobs.campaign import CampaignPlan, run_campaign

        plan = CampaignPlan(
            RunKind(tier, scenario, seed_limit),
            wanted,
            seeds_per_task or _SEEDS_PER_TASK.get(tier, 5),
        )
        table = str(out.absolute() / _TABLE)
        with terminal.progress(f"{len(wanted)} seeds, less those run before"):
            found = run_campaign(spark, plan, partial(run_seed, tier, scenario), table)
    report = as_json(found, plan.kind, table, time.monotonic() - begun)
    terminal.print_answer(output, report, lambda: _print(report))
    if found.seeds != len(wanted):
        raise UsageError(
            f"{len(wanted) - found.seeds} of {len(wanted)} seeds were run by other sources "
            f"than these (revision `{found.revision}`)",
            "install the same Tidelog on every worker, leave it alone meanwhile, and run again",
        )
    if found.failed:
        raise BadAnswer


def as_json(found: "Campaign", kind: "RunKind", table: str, seconds: float) -> dict[str, Any]:
    """What `tidelog sim run` reports, and what only a table of runs knows."""
    from tidelog.sim.campaign.seeds import marks_of, replay_command
    from tidelog.sim.campaign.tally import Tally
    from tidelog.sim.report.outcome import Outcome

    tally = Tally(
        seeds=found.seeds,
        failed=[Outcome(one.seed, one.violation) for one in found.failed],
        events=found.sums["events"],
        virtual_ms=found.sums["virtual_ms"],
        acknowledged=found.sums["acknowledged"],
        faults=Counter(found.faults),
        fired=Counter(found.fired),
        marks=Counter(found.marks),
        known_marks=marks_of(kind.tier),
    )
    return {
        **tally.as_json(found.sums["cpu_ms"] / 1000),
        "newly_run": found.newly_run,
        # The name of `newly_run` in 0.1.0; it stays for one release.
        "played": found.newly_run,
        "seconds": round(seconds, 3),
        "revision": found.revision,
        "table": table,
        "violations": [
            {**terminal.plain(one), "replay": replay_command(kind.tier, kind.scenario, one.seed)}
            for one in found.violations
        ],
        "reached": found.marks,
        "healing_ms": terminal.plain(found.healing_ms),
        "election_ms": terminal.plain(found.election_ms),
        "unavailable_ms": terminal.plain(found.unavailable_ms),
        "growth": [terminal.plain(one) for one in found.growth],
    }


def _print(report: dict[str, Any]) -> None:
    rows = [
        (name.replace("_", " "), str(report[name]))
        for name in ("seeds", "newly_run", "events", "acknowledged", "seconds", "cpu_seconds")
    ]
    terminal.print_table("", ("", ""), [*rows, ("failed", str(len(report["failed"])))])
    spreads = [
        (name.removesuffix("_ms"), *report[name].values())
        for name in ("healing_ms", "election_ms", "unavailable_ms")
    ]
    terminal.print_table("ms", ("of", "count", "p50", "p90", "p99", "max"), spreads)
    growth = [tuple(block.values()) for block in report["growth"]]
    terminal.print_table("coverage", ("from seed", "seeds", "new marks", "new signatures"), growth)
    marks = report["marks"]
    never = [(name,) for name in marks["never"]]
    terminal.print_table(f"{marks['hit']} of {marks['total']} marks hit; never:", ("mark",), never)
    for one in report["violations"]:
        terminal.print_line(f"{one['runs']} x {one['violation']}\n  replay: {one['replay']}")
    terminal.print_line(f"table: {report['table']}")
