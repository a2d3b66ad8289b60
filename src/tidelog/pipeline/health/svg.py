"""Plots of replication's health as inline SVG: no script, no font, no file beside them.

Colours are classes, which the page's style sheet defines for light and for dark; every mark has a
`<title>`, which browsers show under the pointer and screen readers read. All plots share one time
axis (`Axis`), so that a glance up from a slow commit finds the ISR that shrank above it. Times are
naive UTC, as Spark returns them. The plots do not measure: wall times of several machines are drawn
on one axis, which is as exact as their clocks are.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import Any, Final

Row = Mapping[str, Any]

WIDTH: Final = 1080
LEFT: Final = 150
RIGHT: Final = 64
LANE: Final = 40
_BAR: Final = 26
_NAME: Final = 20
"""Width of a new leader's id; of elections closer together only the first is named."""
_TICKS: Final = 7
_MOST_STATES: Final = 6
"""In the words of a sparkline."""
_STEPS_S: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400)
LEADER_COLOURS: Final = 6
"""Leaders beyond these share the last colour; their labels differ."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Wall time from left to right."""

    first: datetime
    last: datetime

    def x(self, at: datetime) -> float:
        """Where an instant stands; outside of the span, at its border."""
        seconds = max((self.last - self.first).total_seconds(), 1e-6)
        share = (at - self.first).total_seconds() / seconds
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, share))

    def ticks(self) -> list[datetime]:
        """Round instants, at most a few."""
        seconds = (self.last - self.first).total_seconds()
        step = next((one for one in _STEPS_S if seconds / one <= _TICKS), _STEPS_S[-1])
        while seconds / step > _TICKS:
            step *= 2
        begin = self.first.replace(hour=0, minute=0, second=0, microsecond=0)
        number = math.ceil((self.first - begin).total_seconds() / step)
        found = []
        while (at := begin + timedelta(seconds=number * step)) <= self.last:
            found.append(at)
            number += 1
        return found

    def drawn(self, height: float) -> Iterator[str]:
        """Grid lines down to `height`, and their times below."""
        for at in self.ticks():
            x = self.x(at)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height:.0f}"/>'
            yield f'<text class="tick" x="{x:.1f}" y="{height + 16:.0f}">{at:%H:%M:%S}</text>'


def _svg(height: float, label: str, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">\n'
        f"{body}\n</svg>"
    )


def _name(key: tuple[str, int], top: float) -> str:
    return f'<text class="name" x="{LEFT - 12}" y="{top + 25}">{escape(key[0])}-{key[1]}</text>'


STATE_LABELS: Final = {
    "whole": "all replicas in sync",
    "under": "under-replicated",
    "min": "under min ISR",
    "none": "no leader",
}
"""States by their CSS classes."""


def state_of(row: Row, replicas: int) -> str:
    """The class of a partition's state."""
    if row["leader"] is not None and row["leader"] < 0:
        return "none"
    size = len(row["isr"] or ())
    if size < (row["min_isr"] or 1):
        return "min"
    return "under" if size < replicas else "whole"


def isr_timeline(
    lanes: Mapping[tuple[str, int], Sequence[Row]], elections: Sequence[Row], axis: Axis
) -> str:
    """A lane per partition: the ISR's size as height, its state as colour, elections as marks."""
    parts = list(axis.drawn(LANE * len(lanes)))
    for number, (key, rows) in enumerate(lanes.items()):
        top = number * LANE
        marks = [one for one in elections if (one["topic"], one["partition"]) == key]
        parts.append(_name(key, top))
        parts += _lane(rows, top, axis)
        named_from = -1.0
        for one in marks:
            x = axis.x(one["at"])
            parts.append(_mark(one, top, axis, named=x >= named_from))
            named_from = max(named_from, x + _NAME) if x >= named_from else named_from
    return _svg(LANE * len(lanes) + 24, "ISR size of each partition over time", parts)


def _lane(rows: Sequence[Row], top: float, axis: Axis) -> Iterator[str]:
    replicas = max([row["replicas"] or len(row["isr"] or ()) for row in rows] + [1])
    base = top + LANE - 7
    yield f'<line class="base" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>'
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        until = axis.last if following is None else following["at"]
        x, end = axis.x(row["at"]), axis.x(until)
        size = len(row["isr"] or ())
        state = state_of(row, replicas)
        height = max(3.0, _BAR * size / replicas) if state != "none" else _BAR
        label = f"{row['at']:%H:%M:%S} ISR {_ids(row['isr'])} of {replicas}: {STATE_LABELS[state]}"
        if row["cause"]:
            label += f" ({row['cause']})"
        yield (
            f'<rect class="{state}" x="{x:.1f}" y="{base - height:.1f}" '
            f'width="{max(1.0, end - x):.1f}" height="{height:.1f}">'
            f"<title>{escape(label)}</title></rect>"
        )


def sparkline(rows: Sequence[Row], axis: Axis) -> str:
    """The states of a partition as a bar of the height of a line of text."""
    replicas = max([row["replicas"] or len(row["isr"] or ()) for row in rows] + [1])
    seconds = max((axis.last - axis.first).total_seconds(), 1e-6)
    parts: list[str] = []
    names: list[str] = []
    ends = [*(row["at"] for row in rows[1:]), axis.last]
    for row, until in zip(rows, ends, strict=False):
        x, end = (100 * (at - axis.first).total_seconds() / seconds for at in (row["at"], until))
        state = state_of(row, replicas)
        if names[-1:] != [state]:
            names.append(state)
        parts.append(
            f'<rect class="{state}" x="{x:.1f}" y="0" width="{max(0.7, end - x):.1f}" height="10"/>'
        )
    label = ", then ".join(STATE_LABELS[name] for name in names[:_MOST_STATES])
    return (
        f'<svg class="spark" viewBox="0 0 100 10" role="img" preserveAspectRatio="none">'
        f"<title>{label or 'no change'}</title>{''.join(parts)}</svg>"
    )


def _ids(isr: Sequence[int] | None) -> str:
    return ",".join(map(str, isr or ())) or "empty"


def _mark(election: Row, top: float, axis: Axis, *, named: bool) -> str:
    x, y = axis.x(election["at"]), top + 4
    new = election["new_leader"]
    took = election["election_ms"]
    label = (
        f"{election['at']:%H:%M:%S} epoch {election['leader_epoch']}: leader "
        f"{election['old_leader']} → {'none' if new < 0 else new} ({election['cause']})"
    )
    if took is not None:
        label += f", first commit after {took:.0f} ms"
    shape = "unclean" if election["unclean"] else "elected"
    name = f'<text x="{x + 7:.1f}" y="{y + 5:.0f}">{"x" if new < 0 else new}</text>'
    return (
        f'<g class="{shape}"><title>{escape(label)}</title>'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 5:.0f}" y2="{top + LANE - 7}"/>'
        f'<path d="M{x - 5:.1f},{y - 2:.0f} h10 l-5,8 z"/>'
        f"{name if named else ''}</g>"
    )


_PLOT: Final = 220


def latency_chart(line: Sequence[Row], axis: Axis) -> str:
    """p50 (solid) and p99 (dashed) of commits, a colour per leader, on a logarithmic scale."""
    values = [row[name] for row in line for name in ("p50_ms", "p99_ms") if row[name] > 0]
    low = 10 ** math.floor(math.log10(min(values, default=0.1)))
    high = 10 ** math.ceil(math.log10(max(values, default=1.0)) + 1e-9)
    high = max(high, low * 10)

    def y(value: float) -> float:
        share = math.log10(max(value, low) / low) / math.log10(high / low)
        return _PLOT - 8 - (_PLOT - 24) * share

    parts = list(axis.drawn(_PLOT))
    decade = low
    while decade <= high * 1.001:
        label = f"{decade:g} ms" if decade < 1000 else f"{decade / 1000:g} s"
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(decade):.1f}" '
            f'y2="{y(decade):.1f}"/>'
            f'<text class="name" x="{LEFT - 12}" y="{y(decade) + 4:.1f}">{label}</text>'
        )
        decade *= 10
    for number, leader in enumerate(sorted({row["leader"] for row in line})):
        rows = [row for row in line if row["leader"] == leader]
        colour = f"c{min(number, LEADER_COLOURS - 1)}"
        for name, style in (("p50_ms", "p50"), ("p99_ms", "p99")):
            points = [(axis.x(row["at"]), y(row[name])) for row in rows]
            parts.append(_polyline(points, f"{colour} {style}", f"leader {leader} {style}"))
        x, end = axis.x(rows[-1]["at"]), y(rows[-1]["p50_ms"])
        parts.append(
            f'<text class="{colour} label" x="{x + 6:.1f}" y="{end + 4:.1f}">b{leader}</text>'
        )
    return _svg(_PLOT + 24, "Commit latency of each leader over time", parts)


def _polyline(points: Sequence[tuple[float, float]], style: str, label: str) -> str:
    if len(points) == 1:
        ((x, y),) = points
        dot = f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">'
        return f"{dot}<title>{escape(label)}</title></circle>"
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{style}" points="{path}"><title>{escape(label)}</title></polyline>'


def span_lanes(spans: Sequence[Row], axis: Axis, lanes: Sequence[tuple[str, int]]) -> str:
    """Stalls and windows without a leader, a lane per partition, the cause beside each."""
    parts = list(axis.drawn(LANE * len(lanes)))
    for number, key in enumerate(lanes):
        top = number * LANE
        parts.append(_name(key, top))
        own = (one for one in spans if (one["topic"], one["partition"]) == key)
        parts += [_span(span, top, axis) for span in own]
    return _svg(LANE * len(lanes) + 24, "Stalls and unavailability over time", parts)


def _span(span: Row, top: float, axis: Axis) -> str:
    x = axis.x(span["start"])
    end = axis.x(span["end"] or axis.last)
    row = 0 if span["kind"] == "unavailable" else 1
    took = span["duration_ms"]
    length = "open" if span["end"] is None else "?" if took is None else f"{took:,.0f} ms"
    label = f"{span['start']:%H:%M:%S} {span['kind'].replace('_', ' ')}, {length}: {span['cause']}"
    return (
        f'<rect class="{span["kind"]}" x="{x:.1f}" y="{top + 8 + 13 * row}" rx="3" '
        f'width="{max(3.0, end - x):.1f}" height="11"><title>{escape(label)}</title></rect>'
    )
