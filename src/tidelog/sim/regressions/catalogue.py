"""All regression scenarios by number, with what their docstrings say, and one as a run of the
simulator: the same report as a seed's.

A docstring is a title, then three marked paragraphs: where the bug was (`Origin`), what happens
(`Case`), what must come of it (`Must`).
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidelog.env.trace import Level
from tidelog.sim.regressions import (
    coordinators,
    devices,
    in_sync,
    late_answers,
    long_turns,
    own_rules,
    producers,
    quorum,
    readers,
    terms,
    transactions,
    truncation,
)
from tidelog.sim.regressions.testbed import Case, Testbed
from tidelog.sim.report.outcome import Outcome

_NAME: Final = re.compile(r"^([rs]\d\d)_(\w+)$")
_PARTS: Final = re.compile(r"^(Origin|Case|Must): ", re.MULTILINE)
_FAMILIES: Final = (
    *(truncation, late_answers, in_sync, terms, devices),
    *(producers, readers, quorum, own_rules, long_turns, transactions, coordinators),
)


@dataclass(frozen=True, slots=True)
class Regression:
    """A scenario of a bug that another log had."""

    number: str
    name: str
    """The function's name, number included."""
    title: str
    origin: str
    case: str
    must: str
    run: Case


def _read(name: str, run: Case) -> Regression:
    text = inspect.getdoc(run) or ""
    title, *rest = _PARTS.split(text)
    parts = dict(zip(rest[::2], rest[1::2], strict=True))
    assert set(parts) == {"Origin", "Case", "Must"}, f"{name} has only {sorted(parts)}"
    origin, case, must = (" ".join(parts[key].split()) for key in ("Origin", "Case", "Must"))
    return Regression(name[:3], name, " ".join(title.split()).rstrip("."), origin, case, must, run)


def _collect() -> dict[str, Regression]:
    found = [
        _read(name, run)
        for family in _FAMILIES
        for name, run in vars(family).items()
        if _NAME.match(name)
    ]
    by_number = {one.number: one for one in sorted(found, key=lambda one: one.number)}
    assert len(by_number) == len(found), "two scenarios have one number"
    return by_number


REGRESSIONS: Final = _collect()
"""By number: `r01`."""


@dataclass(frozen=True, slots=True)
class RegressionOptions:
    """The first line of a replay."""

    regression: Regression

    def describe(self) -> str:
        """One line."""
        one = self.regression
        return f"regression={one.number} title={one.title!r} origin={one.origin!r}"


class RegressionRun:
    """A regression scenario, not begun."""

    def __init__(
        self, regression: Regression, seed: int, *, trace_level: Level = Level.INFO
    ) -> None:
        self.seed = seed
        self.swarm = RegressionOptions(regression)
        # Called with every line of the trace, when the scenario is over.
        self.listeners: list[Callable[[str], None]] = []
        self._regression = regression
        self._testbed = Testbed(seed, trace_level=trace_level)

    def run(self) -> Outcome:
        """Runs the scenario to its end, good or bad."""
        testbed = self._testbed
        outcome = Outcome(self.seed)
        with outcome.judged():
            self._regression.run(testbed)
            testbed.finish()
        for line in testbed.lines:
            for listener in self.listeners:
                listener(line)
        testbed.report(outcome)
        return outcome
