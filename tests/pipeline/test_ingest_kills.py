"""An ingest whose driver is killed at a random moment: the table has everything once."""

import socket
import urllib.request
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.pipeline.ingest_rig import (
    PATIENCE_S,
    Feeder,
    KillPlan,
    KillResult,
    ingest_process,
    judge,
    wait_for_table,
)
from tidelog.env.prng import Prng
from tidelog.pipeline.jobs.ingest import ingest
from tidelog.pipeline.jobs.ingest_layout import AskedLayout
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare
from tidelog.pipeline.typed.formats import Format
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.spark


def _scraped(port):
    """The metrics of the topic, as Prometheus reads them; lags by partition, stages by name."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found = Counter()
    for sample in (sample for family in families for sample in family.samples):
        assert sample.labels["topic"] == "killed-ingest"
        name = sample.name.removeprefix("tidelog_ingest_")
        if name == "lag_offsets":
            name = f"lag_{sample.labels['partition']}"
        elif name == "batch_stage_seconds":
            name = f"stage_{sample.labels['stage']}"
        found[name] = sample.value
    return found


def test_a_killed_driver_loses_and_repeats_nothing(spark, cluster, tmp_path):
    """Real nodes, a real process, SIGKILL; another driver takes its checkpoint over, and a reader
    that is not Spark judges the table."""
    cluster.create_topic("killed-ingest", partitions=3, replication_factor=3)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    plan = KillPlan(["driver"], "killed-ingest", tmp_path, "local[2,4]", metrics_port=port)
    feeder = Feeder(cluster.bootstrap_servers, plan.topic, plan.records_per_s)
    with ingest_process(plan, cluster.bootstrap_servers) as process:
        wait_for_table(plan, process, 1)
        wait_until(lambda: _scraped(port)["rows_total"] > 0, PATIENCE_S, "rows in the metrics")
        wait_until(lambda: "stage_addBatch" in _scraped(port), PATIENCE_S, "a report of Spark's")
        scraped = _scraped(port)
        assert scraped["batches_total"] > 0 and scraped["quarantined_rows_total"] > 0
        assert {"lag_0", "lag_1", "lag_2"} <= scraped.keys()
        assert process.kill("driver", Prng(1))
    feeder.close()
    place = cluster.bootstrap_servers, plan.topic, tmp_path / "table"
    ingest(spark, prepare(IngestPlan(*place, value=AskedLayout(Format.JSON))))
    found = KillResult()
    judge(cluster, plan, feeder, found)
    assert (found.lost, found.duplicates, found.misplaced, found.violations) == (0, 0, 0, 0)
    assert found.rows == found.log_end_offsets >= found.acknowledged > 0
    assert found.quarantined == -(-found.rows // 50)
