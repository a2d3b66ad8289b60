"""Goal: a scraper gets the counters of the driver, from the node's own loop."""

from dataclasses import fields
from pathlib import Path

from tests.unit.runtime.harness import Client
from tests.unit.runtime.test_server import free_port, served
from tidelog.runtime.driver import Counters
from tidelog.runtime.metrics import METRICS


def test_metrics_are_served_beside_the_protocol(tmp_path: Path) -> None:
    port, metrics_port = free_port(), free_port()
    with served(tmp_path, port, metrics_port):
        client = Client(port)
        assert client.ask(b"hello") == b"hello"
        scraper = Client(metrics_port)
        scraper.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = scraper.reader.read().decode()
    assert answer.startswith("HTTP/1.1 200 OK\r\n")
    assert "tidelog_runtime_accepted_total 1.0" in answer
    assert "tidelog_runtime_connections 1.0" in answer
    assert all(f"\n{metric.name} " in answer for metric in METRICS)
    assert "process_resident_memory_bytes" in answer


def test_every_counter_of_the_driver_is_a_metric() -> None:
    counters = {f"tidelog_runtime_{field.name}_total" for field in fields(Counters)}
    assert {metric.name for metric in METRICS if metric.is_counter} == counters
    assert all(metric.doc.endswith(".") for metric in METRICS)
