"""The Prometheus endpoint: every request to the port is answered with the current metrics.

It lives on the node's own loop, so that reading the counters races with nothing, and it has
just enough HTTP for a scraper: the answer to any request is the text format and a close.

`METRICS` is the whole list of the node's own metrics. Beside them the endpoint has what the
Prometheus client measures of any Python process (`process_*`, `python_info`).
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
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


def _counter(name: str, doc: str) -> NodeMetric:
    """A field of the driver's `Counters`."""
    return NodeMetric(f"tidelog_runtime_{name}_total", doc, attrgetter(f"counters.{name}"))


METRICS: Final = (
    _counter("ticks", "Turns of the loop in which the node had something to do."),
    _counter(
        "received_bytes", "Bytes received on all connections, those that the node made included."
    ),
    _counter("sent_chunks", "Buffers and file slices handed to connections for sending."),
    _counter("accepted", "Connections accepted."),
    _counter(
        "refused", "Connections refused at `max.connections`, or because the node was stopping."
    ),
    _counter("flushes", "Flushes and replacements of files that ended, failed ones included."),
    _counter("flush_failures", "Flushes and replacements of files that failed."),
    NodeMetric(
        "tidelog_runtime_connections",
        "Open connections, those included that only send what is left.",
        attrgetter("connection_count"),
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
