"""Goal: every event is one line with its time, clock and number; the files stay
small, and a disk that fails costs events only."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

from tidelog.env.trace import Level, Trace
from tidelog.model import TopicPartition
from tidelog.replication.events.in_sync import AppendSampled
from tidelog.runtime.event_file import (
    EVENTS_FILE,
    MAX_EVENTS_PER_TICK,
    MOST_WAITING,
    EventFile,
    clock_of_this_machine,
)
from tidelog.runtime.log_lines import LogLines


def opened(directory: Path, *, size: int = 1 << 20, incarnation: str = "a1") -> EventFile:
    """An event file in front of a log that is not read."""
    file = EventFile(
        directory,
        broker=2,
        incarnation=incarnation,
        segment_bytes=size,
        segments=3,
        onward=LogLines("b2", StringIO()),
    )
    file.open()
    return file


def append(required: int) -> AppendSampled:
    """A figure as a leader emits it."""
    return AppendSampled(
        partition=TopicPartition("orders", 0), leader_epoch=4, required=required, high_watermark=0
    )


def read(path: Path) -> list[dict[str, Any]]:
    """The events of one file."""
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def test_an_event_is_stamped_and_numbered(tmp_path: Path) -> None:
    file = opened(tmp_path)
    trace = Trace(file, measures=True)
    trace.event(append(9))
    trace.info("orders-0", "elsewhere", "unknown")
    file.flush()
    started, measured = read(tmp_path / EVENTS_FILE)
    assert (started["kind"], started["seq"]) == ("started", 0)
    times = (measured.pop("ts_us"), measured.pop("mono_us"))
    assert times > (started["ts_us"], started["mono_us"]) > (1_600_000_000_000_000, 0)
    assert measured == {
        "clock": clock_of_this_machine("a1"),
        "broker": 2,
        "incarnation": "a1",
        "seq": 1,
        "topic": "orders",
        "partition": 0,
        "leader_epoch": 4,
        "kind": "append",
        "payload": {"required": 9, "high_watermark": 0},
    }


def test_lines_go_on_to_the_log_and_figures_do_not(tmp_path: Path) -> None:
    text = StringIO()
    log = LogLines("b2", text)
    file = EventFile(
        tmp_path, broker=2, incarnation="a", segment_bytes=1 << 20, segments=1, onward=log
    )
    trace = Trace(file, Level.INFO, measures=True)
    trace.info("broker 3", "fence", "fenced", "silent")
    trace.event(append(9))
    log.flush()
    assert text.getvalue().count("\n") == 1
    assert "broker 3 fence: fenced (silent)" in text.getvalue()


def test_a_full_file_is_renamed_and_the_oldest_goes(tmp_path: Path) -> None:
    file = opened(tmp_path, size=2000)
    trace = Trace(file, measures=True)
    for offset in range(60):
        trace.event(append(offset))
        file.flush()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [EVENTS_FILE, f"{EVENTS_FILE}.1", f"{EVENTS_FILE}.2"]
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())
    kept = [event for name in reversed(names) for event in read(tmp_path / name)]
    numbers = [event["seq"] for event in kept]
    assert numbers == list(range(numbers[0], 61))


def test_a_new_process_goes_on_behind_a_torn_line(tmp_path: Path) -> None:
    (tmp_path / EVENTS_FILE).write_text('{"ts_us":1}\n{"ts_u')
    opened(tmp_path, incarnation="b2").flush()
    lines = (tmp_path / EVENTS_FILE).read_text().splitlines()
    assert lines[1] == '{"ts_u'
    assert json.loads(lines[2])["incarnation"] == "b2"


def test_a_disk_that_fails_costs_events_and_not_the_node(tmp_path: Path) -> None:
    """The directory vanishes under it, and is there again later."""
    place = tmp_path / "events"
    file = opened(place, size=200)
    file.flush()
    (place / EVENTS_FILE).unlink()
    place.rmdir()
    trace = Trace(file, measures=True)
    trace.event(append(1))
    file.flush()
    assert file.lost == 1
    place.mkdir()
    trace.event(append(2))
    file.flush()
    # Whatever half a line the failure left has an end.
    assert (place / EVENTS_FILE).read_text().startswith("\n")
    assert [event["payload"]["required"] for event in read(place / EVENTS_FILE)] == [2]


def test_thousands_of_events_are_written_in_slices_and_in_order(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.flush()
    trace = Trace(file, measures=True)
    for required in range(3 * MAX_EVENTS_PER_TICK):
        trace.event(append(required))
    for ticks in (1, 2, 3):
        assert file.has_waiting
        file.flush()
        written = read(tmp_path / EVENTS_FILE)
        assert len(written) == 1 + ticks * MAX_EVENTS_PER_TICK
    assert not file.has_waiting
    assert [event["seq"] for event in written] == list(range(len(written)))
    assert [event["payload"]["required"] for event in written[1:]] == list(range(len(written) - 1))
    assert [event["mono_us"] for event in written] == sorted(event["mono_us"] for event in written)


def test_more_events_than_may_wait_are_written_at_once(tmp_path: Path) -> None:
    file = opened(tmp_path, size=64 << 20)
    trace = Trace(file, measures=True)
    for required in range(MOST_WAITING + 1):
        trace.event(append(required))
    file.flush()
    assert not file.has_waiting
    assert len(read(tmp_path / EVENTS_FILE)) == MOST_WAITING + 2


def test_a_process_that_ends_writes_what_waits(tmp_path: Path) -> None:
    file = opened(tmp_path)
    trace = Trace(file, measures=True)
    for required in range(3 * MAX_EVENTS_PER_TICK):
        trace.event(append(required))
    file.write_all()
    assert len(read(tmp_path / EVENTS_FILE)) == 3 * MAX_EVENTS_PER_TICK + 1
