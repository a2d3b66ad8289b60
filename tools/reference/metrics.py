"""The page of metrics, from the tables that the endpoint exposes."""

from collections.abc import Sequence

from tidelog.runtime.metrics import METRICS, PROCESS_METRICS, NodeMetric
from tools.reference.markdown import code, page, section, table

_INTRODUCTION = """
With `tidelog.metrics.port` a node answers every request to that port with Prometheus' text format.
The endpoint runs on the node's own loop. Beside these metrics it has `python_info`.
"""


def metrics_page() -> str:
    """`docs/reference/metrics.md`."""
    sections = (
        section("Of a node", _table(METRICS)),
        section("Of its process, on Linux", _table(PROCESS_METRICS)),
    )
    return page("Metrics", _INTRODUCTION, sections)


def _table(metrics: Sequence[NodeMetric]) -> str:
    rows = [(code(metric.name), metric.type, metric.doc) for metric in metrics]
    return table(("metric", "type", "meaning"), rows)
