"""The demo's verdict as JSON and as a table."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tidelog.cli.demo_input import Unreadable
from tidelog.cli.demo_report import DemoReport, print_report
from tidelog.model import TopicPartition
from tidelog.pipeline.jobs.verify import Verification
from tidelog.pipeline.logs.replicas import Comparison, Difference

_CLEAN = DemoReport(
    records=1000,
    verification=Verification(
        acknowledged=1000,
        read=1000,
        lost=0,
        duplicated=0,
        misplaced=0,
        unacknowledged=0,
        offset_gaps=0,
        order_violations=0,
        findings=(),
    ),
    replicas=Comparison(6, 60, 123_456, ()),
    victim=2,
    failover_ms=712,
    isr_restored_ms=3100,
    truncated=["flights-0"],
    unreadable=[],
    errors=[],
    delays=(Path("delays.parquet"), 207),
    kept=None,
    seconds=41.27,
)


def _printed(report: DemoReport) -> str:
    out = io.StringIO()
    print_report(report, Console(file=out, width=160))
    return out.getvalue()


def test_the_json_has_the_promised_names():
    found = json.loads(json.dumps(_CLEAN.as_json()))
    assert list(found)[:10] == [
        "records",
        "acknowledged",
        "read",
        "lost",
        "duplicated",
        "misplaced",
        "replicas_identical",
        "failover_ms",
        "isr_restored_ms",
        "seconds",
    ]
    assert (found["replicas_identical"], found["failover_ms"], found["seconds"]) == (
        True,
        712,
        41.3,
    )


def test_a_clean_verdict_has_its_figures():
    text = _printed(_CLEAN)
    for expected in ("1,000", "712 ms", "3,100 ms", "flights-0", "207 rows", "Nothing that was"):
        assert expected in text
    assert _CLEAN.is_clean


@pytest.mark.parametrize(
    "fault", ["lost", "duplicated", "misplaced", "offset_gaps", "order_violations"]
)
def test_any_fault_of_a_record_is_a_bad_verdict(fault):
    verification = replace(
        _CLEAN.verification, **{fault: 3}, findings=("record 5: acknowledged at 0@1",)
    )
    report = replace(_CLEAN, verification=verification)
    assert not report.is_clean
    text = _printed(report)
    assert "bad" in text
    assert "record 5: acknowledged at 0@1" in text


def test_different_replicas_are_a_bad_verdict():
    difference = Difference(TopicPartition("flights", 3), 77, "bytes differ")
    report = replace(_CLEAN, replicas=Comparison(6, 60, 1, (difference,)))
    assert not report.is_clean
    assert report.as_json()["replicas_identical"] is False
    assert "`flights-3` at offset 77: bytes differ" in _printed(report)


def test_unreadable_lines_and_failed_deliveries_are_reported_but_are_not_the_clusters_fault():
    unreadable = [
        Unreadable(9, 3, "is not CSV"),
        *(Unreadable(n, 1, "is empty") for n in range(20)),
    ]
    report = replace(
        _CLEAN, unreadable=unreadable, errors=["record 7: timed out"], failover_ms=None
    )
    assert report.is_clean
    assert report.as_json()["unreadable_lines"] == 23
    assert report.as_json()["failover_ms"] is None
    text = _printed(report)
    assert "line 7-9: is not CSV" in text
    assert "and 11 more" in text
    assert "record 7: timed out" in text
