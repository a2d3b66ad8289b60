"""The Prometheus endpoint: every request to the port is answered with the current metrics.

It lives on the node's own loop, so that reading the counters races with nothing, and it has
just enough HTTP for a scraper: the answer to any request is the text format and a close.

`METRICS` is the whole list of the node's own metrics. Beside them the endpoint has what Prometheus
clients say of any process: `PROCESS_METRICS`, where the system is Linux, and `python_info`.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Any, Final

from prometheus_client import CollectorRegistry, PlatformCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from tidelog.runtime import process_figures
from tidelog.runtime.driver import Driver
from tidelog.runtime.turn_times import BOUNDS_MS, SlowSteps, TurnTimes

_MAX_REQUEST_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class NodeMetric:
    """One metric of a node: its exposed name, what it means, and how it is read."""

    name: str
    """As a scraper sees it. A counter's name ends in `_total`."""
    doc: str
    read: Callable[[Driver], float | Mapping[str, float] | TurnTimes]
    """Its value; values by a label; or the turns of a histogram."""
    type: str = "gauge"
    label: str = "step"

    def family(self, driver: Driver) -> Metric:
        """Its samples of this moment."""
        value = self.read(driver)
        if isinstance(value, TurnTimes):
            sum_s = value.sum_ns / 1e9
            buckets = _buckets_of(value.counts)
            return HistogramMetricFamily(self.name, self.doc, buckets=buckets, sum_value=sum_s)
        is_counter = self.type == "counter"
        new_family = CounterMetricFamily if is_counter else GaugeMetricFamily
        if not isinstance(value, Mapping):
            return new_family(self.name, self.doc, value=value)
        family = new_family(self.name, self.doc, labels=(self.label,))
        for labelled, each in value.items():
            family.add_metric((labelled,), each)
        return family


def _buckets_of(counts: list[int]) -> list[tuple[str, float]]:
    """Turns that took at most so many seconds, as Prometheus counts: each class has those below."""
    ends = [str(bound / 1000) for bound in BOUNDS_MS]
    return list(zip((*ends, "+Inf"), accumulate(counts), strict=True))


def _counter(name: str, doc: str) -> NodeMetric:
    """A field of the driver's `Counters`."""
    read = attrgetter(f"counters.{name}")
    return NodeMetric(f"tidelog_runtime_{name}_total", doc, read, "counter")


def _of_slow_steps(value: Callable[[SlowSteps], float]) -> Callable[[Driver], dict[str, float]]:
    """Reads a figure of the slow steps of each name."""
    return lambda driver: {name: value(slow) for name, slow in driver.turns.slow.items()}


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
    NodeMetric(
        "tidelog_runtime_turn_seconds",
        "How long turns of the loop took, from the first input to the end of the tick.",
        attrgetter("turns"),
        "histogram",
    ),
    NodeMetric(
        "tidelog_runtime_longest_turn_seconds",
        "The longest turn since the start; 0 if none took a millisecond.",
        lambda driver: driver.turns.longest_ns / 1e9,
    ),
    NodeMetric(
        "tidelog_runtime_longest_turn_last_minute_seconds",
        "The longest turn of the last minute; 0 if none took a millisecond.",
        lambda driver: driver.turns.recent.get(driver.turns.clock()) / 1e9,
    ),
    NodeMetric(
        "tidelog_runtime_longest_turn_cpu_last_minute_seconds",
        "The most that a turn of the last minute had of a processor; it waited for the rest.",
        lambda driver: driver.turns.recent_cpu.get(driver.turns.clock()) / 1e9,
    ),
    NodeMetric(
        "tidelog_runtime_laborious_turns_total",
        "Turns that had a processor for more than 10 ms, the bound of 99.9 % of them.",
        lambda driver: driver.turns.laborious,
        "counter",
    ),
    NodeMetric(
        "tidelog_runtime_slow_steps_total",
        "Steps of turns that took more than a millisecond, by `step`: an API, a part of the tick.",
        _of_slow_steps(lambda slow: slow.count),
        "counter",
    ),
    NodeMetric(
        "tidelog_runtime_slow_steps_seconds_total",
        "How long these steps took together, by `step`.",
        _of_slow_steps(lambda slow: slow.sum_ns / 1e9),
        "counter",
    ),
    NodeMetric(
        "tidelog_runtime_longest_step_seconds",
        "The longest of these steps since the start, by `step`.",
        _of_slow_steps(lambda slow: slow.longest_ns / 1e9),
    ),
    NodeMetric(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Partitions that this node leads and whose ISR is smaller than their replicas.",
        lambda driver: driver.under_replicated,
    ),
    NodeMetric(
        "tidelog_throttled_total",
        "Requests and connections whose client had to wait, by `quota`, or `replication`.",
        lambda driver: driver.client_figures.pauses.counts,
        "counter",
        "quota",
    ),
    NodeMetric(
        "tidelog_throttled_seconds_total",
        "How long clients had to wait because of their quotas, together, by `quota`.",
        lambda driver: {
            name: ms / 1000 for name, ms in driver.client_figures.pauses.sum_ms.items()
        },
        "counter",
        "quota",
    ),
    NodeMetric(
        "tidelog_logins_total",
        "Logins of clients and of other nodes, by `listener`.",
        lambda driver: driver.client_figures.logins,
        "counter",
        "listener",
    ),
    NodeMetric(
        "tidelog_failed_logins_total",
        "Logins that failed, and connections closed for want of one, by `listener`.",
        lambda driver: driver.client_figures.failed_logins,
        "counter",
        "listener",
    ),
)
"""All metrics of a node; `docs/reference/metrics.md` is made from this table."""

PROCESS_METRICS: Final = (
    NodeMetric(
        "process_cpu_seconds_total",
        "Total user and system CPU time spent in seconds.",
        lambda _: process_figures.cpu_seconds(),
        "counter",
    ),
    NodeMetric(
        "process_virtual_memory_bytes",
        "Virtual memory size in bytes.",
        lambda _: process_figures.virtual_memory_bytes(),
    ),
    NodeMetric(
        "process_resident_memory_bytes",
        "Resident memory size in bytes.",
        lambda _: process_figures.resident_memory_bytes(),
    ),
    NodeMetric(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        lambda _: process_figures.start_time_seconds(),
    ),
    NodeMetric(
        "process_open_fds",
        "Number of open file descriptors.",
        lambda _: process_figures.open_files(),
    ),
    NodeMetric(
        "process_max_fds",
        "Maximum number of open file descriptors.",
        lambda _: process_figures.most_open_files(),
    ),
)
"""What every Prometheus client says of its process, by the same names."""


class NodeCollector(Collector):
    """Reads all metrics at each scrape."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def collect(self) -> Iterable[Metric]:
        """One family per metric."""
        for metric in (*METRICS, *(PROCESS_METRICS if sys.platform == "linux" else ())):
            yield metric.family(self._driver)


class _Scrape(asyncio.Protocol):
    """One scraper's connection."""

    def __init__(self, registry: CollectorRegistry, turns: TurnTimes) -> None:
        self._registry = registry
        # A scrape is work of the loop like any other.
        self._turns = turns
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
            self._turns.aside("scrape", self._answer)

    def _answer(self) -> None:
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
    PlatformCollector(registry=registry)
    await loop.create_server(lambda: _Scrape(registry, driver.turns), port=port)
