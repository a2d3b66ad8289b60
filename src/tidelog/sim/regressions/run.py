"""One regression scenario as a run of the simulator: the same report as a seed's."""

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.env.trace import Level
from tidelog.sim.regressions.catalogue import Regression
from tidelog.sim.regressions.testbed import Testbed
from tidelog.sim.report.outcome import Outcome


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
        outcome.events = testbed.event_count
        outcome.virtual_ms = testbed.virtual_ms
        outcome.acknowledged = testbed.acknowledged
        outcome.trace_hash = testbed.trace_hash
        return outcome
