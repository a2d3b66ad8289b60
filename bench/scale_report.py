"""What `bench.scale` measured, as a page of `docs/results` and a picture beside it.

    python -m bench.scale_report build/scale.json docs/results

The page has a row for each figure and a column for each system and size, with the goal where the
project set one. The picture has a panel for each of the main figures: partitions to the right,
the figure upwards, both on logarithmic scales, a line for each system.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

FIGURES: Final[Mapping[str, tuple[str, str]]] = {
    "file_us": ("a new file on that disk (us)", ""),
    "create_error": ("CreateTopics: error", "NONE"),
    "answered_s": ("CreateTopics answered (s)", "<= 1 at 3,000"),
    "led_s": ("all partitions led with full ISR, their logs on all nodes (s)", "<= 5 at 3,000"),
    "led_p99_ms": ("p99 of other topics' acknowledgements until then (ms)", "<= 50"),
    "create_s": ("a record acknowledged in each partition as well (s)", ""),
    "create_p99_ms": ("p99 of other topics' acknowledgements until then (ms)", ""),
    "idle_cpu_percent": ("CPU of an idle node (% of a core)", "<= 5 at 10,000"),
    "memory_mb": ("memory of a node (MB)", "<= 200 at 10,000"),
    "idle_clients_cpu_percent": ("CPU of all nodes with 1, 100, 1,000 idle clients (%)", ""),
    "busy_clients_us": ("CPU for a request of 1, 100, 1,000 busy clients (us)", ""),
    "consumer_unchanged_us": ("CPU for a consumer's fetch of 1,000 partitions, none new (us)", ""),
    "consumer_changed_us": ("the same, one new (us)", ""),
    "one_busy_partition_us": ("CPU of all nodes for a record, acks=all, one partition (us)", ""),
    "gap_least_s": ("kill -9 of a broker: shortest gap of 60 partitions (s)", ""),
    "gap_median_s": ("median gap (s)", "<= 1 at 10,000"),
    "gap_longest_s": ("longest gap (s)", "<= 2 at 10,000"),
    "controller_gap_median_s": ("kill -9 of the active controller: median gap (s)", ""),
    "controller_gap_longest_s": ("longest gap (s)", ""),
    "restart_after_kill_full_s": ("restart after kill -9 to full ISR (s)", "<= 10 at 10,000"),
    "stop_s": ("clean stop (s)", ""),
    "restart_full_s": ("restart after a clean stop to full ISR (s)", "<= 5 at 10,000"),
    "quiet_restart_full_s": ("the same while no client writes (s)", "<= 5 at 10,000"),
    "elect_s": ("preferred leaders everywhere (s)", ""),
    "reassign_s": ("1,000 partitions lose a replica and get it back (s)", ""),
    "delete_answered_s": ("DeleteTopics answered (s)", ""),
    "delete_s": ("all logs gone (s; Kafka: as answered)", ""),
    "delete_p99_ms": ("p99 of other topics' acknowledgements meanwhile (ms)", "<= 50"),
    "epochs": ("epochs that the quorum spent in all steps", "0"),
    "turn_ms": ("longest turn of a node in all steps (ms)", "<= 50"),
    "turn_cpu_ms": ("the most that a turn of a node worked in all steps (ms of CPU)", "<= 50"),
    "long_turns": ("turns above 50 ms in all steps, all nodes", "0"),
    "slowest_steps_ms": ("the longest steps of turns (ms)", ""),
}
PANELS: Final = (
    "create_s",
    "gap_median_s",
    "restart_after_kill_full_s",
    "delete_p99_ms",
    "memory_mb",
    "idle_cpu_percent",
)
COLOURS: Final = {"tidelog": "#0b6e99", "kafka": "#b5651d"}
WIDTH: Final = 260
HEIGHT: Final = 190
MARGIN: Final = 34


def page(data: Mapping[str, Any], picture: str) -> str:
    """The page, in Markdown."""
    rows = [summed(row) for row in data["rows"]]
    heads = [f"{row['system']} {row['partitions']:,}" for row in rows]
    lines = [
        f"# {data['at'][:10]}: thousands of partitions",
        "",
        f"Command: `make bench-scale`. Commit: {data['commit']}. Machine: {data['machine']}.",
        "Three nodes and the client share the cores. What each figure is: `bench/scale.py`.",
        "",
        f"![The main figures by number of partitions]({picture})",
        "",
        "| figure | goal | " + " | ".join(heads) + " |",
        "| --- | --- |" + " --- |" * len(heads),
    ]
    for name, (what, goal) in FIGURES.items():
        values = [str(row.get(name, "")) for row in rows]
        if any(values):
            lines.append(f"| {what} | {goal} | " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


def summed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with what its steps have in common."""
    epochs = [value for name, value in row.items() if name.endswith("_epochs")]
    turns = [value for name, value in row.items() if name.endswith("_turn_ms")]
    cpu = [value for name, value in row.items() if name.endswith("_turn_cpu_ms")]
    long = [value for name, value in row.items() if name.endswith("_long_turns")]
    found = {**row, "epochs": sum(epochs)}
    if not turns:
        return found
    most = {"turn_ms": max(turns), "turn_cpu_ms": max(cpu, default="")}
    return {**found, **most, "long_turns": sum(long)}


def picture(rows: Sequence[Mapping[str, Any]]) -> str:
    """All panels, as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11"'
        f' viewBox="0 0 {3 * WIDTH} {2 * HEIGHT + 24}">',
        f'<rect width="{3 * WIDTH}" height="{2 * HEIGHT + 24}" fill="white"/>',
    ]
    for number, name in enumerate(PANELS):
        place = f"translate({number % 3 * WIDTH} {number // 3 * HEIGHT})"
        parts += [f'<g transform="{place}">', *panel(name, rows), "</g>"]
    for number, (system, colour) in enumerate(COLOURS.items()):
        at = f'x="{MARGIN + 90 * number}" y="{2 * HEIGHT + 14}"'
        parts.append(f'<text {at} fill="{colour}" font-weight="bold">{system}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def panel(name: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One figure of all systems."""
    found = [row for row in rows if row.get(name)]
    if not found:
        return []
    xs = Scale([row["partitions"] for row in found], MARGIN, WIDTH - 16)
    ys = Scale([row[name] for row in found], HEIGHT - MARGIN, MARGIN)
    parts = [f'<text x="{MARGIN}" y="16" font-weight="bold">{FIGURES[name][0][:44]}</text>']
    for value in xs.ticks():
        at = f'x="{xs.at(value):.0f}" y="{HEIGHT - MARGIN + 14}"'
        parts.append(f'<text {at} text-anchor="middle" fill="#555">{value:,g}</text>')
    for value in ys.ticks():
        y = f"{ys.at(value):.0f}"
        line = f'x1="{MARGIN}" x2="{WIDTH - 16}" y1="{y}" y2="{y}"'
        parts.append(f'<line {line} stroke="#ddd"/>')
        at = f'x="{MARGIN - 4}" y="{y}"'
        parts.append(f'<text {at} text-anchor="end" fill="#555">{value:g}</text>')
    for system, colour in COLOURS.items():
        dots = [(r["partitions"], r[name]) for r in found if r["system"] == system]
        points = " ".join(f"{xs.at(x):.1f},{ys.at(y):.1f}" for x, y in sorted(dots))
        if points:
            shape = f'points="{points}" fill="none" stroke="{colour}" stroke-width="2"'
            parts.append(f"<polyline {shape}/>")
        for x, y in dots:
            at = f'cx="{xs.at(x):.1f}" cy="{ys.at(y):.1f}" r="3"'
            parts.append(f'<circle {at} fill="{colour}"/>')
    return parts


class Scale:
    """From values to pixels, logarithmically; whole powers of ten at both ends."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        # Exponents of ten.
        self._low = math.floor(math.log10(min(values)))
        self._high = max(self._low + 1, math.ceil(math.log10(max(values))))
        # Pixels.
        self._first = first
        self._last = last

    def at(self, value: float) -> float:
        """The pixel of a value."""
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._first + share * (self._last - self._first)

    def ticks(self) -> list[float]:
        """The powers of ten."""
        return [10.0**exponent for exponent in range(self._low, self._high + 1)]


def main() -> None:
    source, directory = Path(sys.argv[1]), Path(sys.argv[2])
    data = json.loads(source.read_text())
    name = f"{data['at'][:10]}-scale"
    (directory / f"{name}.svg").write_text(picture(data["rows"]))
    (directory / f"{name}.md").write_text(page(data, f"{name}.svg"))


if __name__ == "__main__":
    main()
