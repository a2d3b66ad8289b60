"""The sum of many outcomes, and the report that is made of it."""

from collections import Counter
from dataclasses import dataclass, field

from tidelog.sim.report.marks import MARKS
from tidelog.sim.report.outcome import Outcome


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
