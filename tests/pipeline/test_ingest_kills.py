"""An ingest whose driver is killed at a random moment: the table has everything once."""

import pytest

from tests.pipeline.ingest_rig import (
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

pytestmark = pytest.mark.spark


def test_a_killed_driver_loses_and_repeats_nothing(spark, cluster, tmp_path):
    """Real nodes, a real process, SIGKILL; another driver takes its checkpoint over, and a reader
    that is not Spark judges the table."""
    cluster.create_topic("killed-ingest", partitions=3, replication_factor=3)
    plan = KillPlan(["driver"], "killed-ingest", tmp_path, "local[2,4]")
    feeder = Feeder(cluster.bootstrap_servers, plan.topic, plan.records_per_s)
    with ingest_process(plan, cluster.bootstrap_servers) as process:
        wait_for_table(plan, process, 1)
        assert process.kill("driver", Prng(1))
    feeder.close()
    place = cluster.bootstrap_servers, plan.topic, tmp_path / "table"
    ingest(spark, prepare(IngestPlan(*place, value=AskedLayout(Format.JSON))))
    found = KillResult()
    judge(cluster, plan, feeder, found)
    assert (found.lost, found.duplicates, found.misplaced, found.violations) == (0, 0, 0, 0)
    assert found.rows == found.log_end_offsets >= found.acknowledged > 0
    assert found.quarantined == -(-found.rows // 50)
