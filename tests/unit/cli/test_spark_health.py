"""What `tidelog spark health` refuses, and how it speaks; the job itself has tests of its own."""

from datetime import datetime
from pathlib import Path

import pytest

from tests.unit.cli.command import tidelog
from tidelog.cli.spark_health import as_json, followed_line
from tidelog.pipeline.health.figures import Health

ROW = {
    "topic": "orders", "partition": 0, "kind": "under_replicated", "cause": "broker 2 fenced",
    "start_us": 1_700_000_000_000_000, "end_us": None, "duration_ms": None,
}  # fmt: skip


@pytest.mark.parametrize("arguments", [(), ("--events", "a", "--bootstrap-server", "b:1")])
def test_events_come_from_one_place(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    done = tidelog(capsys, "spark", "health", *arguments)
    assert done.code == 2
    assert "hint: give `--events DIR`, or `--bootstrap-server HOST:PORT`" in done.err


def test_following_needs_the_topic(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    done = tidelog(capsys, "spark", "health", "--events", tmp_path, "--follow")
    assert done.code == 2
    assert "tidelog.events.topic.enable=true" in done.err


def test_what_is_followed_is_a_line_for_its_beginning_and_its_end() -> None:
    assert followed_line(ROW) == "22:13:20 began: under replicated orders-0 (broker 2 fenced)"
    ended = {**ROW, "end_us": ROW["start_us"] + 61_000_000, "duration_ms": 61_000.0}
    assert followed_line(ended) == (
        "22:14:21 ended after 61,000 ms: under replicated orders-0 (broker 2 fenced)"
    )
    other_clock = {**ended, "duration_ms": None}
    assert followed_line(other_clock).startswith("22:14:21 ended after ? ms")


def test_json_has_every_table_and_times_as_text() -> None:
    at = datetime(2026, 11, 21, 9)
    span = {"kind": "leaderless", "start": at, "end": None}
    found = Health(1, [1], at, at, [], [span], [], [], [], [], [])
    report = as_json(found)
    assert report["healthy"] is False
    assert report["intervals"] == [
        {"kind": "leaderless", "start": "2026-11-21T09:00:00", "end": None}
    ]
    assert {"conditions", "elections", "latency", "followers", "flaps"} <= set(report)
