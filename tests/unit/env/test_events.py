"""Goal: the lines of the rooms become events with fixed names and types.

Method: lines as the rooms write them, by hand; and the table against the rooms' source, so that a
reworded line cannot silently cease to be an event.
"""

import re
from pathlib import Path

import tidelog
from tidelog.env import events
from tidelog.env.events import Kind, NodeEvent, event_of
from tidelog.env.trace import Level, Trace, TraceList


def told(*, measures: bool = True) -> tuple[Trace, TraceList]:
    """A trace and what it says."""
    sink = TraceList()
    return Trace(sink, Level.INFO, measures=measures), sink


def only_event(sink: TraceList) -> NodeEvent:
    """What the one line stands for."""
    (line,) = sink.events
    found = event_of(line)
    assert found is not None
    return found


def test_figures_are_silent_unless_they_are_wanted() -> None:
    trace, sink = told(measures=False)
    trace.measure("orders-3", "append", required=3)
    assert sink.events == []


def test_a_measured_partition_has_its_topic_number_and_epoch() -> None:
    trace, sink = told()
    trace.measure("my-orders-3", "append", leader_epoch=7, required=12)
    expected = NodeEvent(Kind.APPEND, "my-orders", 3, 7, {"required": 12})
    assert only_event(sink) == expected


def test_a_line_for_people_is_no_event() -> None:
    trace, sink = told()
    trace.info("orders-3", "maybe_shrink_isr", "refused", "not this time")
    trace.info("quorum", "truncate", "truncated", "diverging", log_end="7->5")
    assert [event_of(line) for line in sink.events] == [None, None]


def test_a_truncation_says_from_where_to_where() -> None:
    trace, sink = told()
    trace.info(
        "o-0", "truncate", "truncated", "why", log_end="7->5", epoch="2->1", high_watermark=4
    )
    assert only_event(sink).payload == {"from": 7, "to": 5, "high_watermark": 4, "reason": "why"}


def test_who_holds_the_high_watermark_back_is_a_list() -> None:
    trace, sink = told()
    trace.info(
        "o-0",
        "check_isrs",
        "high watermark stands still",
        "replicas lack records",
        log_ends={3: 5, 2: 4},
    )
    assert only_event(sink).payload == {
        "followers": (3, 2),
        "log_ends": (5, 4),
        "reason": "replicas lack records",
    }


def test_proposals_name_their_followers_alike() -> None:
    trace, sink = told()
    trace.info("o-0", "maybe_expand_isr", "proposed", "caught up", replica=2, log_end=5)
    trace.info("o-0", "maybe_shrink_isr", "proposed", "slow", leaving=(2,), log_ends=(5,))
    found = [event_of(line) for line in sink.events]
    assert [one and (one.payload["followers"], one.payload["log_ends"]) for one in found] == [
        ((2,), (5,)),
        ((2,), (5,)),
    ]


def test_every_row_of_the_table_is_said_somewhere() -> None:
    """By some room, as two neighbouring texts: `"fence", "fenced"`; measures by their kind."""
    root = Path(tidelog.__file__).parent
    source = "\n".join(
        path.read_text()
        for room in ("controller", "replication", "broker")
        for path in root.glob(f"{room}/**/*.py")
    )
    missing = [
        (handler, decision)
        for handler, decision in events._TABLE
        if not re.search(
            rf'"{decision}"'
            if handler == "measure" or decision in ("waits", "truncated")
            else rf'"{handler}",[^)]{{0,120}}?"{decision}"',
            source,
        )
    ]
    assert missing == []
