"""Partitions in the order of what was wrong with them, so that a person with a thousand of them
begins at the right one.

The order is that of what users notice: time without a serving leader, time under min ISR, commits
that stood still, time under-replicated, elections. What is not over counts to the last event.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidelog.pipeline.health.figures import Health

KINDS: Final = ("unavailable", "under_min_isr", "hw_stalled", "under_replicated")
"""The worst first."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What was wrong with one partition."""

    topic: str
    partition: int
    ms: Mapping[str, float]
    """By kind: how long."""
    elections: int
    is_wrong_now: bool
    """Whether something was wrong at the last event."""
    timeline: Sequence[Mapping[str, Any]]

    @property
    def order(self) -> tuple[object, ...]:
        """What sorts the worst first."""
        times = (-self.ms.get(kind, 0.0) for kind in KINDS)
        return (*times, -self.elections, self.topic, self.partition)

    @property
    def is_quiet(self) -> bool:
        return not self.ms and not self.elections


def worst_first(found: Health) -> list[Trouble]:
    """Every partition of which there is an event."""
    timelines: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for row in found.timeline:
        timelines[row["topic"], row["partition"]].append(row)
    ms: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    wrong_now = set()
    others = [row for row in found.intervals if row["kind"] != "unavailable"]
    for row in (*found.unavailability, *others):
        place = row["topic"], row["partition"]
        known = ms[place].get(row["kind"], 0.0)
        ms[place][row["kind"]] = known + _lasted_ms(row, found)
        if row["end"] is None:
            wrong_now.add(place)
    elections = Counter((row["topic"], row["partition"]) for row in found.elections)
    places = timelines.keys() | ms.keys() | elections.keys()
    troubles = []
    for topic, number in places:
        place = topic, number
        trouble = Trouble(
            topic,
            number,
            ms.get(place, {}),
            elections[place],
            place in wrong_now,
            timelines.get(place, ()),
        )
        troubles.append(trouble)
    return sorted(troubles, key=lambda one: one.order)


def _lasted_ms(row: Mapping[str, Any], found: Health) -> float:
    if row["duration_ms"] is not None:
        return float(row["duration_ms"])
    until = row["end"] or found.last
    return 0.0 if until is None else max((until - row["start"]).total_seconds() * 1000, 0.0)
