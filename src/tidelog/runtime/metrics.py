"""The Prometheus endpoint: every request to the port is answered with the current metrics.

It lives on the node's own loop, so that reading the counters races with nothing, and it speaks
just enough HTTP for a scraper: whatever is asked, the answer is the text format and a close.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from tidelog.runtime.driver import Driver

_MAX_REQUEST_BYTES: Final = 16 << 10


class DriverCollector(Collector):
    """The driver's counters as metrics `tidelog_runtime_*`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def collect(self) -> Iterable[Metric]:
        """One family per counter, and the open connections."""
        counters = self._driver.counters
        for field in fields(counters):
            text = f"Runtime counter {field.name.replace('_', ' ')}."
            value = getattr(counters, field.name)
            yield CounterMetricFamily(f"tidelog_runtime_{field.name}", text, value=value)
        yield GaugeMetricFamily(
            "tidelog_runtime_connections",
            "Open connections.",
            value=self._driver.connection_count,
        )


class _Scrape(asyncio.Protocol):
    """One scraper's connection."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        # Any: uvloop's transports are no subclass of asyncio's.
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
    registry.register(DriverCollector(driver))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    await loop.create_server(lambda: _Scrape(registry), port=port)
