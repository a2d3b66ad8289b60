"""The figures of one run of `spark health`, as plain rows: what tables, JSON and the page show.

No Spark import, because showing figures does not need it.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

Rows = list[dict[str, Any]]


@dataclass(slots=True)
class Health:
    """All figures of one run, each table a list of rows."""

    events: int
    brokers: list[int]
    first: datetime | None
    last: datetime | None
    """Wall times of the first and the last event."""
    conditions: Rows
    intervals: Rows
    unavailability: Rows
    elections: Rows
    latency: Rows
    followers: Rows
    flaps: Rows
    timeline: Rows = field(default_factory=list)
    """ISR and leader of each partition as they changed, for plots."""
    latency_line: Rows = field(default_factory=list)
    """Quantiles of commits by leader and slice of time, for plots."""

    @property
    def open_now(self) -> Rows:
        """Conditions that held at the last event."""
        return [row for row in self.intervals if row["end"] is None]


TABLES: Final = (
    "conditions", "intervals", "unavailability", "elections", "latency", "followers", "flaps"
)  # fmt: skip
"""The tables of `Health`, in the order in which people read them."""


def leader_name(node_id: int) -> str:
    return "none" if node_id < 0 else str(node_id)
