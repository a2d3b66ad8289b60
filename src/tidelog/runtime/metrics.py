"""The Prometheus endpoint: every request to the port is answered with the current metrics.

It lives on the node's own loop, so that reading the counters races with nothing, and it has
just enough HTTP for a scraper: the answer to any request is the text format and a close.

`METRICS` is the whole list of the node's own metrics. Beside them the endpoint has what the
Prometheus client measures of any Python process (`process_*`, `python_info`).
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from tidelog.runtime.driver import Driver

_MAX_REQUEST_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class NodeMetric:
    """One metric of a node: its exposed name, what it means, and how it is read."""

    name: str
    """As a scraper sees it. A counter's name ends in `_total`."""
    doc: str
    read: Callable[[Driver], int]

    @property
    def is_counter(self) -> bool:
        """Whether it only grows, from 0 at the start of the process; else it is a gauge."""
        return self.name.endswith("_total")


METRICS: Final = (
    NodeMetric(
        "tidelog_runtime_ticks_total",
        "Turns of the loop in which the node had something to do.",
        lambda driver: driver.counters.ticks,
    ),
    NodeMetric(
        "tidelog_runtime_received_bytes_total",
        "Bytes received on all connections, those that the node made included.",
        lambda driver: driver.counters.received_bytes,
    ),
    NodeMetric(
        "tidelog_runtime_sent_chunks_total",
        "Buffers and file slices handed to connections for sending.",
        lambda driver: driver.counters.sent_chunks,
    ),
    NodeMetric(
        "tidelog_runtime_accepted_total",
        "Connections accepted.",
        lambda driver: driver.counters.accepted,
    ),
    NodeMetric(
        "tidelog_runtime_refused_total",
        "Connections refused at `max.connections`, or because the node was stopping.",
        lambda driver: driver.counters.refused,
    ),
    NodeMetric(
        "tidelog_runtime_flushes_total",
        "Flushes and replacements of files that ended, failed ones included.",
        lambda driver: driver.counters.flushes,
    ),
    NodeMetric(
        "tidelog_runtime_flush_failures_total",
        "Flushes and replacements of files that failed.",
        lambda driver: driver.counters.flush_failures,
    ),
    NodeMetric(
        "tidelog_runtime_connections",
        "Open connections, those included that only send what is left.",
        lambda driver: driver.connection_count,
    ),
)
"""All metrics of a node; `docs/reference/metrics.md` is made from this table."""


class NodeCollector(Collector):
    """Reads `METRICS` at each scrape."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def collect(self) -> Iterable[Metric]:
        """One family per metric."""
        for metric in METRICS:
            family = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            yield family(metric.name, metric.doc, value=metric.read(self._driver))


class _Scrape(asyncio.Protocol):
    """One scraper's connection."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        # Any: uvloop's transports are not a subclass of asyncio's.
        self._transport: Any = None
        # The request so far; only its end matters.
        self._request = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._request += data
        if len(self._request) > _MAX_REQUEST_BYTES:
            self._transport.abort()
        elif b"\r\n\r\n" in self._request:
            body = generate_latest(self._registry)
            head = (
                "HTTP/1.1 200 OK\r\n"
                "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            self._transport.write(head.encode() + body)
            self._transport.close()


async def serve_metrics(loop: asyncio.AbstractEventLoop, port: int, driver: Driver) -> None:
    """Listens on the port until the process ends; raises `OSError` when it is taken."""
    registry = CollectorRegistry()
    registry.register(NodeCollector(driver))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    await loop.create_server(lambda: _Scrape(registry), port=port)
