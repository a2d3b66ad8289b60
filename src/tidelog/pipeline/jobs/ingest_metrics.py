"""What a monitoring system sees of a running ingest: Prometheus metrics of the driver.

Numbers count from the start of the command. Each answer is made from the newest report of each
topic, so an ingest that stands still shows the age of its newest batch and not a fresh one.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidelog.errors import UsageError
from tidelog.pipeline.jobs.ingest import Progress

_PREFIX: Final = "tidelog_ingest_"
_COUNTS: Final = {
    "rows": "Records in the table; for upserts, changes.",
    "batches": "Batches in the table.",
    "quarantined_rows": "Records that did not parse.",
}
"""Fields of `Progress` that only grow."""


class IngestMetrics(Collector):
    """The newest report of each topic as metrics."""

    def __init__(self) -> None:
        # By topic: the report, and when it came, in seconds of the wall clock.
        self._newest: dict[str, tuple[Progress, float]] = {}

    def take(self, far: Progress) -> None:
        """Takes a report; it counts until the topic's next one."""
        self._newest[far.topic] = far, time.time()

    def collect(self) -> Iterator[Metric]:
        """The metrics now; called for each request, in a thread of its own."""
        reports = sorted(dict(self._newest).items())
        for name, doc in _COUNTS.items():
            counter = CounterMetricFamily(f"{_PREFIX}{name}", doc, labels=("topic",))
            for topic, (far, _) in reports:
                counter.add_metric((topic,), getattr(far, name))
            yield counter
        lag = GaugeMetricFamily(
            f"{_PREFIX}lag_offsets",
            "Offsets that a partition has beyond the table.",
            labels=("topic", "partition"),
        )
        stages = GaugeMetricFamily(
            f"{_PREFIX}batch_stage_seconds",
            "What the newest batch that Spark has reported spent its time with.",
            labels=("topic", "stage"),
        )
        batch_at = GaugeMetricFamily(
            f"{_PREFIX}newest_batch_timestamp_seconds",
            "When the newest batch was in the table.",
            labels=("topic",),
        )
        record_at = GaugeMetricFamily(
            f"{_PREFIX}newest_record_timestamp_seconds",
            "The timestamp of the newest record of that batch.",
            labels=("topic",),
        )
        for topic, (far, at) in reports:
            for partition, offsets in far.lags.items():
                lag.add_metric((topic, str(partition)), offsets)
            for stage, seconds in far.stages_s.items():
                stages.add_metric((topic, stage), seconds)
            batch_at.add_metric((topic,), at)
            if far.newest_age_s is not None:
                record_at.add_metric((topic,), at - far.newest_age_s)
        yield from (lag, stages, batch_at, record_at)


@contextmanager
def served_metrics(port: int | None) -> Iterator[IngestMetrics]:
    """Serves metrics on a port of all addresses while the ingest runs; nothing without a port.
    Raises `UsageError` for one that cannot be had."""
    metrics, registry = IngestMetrics(), CollectorRegistry()
    if port is None:
        yield metrics
        return
    registry.register(metrics)
    try:
        server, thread = start_http_server(port, registry=registry)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"`--metrics-port {port}` cannot be served: {error}", "give another port"
        ) from error
    try:
        yield metrics
    finally:
        server.shutdown()
        server.server_close()
        with suppress(RuntimeError):
            thread.join()
