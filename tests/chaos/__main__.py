"""Rounds of chaos until the time is over: `python -m tests.chaos --minutes 15`, `make chaos`.

Each round has a seed of its own, three or five nodes by turns, and a schedule of so many steps. A
round that has begun is ended, and judged while the next one runs. Exit code 1 when any round found
anything.
"""

import argparse
import json
import os
import platform
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos.kinds import Kinds, mixed_kinds, parse_kinds
from tests.chaos.rig import RATES, Judge, Plan, Round, complaint, result_line


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description="Faults on real nodes under checked clients."
    )
    parser.add_argument("--minutes", type=float, default=15, help="begin no round after this")
    parser.add_argument("--rounds", type=int, default=0, help="at most this many (0: no limit)")
    parser.add_argument(
        "--seed",
        type=int,
        default=secrets.randbelow(2**31),
        help="of the first round; then it counts up; a fresh one by default",
    )
    parser.add_argument("--brokers", type=int, choices=(3, 5), help="default: by turns")
    parser.add_argument(
        "--kinds",
        type=kinds_of_seeds,
        default=no_kinds,
        metavar="KIND,KIND,KIND",
        help="`tidelog` or `kafka` for each of three nodes, or `mixed`: two and one by turns",
    )
    parser.add_argument(
        "--secure",
        action="store_true",
        help="TLS and logins; certificates, password, rights change",
    )
    parser.add_argument("--steps", type=int, default=40, help="of each round's schedule")
    parser.add_argument("--speed", type=float, default=1.0, help="factor on all producers' rates")
    parser.add_argument("--base-port", type=int, help="default: free ports")
    parser.add_argument("--keep", type=Path, default=Path("build/chaos"), help="where bundles go")
    parser.add_argument("--json", type=Path, help="write the result here as well")
    options = parser.parse_args()
    if options.secure and options.kinds is not no_kinds:
        parser.error("--secure goes with nodes of Tidelog alone")
    return options


def no_kinds(seed: int) -> Kinds:
    """Every node is one of Tidelog."""
    return ()


def kinds_of_seeds(text: str) -> Callable[[int], Kinds]:
    """The nodes' kinds by the round's seed."""
    kinds = () if text == "mixed" else parse_kinds(text)
    if text != "mixed" and len(kinds) != 3:
        raise ValueError(text)
    return lambda seed: kinds or mixed_kinds(seed)


def total(results: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """All rounds together."""
    faults: Counter[str] = Counter()
    for result in results:
        faults.update(result["faults"])
    return {
        "rounds": len(results),
        "failed_seeds": [r["seed"] for r in results if r["anomalies"]],
        "seconds": round(seconds),
        "faults": sum(faults.values()),
        "faults_by_kind": dict(sorted(faults.items())),
        "acknowledged": sum(r["acknowledged"] for r in results),
        "copied_in_transactions": sum(r.get("copied_in_transactions", 0) for r in results),
        "records_gone": sum(r.get("records_gone", 0) for r in results),
        "acknowledged_by_leader": sum(r.get("acknowledged_by_leader", 0) for r in results),
        "anomalies": sum(r["anomalies"] for r in results),
        "longest_gap_ms": max((r.get("longest_gap_ms", 0) for r in results), default=0),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "python": platform.python_version(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All rounds; prints a line for each."""
    deadline = time.monotonic() + options.minutes * 60
    results: list[dict[str, Any]] = []
    pending: Judge | None = None

    def take(judge: Judge | None) -> None:
        if judge is not None:
            results.append(judge.verdict(options.keep))
            print(result_line(results[-1]), flush=True)
            if results[-1]["anomalies"]:
                print(complaint(results[-1]), flush=True)

    number = 0
    with tempfile.TemporaryDirectory(prefix="chaos-") as scratch:
        while time.monotonic() < deadline and (not options.rounds or number < options.rounds):
            seed = options.seed + number
            kinds = options.kinds(seed)
            plan = Plan(
                seed,
                len(kinds) or options.brokers or (5 if seed % 3 == 0 else 3),
                options.steps,
                rates={role: int(rate * options.speed) for role, rate in RATES.items()},
                base_port=options.base_port,
                secure=options.secure,
                kinds=kinds,
            )
            directory = Path(scratch) / f"seed-{seed}"
            facts = Round(plan, directory).run()
            take(pending)
            pending = Judge(directory, facts)
            number += 1
        take(pending)
    return results


def main() -> int:
    """Runs, prints the sum, and writes it."""
    options = arguments()
    started = time.monotonic()
    results = run(options)
    summary = total(results, time.monotonic() - started)
    print(json.dumps(summary))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**summary, "results": results}, indent=1) + "\n")
    return 1 if summary["anomalies"] else 0


if __name__ == "__main__":
    sys.exit(main())
