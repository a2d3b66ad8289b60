"""The page of metrics, from what the endpoint's collector answers."""

from types import SimpleNamespace
from typing import Any, cast

from tidelog.runtime.driver import Counters
from tidelog.runtime.metrics import DriverCollector
from tools.reference.markdown import code, page, section, table

_INTRODUCTION = """
With `tidelog.metrics.port` a node answers every request to that port with Prometheus' text format.
The endpoint runs on the node's own loop. Beside these metrics it has those of the process
(`process_*`) and of Python (`python_info`) that `prometheus-client` collects.
"""


def metrics_page() -> str:
    """`docs/reference/metrics.md`."""
    driver = cast(Any, SimpleNamespace(counters=Counters(), connection_count=0))
    rows = []
    for family in DriverCollector(driver).collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        rows.append((code(name), family.type, family.documentation))
    columns = ("metric", "type", "meaning")
    return page("Metrics", _INTRODUCTION, (section("Of a node", table(columns, rows)),))
