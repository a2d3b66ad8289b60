"""The health of replication as one HTML page.

The page is one file: style and plots are inline, it has no script and loads nothing. It is readable
in light and in dark mode, on paper and on a phone. Every colour has a text beside it. The order is
that of questions after an incident: is the cluster healthy now, what happened when, how long had a
partition no serving leader, why, which partitions had most of it, and which followers were slow. Of
many partitions only some are drawn; the list of all, the worst first, is folded, and a browser
finds a name in it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any, Final

from tidelog.pipeline.health.figures import Health, leader_name
from tidelog.pipeline.health.svg import (
    STATE_LABELS,
    Axis,
    isr_timeline,
    latency_chart,
    span_lanes,
    sparkline,
)
from tidelog.pipeline.health.worst import KINDS, Trouble, worst_first

Rows = Sequence[Mapping[str, Any]]

MOST_LANES: Final = 40
"""At most so many partitions are drawn; those with a fault take precedence."""
_MOST_ROWS: Final = 200
_WORST: Final = 15
"""So many partitions are listed in sight; the others are folded."""
_MOST_LISTED: Final = 5000


class _Drawn(str):
    """Markup of ours, which a table takes as it is."""

    __slots__ = ()


_STYLE: Final = """
:root { color-scheme: light dark; --ink:#1c2530; --soft:#5b6775; --page:#fbfbf9; --card:#ffffff;
  --line:#dfe3e6; --whole:#8fc0a9; --under:#e6b34a; --min:#d9622b; --none:#8f1d3f; --mark:#1c2530;
  --c0:#2563a8; --c1:#b4540a; --c2:#3d7d3d; --c3:#8d4aa8; --c4:#0f7f86; --c5:#777777; }
@media (prefers-color-scheme: dark) { :root { --ink:#e6e9ec; --soft:#9aa6b2; --page:#14181d;
  --card:#1c2228; --line:#333c45; --whole:#3f7d66; --under:#c9952f; --min:#e0713a; --none:#d8557f;
  --mark:#f0f2f4; --c0:#6fb1f2; --c1:#f0a35e; --c2:#85c885; --c3:#cf95e6; --c4:#5fc9cf;
  --c5:#aaaaaa; } }
* { box-sizing: border-box; }
body { margin:0; background:var(--page); color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif; }
main { max-width:1140px; margin:0 auto; padding:2rem 1rem 4rem; }
h1 { font-size:1.5rem; margin:0; } h2 { font-size:1.1rem; margin:2.2rem 0 .3rem; }
p { margin:.2rem 0 .8rem; color:var(--soft); max-width:75ch; }
.tiles { display:flex; flex-wrap:wrap; gap:.8rem; margin:1.2rem 0; }
.tile { background:var(--card); border:1px solid var(--line); border-radius:8px;
  padding:.7rem 1rem; min-width:150px; flex:1; }
.tile b { display:block; font-size:1.5rem; font-weight:600; font-variant-numeric:tabular-nums; }
.tile.bad { border-color:var(--none); } .tile.bad b { color:var(--none); }
.tile span { color:var(--soft); font-size:.85rem; }
figure { margin:0; background:var(--card); border:1px solid var(--line); border-radius:8px;
  padding:1rem .5rem .5rem; overflow-x:auto; }
svg { display:block; width:100%; min-width:680px; height:auto; }
svg text { font:12px system-ui,sans-serif; fill:var(--soft); }
svg .name { text-anchor:end; fill:var(--ink); } svg .tick { text-anchor:middle; }
.grid { stroke:var(--line); } .base { stroke:var(--soft); stroke-width:.5; }
rect.whole, i.whole { fill:var(--whole); background:var(--whole); }
rect.under, i.under { fill:var(--under); background:var(--under); }
rect.min, i.min { fill:var(--min); background:var(--min); }
rect.none, i.none, rect.unavailable, i.unavailable { fill:var(--none); background:var(--none); }
rect.hw_stalled, i.hw_stalled { fill:var(--under); background:var(--under); }
.elected line { stroke:var(--mark); stroke-dasharray:2 2; } .elected path { fill:var(--mark); }
.unclean line { stroke:var(--none); stroke-width:2; } .unclean path { fill:var(--none); }
.elected text, .unclean text { fill:var(--mark); font-weight:600; font-size:11px; }
polyline { fill:none; stroke-width:1.8; } polyline.p99 { stroke-dasharray:4 3; stroke-width:1.2; }
polyline.c0 { stroke:var(--c0); } circle.c0, svg .c0.label { fill:var(--c0); }
polyline.c1 { stroke:var(--c1); } circle.c1, svg .c1.label { fill:var(--c1); }
polyline.c2 { stroke:var(--c2); } circle.c2, svg .c2.label { fill:var(--c2); }
polyline.c3 { stroke:var(--c3); } circle.c3, svg .c3.label { fill:var(--c3); }
polyline.c4 { stroke:var(--c4); } circle.c4, svg .c4.label { fill:var(--c4); }
polyline.c5 { stroke:var(--c5); } circle.c5, svg .c5.label { fill:var(--c5); }
.key { display:flex; flex-wrap:wrap; gap:1rem; font-size:.85rem; color:var(--soft);
  margin:.4rem 0; }
.key i { display:inline-block; width:.8rem; height:.8rem; border-radius:2px; margin-right:.35rem;
  vertical-align:-1px; }
table { border-collapse:collapse; width:100%; font-size:.88rem; font-variant-numeric:tabular-nums; }
th, td:not(:last-child) { white-space:nowrap; }
th, td { text-align:left; padding:.3rem .6rem; border-bottom:1px solid var(--line); }
th { font-weight:600; color:var(--soft); } td.n, th.n { text-align:right; }
.scroll { overflow-x:auto; }
svg.spark { min-width:0; width:160px; height:12px; } summary { cursor:pointer; margin:.5rem 0; }
"""


def page(found: Health) -> str:
    axis = _axis(found)
    lanes = _lanes(found)
    parts = [
        "<h1>Replication health</h1>",
        f"<p>{escape(_span_text(found))}</p>",
        _tiles(found),
        *_timeline_part(found, lanes, axis),
        *_spans_part(found, axis),
        *_partitions_part(found, axis),
        *_elections_part(found),
        *_latency_part(found, axis),
        *_followers_part(found),
        "<p>Durations are taken on one machine's monotonic clock; a <b>?</b> stands for a duration "
        "between two machines, which cannot be measured. Plots use wall clocks.</p>",
    ]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Replication health</title><style>{_STYLE}</style></head>\n"
        f"<body><main>\n{body}\n</main></body></html>\n"
    )


def _axis(found: Health) -> Axis:
    known = [at for at in (found.first, found.last) if at is not None] or [datetime(1970, 1, 1)]
    return Axis(known[0], known[-1])


def _span_text(found: Health) -> str:
    if found.first is None or found.last is None:
        return "There are no events."
    brokers = ", ".join(map(str, found.brokers))
    first, last = (f"{at:%Y-%m-%d %H:%M:%S}" for at in (found.first, found.last))
    return f"{found.events:,} events of brokers {brokers}, {first} to {last} UTC."


def _tiles(found: Health) -> str:
    minutes = {row["kind"]: row["minutes"] for row in found.conditions}
    longest = {row["kind"]: row["max_ms"] for row in found.conditions}
    p99 = max((row["p99_ms"] for row in found.latency), default=None)
    still = sum(row["end"] is None for row in found.intervals)
    tiles = [
        ("wrong at the last event", str(still), still > 0),
        ("minutes under-replicated", f"{minutes.get('under_replicated', 0):.2f}", False),
        ("minutes under min ISR", f"{minutes.get('under_min_isr', 0):.2f}", False),
        ("elections", str(len(found.elections)), False),
        ("longest without a serving leader", _ms(longest.get("unavailable")), False),
        ("commit p99, slowest leader", _ms(p99, 1), False),
    ]
    cells = "".join(
        f'<div class="tile{" bad" if bad else ""}"><b>{escape(value)}</b>'
        f"<span>{escape(name)}</span></div>"
        for name, value, bad in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _lanes(found: Health) -> dict[tuple[str, int], list[Mapping[str, Any]]]:
    """The timelines that are drawn, by partition; partitions with a fault take precedence."""
    lanes: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in found.timeline:
        lanes.setdefault((row["topic"], row["partition"]), []).append(row)
    troubled = {(row["topic"], row["partition"]) for row in found.intervals}
    order = sorted(lanes, key=lambda key: (key not in troubled, key))
    return {key: lanes[key] for key in sorted(order[:MOST_LANES])}


def _timeline_part(
    found: Health, lanes: Mapping[tuple[str, int], Rows], axis: Axis
) -> Iterable[str]:
    if not lanes:
        return
    every = len({(row["topic"], row["partition"]) for row in found.timeline})
    yield "<h2>In-sync replicas over time</h2>"
    yield "<p>Height is the size of the ISR. A triangle is an election, with the new leader."
    if every > len(lanes):
        yield f" {every - len(lanes)} of {every} partitions had fewer changes and are not drawn."
    yield "</p>"
    yield _key(STATE_LABELS.items())
    yield f"<figure>{isr_timeline(lanes, found.elections, axis)}</figure>"


def _spans_part(found: Health, axis: Axis) -> Iterable[str]:
    stalls = [row for row in found.intervals if row["kind"] == "hw_stalled"]
    spans = [*found.unavailability, *stalls]
    yield "<h2>Stalls and unavailability</h2>"
    if not spans:
        yield "<p>None: there was always a leader that served, and no commit stood still.</p>"
        return
    lanes = sorted({(row["topic"], row["partition"]) for row in spans})[:MOST_LANES]
    yield _key((("unavailable", "no leader serves"), ("hw_stalled", "commits stand still")))
    yield f"<figure>{span_lanes(spans, axis, lanes)}</figure>"
    rows = [
        (
            _time(row["start"]),
            f"{row['topic']}-{row['partition']}",
            row["kind"].replace("_", " "),
            "open" if row["end"] is None else _ms(row["duration_ms"]),
            row["cause"],
        )
        for row in sorted(spans, key=lambda one: one["start"])
    ]
    yield _table(("from", "partition", "what", "for", "cause"), rows, numeric={3})


def _partitions_part(found: Health, axis: Axis) -> Iterable[str]:
    every = worst_first(found)
    if not every:
        return
    quiet = sum(one.is_quiet for one in every)
    yield "<h2>Partitions, the worst first</h2>"
    yield f"<p>{len(every):,} partitions had events; with {quiet:,} of them nothing was wrong.</p>"
    yield _partition_rows(every[:_WORST], axis)
    folded = every[_WORST:_MOST_LISTED]
    if folded:
        yield f"<details><summary>{len(every) - _WORST:,} more partitions</summary>"
        yield _partition_rows(folded, axis)
        if len(every) > _MOST_LISTED:
            yield f"<p>… and {len(every) - _MOST_LISTED:,}, in the Parquet tables.</p>"
        yield "</details>"


def _partition_rows(troubles: Sequence[Trouble], axis: Axis) -> str:
    rows = [
        (
            f"{one.topic}-{one.partition}",
            *(_ms(one.ms[kind]) if kind in one.ms else "-" for kind in KINDS),
            one.elections,
            "yes" if one.is_wrong_now else "",
            _Drawn(sparkline(one.timeline, axis)),
        )
        for one in troubles
    ]
    columns = (
        "partition", "no leader", "under min ISR", "commits stood still", "under-replicated",
        "elections", "wrong at the end", "states",
    )  # fmt: skip
    return _table(columns, rows, numeric={1, 2, 3, 4, 5}, most=len(rows))


def _elections_part(found: Health) -> Iterable[str]:
    yield "<h2>Elections</h2>"
    if not found.elections:
        yield "<p>No leader changed.</p>"
        return
    yield (
        "<p><b>Notice</b>: from the controller's loss of contact to its decision. <b>Start</b>: "
        "to the new leader's first act. <b>Commit</b>: from there to its first advance of the "
        "high watermark.</p>"
    )
    rows = [
        (
            _time(row["at"]),
            f"{row['topic']}-{row['partition']}",
            row["leader_epoch"],
            f"{leader_name(row['old_leader'])} → {leader_name(row['new_leader'])}",
            *(_ms(row[name]) for name in ("noticed_ms", "leading_ms", "commit_ms", "election_ms")),
            f"{row['outcome']}: {row['cause']}",
        )
        for row in found.elections
    ]
    columns = (
        "at", "partition", "epoch", "leader", "notice", "start", "commit", "decision to commit",
        "how and why",
    )  # fmt: skip
    yield _table(columns, rows, numeric={2, 4, 5, 6, 7})


def _latency_part(found: Health, axis: Axis) -> Iterable[str]:
    yield "<h2>Commit latency</h2>"
    if not found.latency_line:
        yield "<p>No commit was sampled.</p>"
        return
    yield "<p>From append to committed, by leader: p50 solid, p99 dashed.</p>"
    yield f"<figure>{latency_chart(found.latency_line, axis)}</figure>"
    rows = [
        (
            f"broker {row['leader']}",
            f"{row['samples']:,}",
            *(_ms(row[name], 2) for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")),
        )
        for row in found.latency
    ]
    columns = ("leader", "samples", "p50", "p99", "p999", "longest")
    yield _table(columns, rows, numeric={1, 2, 3, 4, 5})


def _followers_part(found: Health) -> Iterable[str]:
    yield "<h2>Followers</h2>"
    left: Counter[int] = Counter()
    for row in found.flaps:
        left[row["replica"]] += row["left"]
    yield (
        "<p>The worst first. <b>Held back</b>: sampled commits that went only as far as this "
        "follower had fetched.</p>"
    )
    rows = [
        (
            f"broker {row['follower']}",
            row["held_back"],
            row["samples"],
            _plain(row["max_lag"]),
            _ms(row["silent_ms"]),
            left[row["follower"]],
        )
        for row in found.followers
    ]
    columns = (
        "follower", "held back", "of samples", "longest lag, records", "longest not level",
        "left an ISR",
    )  # fmt: skip
    yield _table(columns, rows, numeric={1, 2, 3, 4, 5})


def _key(entries: Iterable[tuple[str, str]]) -> str:
    items = "".join(
        f'<span><i class="{name}"></i>{escape(label)}</span>' for name, label in entries
    )
    return f'<div class="key">{items}</div>'


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numeric: set[int],
    most: int = _MOST_ROWS,
) -> str:
    def cells(values: Sequence[object], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if index in numeric else ''}>{_cell(value)}</{tag}>"
            for index, value in enumerate(values)
        )

    body = "\n".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows[:most])
    more = len(rows) - most
    note = f"<p>… and {more} more, in the Parquet tables beside this page.</p>" * (more > 0)
    return f'<div class="scroll"><table><tr>{cells(columns, "th")}</tr>\n{body}</table></div>{note}'


def _cell(value: object) -> str:
    return value if isinstance(value, _Drawn) else escape(str(value))


def _time(at: datetime) -> str:
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"


def _ms(value: float | None, digits: int = 0) -> str:
    return "?" if value is None else f"{value:,.{digits}f} ms"


def _plain(value: object) -> str:
    return "-" if value is None else f"{value:,}"
