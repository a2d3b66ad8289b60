"""Goal: one file that stands alone, with every figure as text, even if some are missing."""

import re
from datetime import datetime, timedelta

from tidelog.pipeline.health.figures import Health
from tidelog.pipeline.health.report import MOST_LANES, page
from tidelog.pipeline.health.worst import worst_first

FIRST = datetime(2026, 11, 21, 10)


def at(seconds: float) -> datetime:
    """An instant of the run."""
    return FIRST + timedelta(seconds=seconds)


def nothing() -> Health:
    """No events at all."""
    return Health(0, [], None, None, [], [], [], [], [], [], [])


def failover(topic: str = "orders") -> Health:
    """A leader died, and another took over."""
    lane = {"topic": topic, "partition": 0, "replicas": 3, "min_isr": 2, "kind": "election"}
    window = {
        "topic": topic, "partition": 0, "kind": "unavailable", "leader_epoch": 1,
        "start": at(10), "end": at(10.8), "duration_ms": 812.0,
        "cause": "broker 1 fenced", "broker": 1,
    }  # fmt: skip
    still = {
        **window, "kind": "under_replicated", "end": None, "duration_ms": None
    }  # fmt: skip
    return Health(
        events=120,
        brokers=[1, 2, 3],
        first=FIRST,
        last=at(60),
        conditions=[
            {"kind": "unavailable", "intervals": 1, "open": 0, "minutes": 0.0135, "max_ms": 812.0}
        ],
        intervals=[still],
        unavailability=[window],
        elections=[
            {
                "topic": topic, "partition": 0, "leader_epoch": 1, "old_leader": 1, "new_leader": 2,
                "at": at(10.5), "cause": "broker 1 fenced", "outcome": "from isr",
                "noticed_ms": 500.0, "leading_ms": 12.0, "commit_ms": None, "election_ms": None,
                "unclean": False,
            }
        ],
        latency=[
            {
                "leader": 2, "samples": 10, "p50_ms": 1.0, "p99_ms": 9.0, "p999_ms": 9.5,
                "max_ms": 9.6,
            }
        ],
        followers=[
            {"follower": 3, "samples": 9, "held_back": 4, "max_lag": 1200, "silent_ms": None}
        ],
        flaps=[{"topic": topic, "partition": 0, "replica": 3, "left": 2, "returned": 1}],
        timeline=[
            {**lane, "at": at(0), "leader": 1, "isr": [1, 2, 3], "cause": None},
            {**lane, "at": at(10.5), "leader": 2, "isr": [2, 3], "cause": "broker 1 fenced"},
        ],
        latency_line=[{"leader": 2, "at": at(5), "p50_ms": 1.0, "p99_ms": 9.0}],
    )  # fmt: skip


def test_the_page_stands_alone() -> None:
    text = page(failover())
    assert not re.search(r"<script|<link|@import|url\(|src=|https?://", text)
    assert "prefers-color-scheme: dark" in text
    assert text.count("<svg") == text.count("</svg>") == 4


def test_every_figure_is_there_in_words() -> None:
    text = page(failover())
    for phrase in (
        "120 events of brokers 1, 2, 3",
        "812 ms",
        "broker 1 fenced",
        "1 → 2",
        "from isr",
        "9.00 ms",
        "1,200",
        "wrong at the last event",
    ):
        assert phrase in text, phrase
    assert '<div class="tile bad"><b>1</b>' in text
    assert "?</td>" in text


def test_no_events_and_no_trouble_are_said() -> None:
    text = page(nothing())
    for phrase in ("There are no events", "No leader changed", "None: there was always a leader"):
        assert phrase in text, phrase


def test_names_are_escaped() -> None:
    assert "<i>x" not in page(failover("<i>x"))


def test_of_many_partitions_those_with_trouble_are_drawn() -> None:
    found = failover("z-last")
    quiet = found.timeline[0]
    found.timeline += [{**quiet, "topic": "quiet", "partition": n} for n in range(MOST_LANES)]
    text = page(found)
    assert ">z-last-0</text>" in text
    assert f"1 of {MOST_LANES + 1} partitions had fewer changes" in text


def test_of_a_thousand_partitions_the_worst_come_first_and_the_others_are_folded() -> None:
    found = failover("z-last")
    quiet = found.timeline[0]
    found.timeline += [{**quiet, "topic": "quiet", "partition": n} for n in range(998)]
    stall = {**found.intervals[0], "topic": "stalled", "kind": "hw_stalled", "end": at(30)}
    found.intervals.append(stall)
    order = [(one.topic, one.partition) for one in worst_first(found)]
    assert order[:3] == [("z-last", 0), ("stalled", 0), ("quiet", 0)] and len(order) == 1000
    text = page(found)
    listed = text[text.index("the worst first") : text.index("<h2>Elections")]
    assert "1,000 partitions had events; with 998 of them nothing was wrong" in listed
    in_sight, _, folded = listed.partition("<details><summary>985 more partitions</summary>")
    assert "z-last-0" in in_sight and "quiet-997" not in in_sight
    assert "quiet-997" in folded and folded.count("<svg") == 985
    assert len(text) < 600_000


def test_what_is_not_over_counts_to_the_last_event() -> None:
    (one,) = worst_first(failover())
    assert one.ms == {"unavailable": 812.0, "under_replicated": 50_000.0}
    assert one.is_wrong_now and one.elections == 1 and not one.is_quiet
