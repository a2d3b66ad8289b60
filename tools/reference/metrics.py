"""The page of metrics, from the table that the endpoint exposes."""

from tidelog.runtime.metrics import METRICS
from tools.reference.markdown import code, page, section, table

_INTRODUCTION = """
With `tidelog.metrics.port` a node answers every request to that port with Prometheus' text format.
The endpoint runs on the node's own loop. Beside these metrics it has those of the process
(`process_*`) and of Python (`python_info`) that `prometheus-client` collects.
"""


def metrics_page() -> str:
    """`docs/reference/metrics.md`."""
    rows = [(code(metric.name), metric.type, metric.doc) for metric in METRICS]
    columns = ("metric", "type", "meaning")
    return page("Metrics", _INTRODUCTION, (section("Of a node", table(columns, rows)),))
