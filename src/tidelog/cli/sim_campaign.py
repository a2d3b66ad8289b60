"""`tidelog sim campaign`: seeds without end, added up by commit in a results file.

Each round runs new seeds of both tiers, and runs one in a hundred a second time, in another
process with another order of hashes: both must have the same trace hash. The seeds count up from a
random one: what has been run before says little. The file is replaced after each round, so a
campaign may be ended at any time and goes on where it was.
"""

import json
import secrets
import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from tidelog.cli.arguments import option
from tidelog.cli.sim import Jobs, in_processes, timed
from tidelog.cli.terminal import TABLE, BadAnswer, Output, print_answer, print_table, progress
from tidelog.errors import UsageError

COUNTS: Final = ("faults", "fired", "marks")


def campaign(
    results: Annotated[Path, option("--results", "Where the sums are kept.", "FILE")] = Path(
        "build/campaign.json"
    ),
    rounds: Annotated[int, option("--rounds", "0: until interrupted.", "N", min=0)] = 0,
    cluster: Annotated[int, option("--cluster", "Cluster seeds a round.", "N", min=0)] = 50,
    quorum: Annotated[int, option("--quorum", "Quorum seeds a round.", "N", min=0)] = 500,
    first: Annotated[
        int | None, option("--first", "Of a new campaign; a random one by default.", "SEED", min=0)
    ] = None,
    jobs: Jobs = 1,
    output: Output = TABLE,
) -> None:
    """Run ever more seeds and add them up; exit code 1 if any failed at this commit."""
    if not cluster and not quorum:
        raise UsageError("there are no seeds in a round", "give `--cluster N` or `--quorum N`")
    book = _read(results)
    if first is None:
        first = secrets.randbelow(1 << 31)
    entry = _entry(book, first)
    done = 0
    try:
        while rounds == 0 or done < rounds:
            for tier, count in (("cluster", cluster), ("quorum", quorum)):
                _run_round(entry[tier], tier, count, jobs)
                _write(results, book)
            done += 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: the rounds that ended are kept\n")
        entry = _entry(_read(results), first)
    print_answer(output, entry, lambda: _print(entry))
    if any(entry[tier]["failed"] for tier in entry):
        raise BadAnswer


def _read(results: Path) -> dict[str, Any]:
    """The sums by commit; raises `UsageError` for a file that has none."""
    try:
        book = dict(json.loads(results.read_text())) if results.exists() else {}
    except (OSError, TypeError, ValueError) as error:
        raise UsageError(
            f"`{results}` holds no sums of campaigns: {error}", "name another file with `--results`"
        ) from None
    return book


def _entry(book: dict[str, Any], first: int) -> dict[str, Any]:
    """The sums of this commit, in the book from now on. A new campaign begins at seed `first`."""
    blank = {tier: _blank(first) for tier in ("cluster", "quorum")}
    entry: dict[str, Any] = book.setdefault(_commit(), blank)
    return entry


def _blank(first: int) -> dict[str, Any]:
    sums = {"first": first, **dict.fromkeys(("seeds", "events", "acknowledged", "twice"), 0)}
    counts: dict[str, dict[str, int]] = {name: {} for name in COUNTS}
    return {**sums, "virtual_s": 0.0, "cpu_s": 0.0, "failed": [], **counts}


def _run_round(sums: dict[str, Any], tier: str, count: int, jobs: int) -> None:
    from tidelog.sim.campaign.seeds import replay_command

    if not count:
        return
    # Campaigns of 0.1.0 and before began at 0.
    first: int = sums.get("first", 0) + sums["seeds"]
    wanted = range(first, first + count)
    sys.stderr.write(f"{count} {tier} seeds from {first}\n")
    with progress("a round"):
        for outcome, cpu_s in in_processes(jobs, partial(timed, tier, "all"), wanted):
            _add(sums, outcome, cpu_s)
            if outcome.violation is not None:
                sys.stderr.write(
                    f"{tier} seed {outcome.seed} failed: {outcome.violation}\n"
                    f"  replay: {replay_command(tier, 'all', outcome.seed)}\n"
                )


def _add(sums: dict[str, Any], outcome: Any, cpu_s: float) -> None:
    from tidelog.cli.sim_twice import is_due

    sums["seeds"] += 1
    sums["twice"] += is_due(outcome)
    sums["events"] += outcome.events
    sums["acknowledged"] += outcome.acknowledged
    sums["virtual_s"] += outcome.virtual_ms / 1000
    sums["cpu_s"] += cpu_s
    if outcome.violation is not None:
        sums["failed"].append({"seed": outcome.seed, "violation": outcome.violation})
    for name in COUNTS:
        sums[name] = dict(sorted((Counter(sums[name]) + Counter(getattr(outcome, name))).items()))


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        check=False,
        text=True,
    )
    return done.stdout.strip() or "unknown"


def _write(path: Path, book: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump(book, file, indent=1)
    Path(file.name).replace(path)


def _print(entry: dict[str, Any]) -> None:
    from tidelog.sim.campaign.seeds import marks_of, replay_command

    rows = []
    for tier, sums in entry.items():
        ratio = sums["virtual_s"] / sums["cpu_s"] if sums["cpu_s"] else 0.0
        faults = sum(sums["faults"].values())
        failed = len(sums["failed"])
        rows.append((tier, sums["seeds"], failed, faults, sums["acknowledged"], f"{ratio:.1f}"))
    columns = ("tier", "seeds", "failed", "faults", "acknowledged", "virtual : cpu")
    print_table("this commit", columns, rows)
    for tier, sums in entry.items():
        if not sums["seeds"]:
            continue
        known, hit = marks_of(tier), sums["marks"]
        never = [(name,) for name in sorted(known - set(hit))]
        title = f"{tier}: {len(known) - len(never)} of {len(known)} marks hit; never:"
        print_table(title, ("mark",), never)
    failures = [
        (tier, failed["violation"], replay_command(tier, "all", failed["seed"]))
        for tier, sums in entry.items()
        for failed in sums["failed"]
    ]
    if failures:
        print_table("failed", ("tier", "violation", "replay"), failures)
