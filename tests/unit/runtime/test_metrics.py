"""Goal: a scraper gets the counters of the driver, from the node's own loop."""

from pathlib import Path

from tests.unit.runtime.harness import Client
from tests.unit.runtime.test_server import free_port, served


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
    assert "process_resident_memory_bytes" in answer
