"""Goal: one line an event, in the project's grammar, that no peer can forge."""

import re
from io import StringIO

from tidelog.env.trace import Level, Trace
from tidelog.model import Secret
from tidelog.runtime.log_lines import MAX_LINE_CHARS, LogLines


def test_an_event_becomes_a_line_with_time_level_and_node() -> None:
    stream = StringIO()
    lines = LogLines("b2", stream)
    trace = Trace(lines)
    trace.info("orders-3", "on_fetch", "ignored", "stale leader_epoch", have=7, got=6)
    assert stream.getvalue() == ""
    lines.flush()
    stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"
    event = r"orders-3 on_fetch: ignored \(stale leader_epoch\) have=7 got=6"
    assert re.fullmatch(rf"{stamp} INFO  b2 {event}\n", stream.getvalue())


def test_control_characters_are_escaped_and_long_lines_cut() -> None:
    stream = StringIO()
    lines = LogLines("b1", stream)
    lines.line(Level.WARN, "client a\n2026-01-01 00:00:00.000 ERROR b1 forged\x1b[31m")
    lines.line(Level.WARN, "x" * (2 * MAX_LINE_CHARS))
    lines.flush()
    first, second = stream.getvalue().splitlines()
    assert r"a\n2026" in first
    assert r"\x1b[31m" in first
    assert len(second) < MAX_LINE_CHARS + 60


def test_a_crash_is_written_at_once_with_its_traceback() -> None:
    stream = StringIO()
    lines = LogLines("b1", stream)
    try:
        raise AssertionError("have=3 want=4")
    except AssertionError as error:
        lines.crash(error)
    assert "stopped by a bug (AssertionError: have=3 want=4)" in stream.getvalue()
    assert "Traceback" in stream.getvalue()


def test_a_traceback_has_no_values_of_variables() -> None:
    """Goal: a bug in a function that has a password at hand does not write it down."""
    stream = StringIO()
    lines = LogLines("b1", stream)

    def fail(password: Secret, raw: str) -> None:
        raise AssertionError(f"login of {len(raw)} characters with {password}")

    try:
        fail(Secret("m4rker"), "m4" + "rker")
    except AssertionError as error:
        lines.crash(error)
    assert "with [hidden]" in stream.getvalue()
    assert (
        stream.getvalue().count("m4rker") == stream.getvalue().count('fail(Secret("m4rker")') == 1
    )


def test_a_log_that_cannot_be_written_does_not_stop_the_node() -> None:
    stream = StringIO()
    stream.close()
    lines = LogLines("b1", stream)
    lines.line(Level.INFO, "into the void")
    lines.flush()
