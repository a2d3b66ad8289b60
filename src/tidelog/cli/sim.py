"""`tidelog sim …`: whole clusters in virtual time, seed by seed."""

import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from multiprocessing.process import BaseProcess
from typing import Annotated, Any, Final, Self, TypeVar

from tidelog.cli import terminal
from tidelog.cli.arguments import argument, command, command_group, option
from tidelog.cli.terminal import TABLE, BadAnswer, Output
from tidelog.errors import UsageError

sim_app = command_group(
    "Simulate clusters under faults: the production node, virtual time, one seed a run.",
    "sim run --seeds 1:100 --jobs 2",
)

Tier = Annotated[str, option("--tier", "`cluster`: whole nodes; `quorum`: voters.", "TIER")]
Scenario = Annotated[str, option("--scenario", "A family of runs; see `tidelog sim list`.", "NAME")]
Jobs = Annotated[int, option("--jobs", "Processes.", "N", min=1, max=256)]
_INTERRUPTIONS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AHEAD: Final = 64
"""So many runs a process are handed out before the first result is taken."""
Item = TypeVar("Item")
Result = TypeVar("Result")


@command(sim_app, "run", "sim run --seeds 1:100 --scenario power-cuts --output json")
def run(
    seeds: Annotated[str, option("--seeds", "From A up to, without, B; or one seed.", "A:B")],
    scenario: Scenario = "all",
    tier: Tier = "cluster",
    jobs: Jobs = 1,
    output: Output = TABLE,
) -> None:
    """Run seeds and judge them; exit code 1 if any failed."""
    from tidelog.sim.campaign.seeds import marks_of, prepare, replay_command
    from tidelog.sim.campaign.tally import Tally

    wanted = seed_range(seeds)
    prepare(tier, scenario, wanted[0])
    tally = Tally(known_marks=marks_of(tier))
    cpu_seconds = 0.0
    with terminal.progress(f"{len(wanted)} seeds"):
        for outcome, cpu_s in in_processes(jobs, partial(timed, tier, scenario), wanted):
            tally.add(outcome)
            cpu_seconds += cpu_s
            if outcome.violation is not None:
                sys.stderr.write(
                    f"seed {outcome.seed} failed: {outcome.violation}\n"
                    f"  replay: {replay_command(tier, scenario, outcome.seed)}\n"
                )
    report = tally.as_json(cpu_seconds)
    terminal.print_answer(output, report, lambda: _print_report(report, tally.slowest_heal_ms))
    if tally.failed:
        raise BadAnswer


def seed_range(text: str) -> range:
    """`A:B` or `A`. Raises `UsageError`."""
    first, separator, end = text.partition(":")
    if not first.isdecimal() or (separator and not end.isdecimal()):
        raise UsageError(f"`{text}` is not a range of seeds", "write it as `1:100`, or as one seed")
    found = range(int(first), int(end) if separator else int(first) + 1)
    if not found:
        raise UsageError(f"there are no seeds in `{text}`", "the second number is the larger one")
    return found


def in_processes(
    jobs: int, run_one: Callable[[Item], Result], wanted: Iterable[Item]
) -> Generator[Result, None, None]:
    """The results in the order of what is wanted. An interruption does not wait for those that
    are being computed. Main thread only."""
    if jobs == 1:
        yield from map(run_one, wanted)
        return
    items = iter(wanted)
    with (
        _Interruption() as interruption,
        ProcessPoolExecutor(jobs, initializer=_leave_interruptions_to_the_parent) as pool,
    ):
        # Not `pool.map`: it cancels what is left, and a pool that breaks then prints a stack trace.
        try:
            futures = deque(pool.submit(run_one, one) for one in islice(items, jobs * _AHEAD))
            while futures:
                result = futures.popleft().result()
                interruption.check()
                futures.extend(pool.submit(run_one, one) for one in islice(items, 1))
                yield result
        except BaseException:
            _kill_workers()
            interruption.check()
            raise


class _Interruption:
    """While it is entered, an interruption ends the workers and is raised by `check`. Raised
    wherever the main thread is, it would leave a lock of the pool taken now and then, for which the
    pool then waits without end."""

    def __init__(self) -> None:
        self._has_come = False
        # What the signals did before.
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in _INTERRUPTIONS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._come)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _come(self, *_: object) -> None:
        self._has_come = True
        _kill_workers()

    def check(self) -> None:
        """Raises `KeyboardInterrupt` if there was one."""
        if self._has_come:
            raise KeyboardInterrupt


def _kill_workers() -> None:
    for process in multiprocessing.active_children():
        _kill_with_children(process)


def _kill_with_children(process: BaseProcess) -> None:
    assert process.pid is not None, "a process that was not started"
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # It may not have had the time to make its group.
    process.kill()


def _leave_interruptions_to_the_parent() -> None:
    os.setpgrp()
    for number in _INTERRUPTIONS:
        signal.signal(number, signal.SIG_IGN)


def timed(tier: str, scenario: str, seed: int) -> tuple[Any, float]:
    """The outcome of a seed, one in a hundred run twice, and the CPU seconds of the first."""
    from tidelog.cli import sim_twice
    from tidelog.sim.campaign.seeds import run_seed

    begun = time.process_time()
    outcome = run_seed(tier, scenario, seed)
    cpu_s = time.process_time() - begun
    if sim_twice.is_due(outcome):
        sim_twice.run_again(tier, scenario, outcome)
    return outcome, cpu_s


def _print_report(report: dict[str, Any], slowest_heal_ms: int) -> None:
    cpu_s = report["cpu_seconds"]
    ratio = report["virtual_seconds"] / cpu_s if cpu_s else 0.0
    rows = [
        ("seeds", report["seeds"]),
        ("failed", len(report["failed"])),
        ("events", report["events"]),
        ("virtual seconds", f"{report['virtual_seconds']:.0f}"),
        ("cpu seconds", f"{cpu_s:.1f}"),
        ("virtual per cpu second", f"{ratio:.1f}"),
        ("acknowledged", report["acknowledged"]),
        ("slowest healing", f"{slowest_heal_ms} ms"),
    ]
    terminal.print_table("", ("", ""), rows)
    fired = report["fired"]
    kinds = [(kind, times, fired.get(kind, 0)) for kind, times in report["faults"].items()]
    terminal.print_table("faults", ("kind", "struck", "mattered"), kinds)
    marks = report["marks"]
    if marks["hit"]:
        never = [(name,) for name in marks["never"]]
        terminal.print_table(
            f"{marks['hit']} of {marks['total']} marks hit; never:", ("mark",), never
        )


@command(sim_app, "replay", "sim replay 4711 --trace")
def replay(
    seed: Annotated[int, argument("SEED", min=0)],
    scenario: Scenario = "all",
    tier: Tier = "cluster",
    trace: Annotated[
        bool, option("--trace", "Print what every node decided, line by line.")
    ] = False,
    output: Output = TABLE,
) -> None:
    """Run one seed again, exactly; exit code 1 if it fails."""
    from tidelog.sim.campaign.seeds import prepare

    one = prepare(tier, scenario, seed)
    as_table = output is TABLE
    if as_table:
        terminal.print_line(f"options {one.swarm.describe()}")
    if trace:
        # stdout carries the answer and nothing else where a script reads it.
        one.listeners.append(terminal.print_line if as_table else terminal.print_aside)
    outcome = one.run()
    if as_table:
        verdict = "clean" if outcome.violation is None else f"failed: {outcome.violation}"
        terminal.print_line(f"seed {seed} {verdict}")
        terminal.print_line(
            f"events {outcome.events} virtual_ms {outcome.virtual_ms} "
            f"acknowledged {outcome.acknowledged} trace_hash {outcome.trace_hash}"
        )
    else:
        terminal.print_json(
            {
                "seed": seed,
                "options": one.swarm.describe(),
                "property": outcome.violated,
                "violation": outcome.violation,
                "events": outcome.events,
                "virtual_ms": outcome.virtual_ms,
                "acknowledged": outcome.acknowledged,
                "faults": dict(sorted(outcome.faults.items())),
                "trace_hash": outcome.trace_hash,
            }
        )
    if outcome.violation is not None:
        raise BadAnswer


@command(sim_app, "ablate", "sim ablate --only divergence --output json")
def ablate(
    only: Annotated[
        list[str] | None, option("--only", "A safeguard; may be given many times.", "NAME")
    ] = None,
    seeds: Annotated[int, option("--seeds", "Seeds at most for each.", "N", min=1)] = 60,
    jobs: Jobs = 1,
    output: Output = TABLE,
) -> None:
    """Switch safeguards off, one by one; exit code 1 if no checker misses one."""
    from tidelog.sim.ablations import SAFEGUARDS

    wanted = [one.name for one in SAFEGUARDS if not only or one.name in only]
    unknown = set(only or ()) - set(wanted)
    if unknown:
        raise UsageError(
            f"there is no safeguard `{min(unknown)}`",
            f"use one of {', '.join(one.name for one in SAFEGUARDS)}",
        )
    with terminal.progress(f"without {len(wanted)} safeguards"):
        rows = list(in_processes(jobs, partial(_run_without, seeds), wanted))
    survivors = [row[0] for row in rows if row[-1] is None]
    killed = len(rows) - len(survivors)
    terminal.print_rows(
        output,
        {"total": len(rows), "killed": killed, "survivors": survivors},
        ("safeguard", "prevents", "run", "seeds to kill", "what complains"),
        [(*row[:-1], row[-1] or "SURVIVED") for row in rows],
    )
    if survivors:
        raise BadAnswer


def _run_without(seeds: int, name: str) -> tuple[str, str, str, int, str | None]:
    """One row of the kill table; the last column is empty for a survivor."""
    from tidelog.sim.ablations import SAFEGUARDS, ablate

    (safeguard,) = (one for one in SAFEGUARDS if one.name == name)
    kill = ablate(safeguard, range(1, seeds + 1))
    what = safeguard.scenario if safeguard.scenario != "all" else safeguard.tier
    return name, safeguard.prevents, what, kill.seeds, kill.violated


@command(sim_app, "regressions", "sim regressions --only r10")
def regressions(
    only: Annotated[
        list[str] | None, option("--only", "A scenario; may be given many times.", "NUMBER")
    ] = None,
    output: Output = TABLE,
) -> None:
    """Run the scenarios of bugs that other logs had; exit code 1 if one goes wrong."""
    from tidelog.sim.campaign.seeds import REGRESSION, run_seed
    from tidelog.sim.regressions.catalogue import REGRESSIONS

    unknown = set(only or ()) - set(REGRESSIONS)
    if unknown:
        raise UsageError(
            f"there is no regression scenario `{min(unknown)}`",
            f"use one of {', '.join(REGRESSIONS)}",
        )
    failed, rows = [], []
    for number, one in REGRESSIONS.items():
        if not only or number in only:
            violation = run_seed(REGRESSION, number, 1).violation
            rows.append((number, one.title, one.origin, violation or "well"))
            if violation is not None:
                failed.append({"scenario": number, "violation": violation})
    columns = ("scenario", "what must hold", "origin", "result")
    terminal.print_rows(output, {"total": len(rows), "failed": failed}, columns, rows)
    if failed:
        raise BadAnswer


@command(sim_app, "list", "sim list --output json")
def list_(output: Output = TABLE) -> None:
    """Name the scenarios of the cluster tier, and the regression scenarios."""
    from tidelog.sim.regressions.catalogue import REGRESSIONS
    from tidelog.sim.scenarios.families import names

    found = {**names(), **{one.number: one.title for one in REGRESSIONS.values()}}
    terminal.print_rows(output, found, ("scenario", "what it is about"), list(found.items()))


@command(sim_app, "sweep", "sim sweep --jobs 2 --output json")
def sweep(
    every: Annotated[int, option("--every", "Only each N-th point.", "N", min=1)] = 1,
    first: Annotated[int, option("--first", "From this one on.", "N", min=0)] = 0,
    jobs: Jobs = 1,
    output: Output = TABLE,
) -> None:
    """End a process at every write, flush and rename of a scripted run; exit code 1 if one of these
    runs loses anything."""
    from tidelog.sim.runs.crash_points import Sweep, points, run_point

    all_points = points()
    if first >= len(all_points):
        raise UsageError(f"there is no point `{first}`", f"the last one is {len(all_points) - 1}")
    wanted = all_points[first::every]
    done = Sweep()
    with terminal.progress(f"{len(wanted)} points"):
        for point, outcome in zip(wanted, in_processes(jobs, run_point, wanted), strict=True):
            done.add(point, outcome)
            if outcome.violation is not None:
                sys.stderr.write(f"point {point} failed: {outcome.violation}\n")
    report = done.as_json()
    endings = {**done.endings, "survived": report["survived"]}
    terminal.print_rows(
        output, report, ("ending", "points"), [(name, str(endings[name])) for name in endings]
    )
    if done.failed:
        raise BadAnswer
