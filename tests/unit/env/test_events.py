"""Goal: the lines of the rooms become events with fixed names and types.

Method: lines as the rooms write them, by hand; and the table against the rooms' source, so that a
reworded line cannot silently cease to be an event.
"""

import re
from pathlib import Path

import tidelog
from tidelog.env import events
from tidelog.env.events import NodeEvent, event_of
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


def test_a_line_for_people_is_no_event() -> None:
    trace, sink = told()
    trace.info("orders-3", "maybe_shrink_isr", "refused", "not this time")
    trace.info("quorum", "truncate", "truncated", "diverging", log_end="7->5")
    assert [event_of(line) for line in sink.events] == [None, None]


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
