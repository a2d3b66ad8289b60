"""The driver's metrics: what a scraper reads of an ingest."""

import socket
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidelog.errors import UsageError
from tidelog.pipeline.jobs.ingest import Progress, _with_report
from tidelog.pipeline.jobs.ingest_metrics import served_metrics


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def scraped(port):
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name.removeprefix("tidelog_ingest_"), *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_newest_report_of_each_topic_is_served_while_it_runs():
    port = free_port()
    reported = {
        "sources": [{"latestOffset": '{"t:0": 7, "t:1": 4}'}],
        "durationMs": {"addBatch": 1500},
    }
    far = Progress("t", 2, 9, batch=1, newest_age_s=2.0, quarantined_rows=1)
    with served_metrics(port) as metrics:
        assert scraped(port) == {}
        metrics.take(Progress("t", 1, 5))
        metrics.take(_with_report(far, reported, {"t:0": 7, "t:1": 1}))
        metrics.take(Progress("u", 1, 3))
        found = scraped(port)
    assert found["rows_total", "t"] == 9 and found["rows_total", "u"] == 3
    assert found["batches_total", "t"] == 2 and found["quarantined_rows_total", "t"] == 1
    assert found["lag_offsets", "0", "t"] == 0 and found["lag_offsets", "1", "t"] == 3
    assert found["batch_stage_seconds", "addBatch", "t"] == 1.5
    record, batch = (found[f"newest_{of}_timestamp_seconds", "t"] for of in ("record", "batch"))
    assert batch - record == 2.0
    with pytest.raises(OSError):
        scraped(port)


def test_a_port_that_is_taken_is_wrong_use():
    with socket.create_server(("0.0.0.0", 0)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(UsageError, match=f"`--metrics-port {port}`"), served_metrics(port):
            pass
