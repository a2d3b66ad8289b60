"""An ingest into a table in an object store: read by Spark and others, and killed at a commit."""

import polars
import pytest

from tests.pipeline.ingest_rig import (
    PATIENCE_S,
    Feeder,
    KillPlan,
    KillResult,
    ingest_process,
    judge,
    wait_for_table,
)
from tests.s3_server import COMMITS, SECRET, Rule
from tidelog.pipeline.jobs.ingest import ingest
from tidelog.pipeline.jobs.ingest_layout import AskedLayout
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare
from tidelog.pipeline.jobs.table import faults, read_accounts, read_quarantine, read_table, row_key
from tidelog.pipeline.tables.upserts import Upsert
from tidelog.pipeline.typed.formats import Format
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.spark


def _plan(cluster, object_store, topic, tmp_path, **options) -> IngestPlan:
    return IngestPlan(
        cluster.bootstrap_servers,
        topic,
        object_store.place(),
        tmp_path / "checkpoint",
        value=AskedLayout(Format.JSON),
        table_options=object_store.options,
        **options,
    )


def _filled(cluster, topic: str) -> int:
    cluster.create_topic(topic, partitions=2, replication_factor=1)
    feeder = Feeder(cluster.bootstrap_servers, topic, 2000)
    wait_until(lambda: len(feeder.acked) > 500, PATIENCE_S, "records of every key")
    feeder.close()
    return len(feeder.acked)


def test_a_store_that_refuses_for_a_while_costs_no_record(spark, cluster, object_store, tmp_path):
    records = _filled(cluster, "store-append")
    plan = _plan(cluster, object_store, "store-append", tmp_path, partition_by=("date",))
    prepared = prepare(plan)
    with object_store.obeying(Rule(".*", "ExpiredToken", 403, times=3)):
        result = ingest(spark, prepared)
    assert (result.rows + result.quarantined_rows, result.violations) == (records, ())
    reached = {name: text for name, text in object_store.options.items() if "aws" in name}
    found = polars.read_delta(str(plan.address), storage_options=reached)
    assert found.height == result.rows == read_table(spark, plan.address).count()
    for path in (tmp_path / "checkpoint").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


def test_upserts_in_an_object_store_agree_with_their_accounts(
    spark, cluster, object_store, tmp_path
):
    records = _filled(cluster, "store-upsert")
    plan = _plan(cluster, object_store, "store-upsert", tmp_path, upsert=Upsert())
    result = ingest(spark, prepare(plan))
    assert result.rows + result.quarantined_rows == records
    tables = [read(spark, plan.address) for read in (read_table, read_accounts, read_quarantine)]
    assert faults(*tables, row_key(plan.address)) == []


def test_a_driver_killed_at_a_commit_loses_and_repeats_nothing(
    spark, cluster, object_store, tmp_path
):
    """SIGKILL between a commit that the store has made and its answer. Another driver takes the
    checkpoint over, and a reader that is not Spark judges the table."""
    cluster.create_topic("store-killed", partitions=2, replication_factor=3)
    place = object_store.place()
    plan = KillPlan([], "store-killed", tmp_path, "local[2,4]", store=object_store, place=place)
    feeder = Feeder(cluster.bootstrap_servers, plan.topic, plan.records_per_s)
    with ingest_process(plan, cluster.bootstrap_servers) as process:
        wait_for_table(plan, process, 1)
        pattern = COMMITS.format(place.removeprefix("s3:/"))
        with object_store.obeying(Rule(pattern, "InternalError", 500, True, process.pid, 1)):
            process.wait_for_end()
    feeder.close()
    checkpoint = tmp_path / "checkpoint"
    value, options = AskedLayout(Format.JSON), object_store.options
    where = cluster.bootstrap_servers, plan.topic, place, checkpoint
    result = ingest(spark, prepare(IngestPlan(*where, value=value, table_options=options)))
    assert result.repeated_batches == 1, "the commit was there"
    found = KillResult()
    judge(cluster, plan, feeder, found)
    assert (found.lost, found.duplicates, found.misplaced, found.violations) == (0, 0, 0, 0)
    assert found.rows == found.log_end_offsets >= found.acknowledged > 0
    assert SECRET not in (tmp_path / "ingest.log").read_text()
