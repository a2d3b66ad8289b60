"""Determinism of the simulator, tried on one seed in a hundred: run once more, in a new process
whose strings hash in another way, it must have the same trace hash."""

import json
import os
import subprocess
import sys
from typing import Final

from tidelog.sim.report.outcome import Outcome

TWICE: Final = 100
"""One seed in so many is run twice."""
NAME: Final = "Determinism"


def is_due(outcome: Outcome) -> bool:
    """Whether a run is one of those. What failed by itself need not run again."""
    return outcome.seed % TWICE == 0 and outcome.violated in (None, NAME)


def run_again(tier: str, scenario: str, outcome: Outcome) -> None:
    """Makes it a failure if the other process sees another run."""
    if hash_elsewhere(tier, scenario, outcome.seed) != outcome.trace_hash:
        outcome.violation = f"{NAME}: another order of hashes gives another run"


def hash_elsewhere(tier: str, scenario: str, seed: int) -> str:
    """The trace hash of a seed in a new process."""
    command = [sys.executable, "-m", "tidelog.cli.main", "sim", "replay", str(seed)]
    done = subprocess.run(
        [*command, "--tier", tier, "--scenario", scenario, "--output", "json"],
        env={**os.environ, "PYTHONHASHSEED": _another_hash_seed(seed)},
        capture_output=True,
        check=False,
        text=True,
    )
    if not done.stdout:
        # Neither clean nor failed: it did not run.
        done.check_returncode()
    found: str = json.loads(done.stdout)["trace_hash"]
    return found


def _another_hash_seed(seed: int) -> str:
    own = os.environ.get("PYTHONHASHSEED", "")
    first = 1 + seed % 1000
    return str(first + 1 if own == str(first) else first)
