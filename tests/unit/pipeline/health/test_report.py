"""Goal: one file that stands alone, with every figure as text, even if some are missing."""

import re

from tests.unit.pipeline.health.findings import at, failover, nothing
from tidelog.pipeline.health.report import MOST_LANES, page


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
    text = page(found)
    listed = text[text.index("the worst first") : text.index("<h2>Elections")]
    assert "1,000 partitions had events; with 998 of them nothing was wrong" in listed
    in_sight, _, folded = listed.partition("<details><summary>985 more partitions</summary>")
    assert "z-last-0" in in_sight and "quiet-997" not in in_sight
    assert "quiet-997" in folded and folded.count("<svg") == 985
    assert len(text) < 600_000
