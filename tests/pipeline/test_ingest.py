"""The ingest: a topic in a Delta table, once, whatever ended the run before."""

import threading
from collections import Counter
from decimal import Decimal

import pytest
from deltalake import DeltaTable
from pyspark.testing import assertDataFrameEqual

from tests.pipeline.ingest_rig import fail_once_behind
from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import batch, batches
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.errors import JobFailed, TableConflict
from tidelog.pipeline.jobs.ingest import BatchWriter, failure_text, ingest, ingest_all
from tidelog.pipeline.jobs.ingest_layout import AskedLayout
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare
from tidelog.pipeline.jobs.ingest_topics import Topics
from tidelog.pipeline.jobs.table import faults, read_accounts, read_quarantine, read_table
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.schema_text import parse_schema, schema_text
from tidelog.records.batch import stamp
from tidelog.records.control import EndTxnMarker, build_end_txn_marker

pytestmark = pytest.mark.spark

_PATIENCE_S = 60
_P0, _P1 = TopicPartition("t", 0), TopicPartition("t", 1)
_MARKER = stamp(build_end_txn_marker(EndTxnMarker(True, 0), 5, 0, 1), 20, 3)


@pytest.fixture
def brokers():
    partitions = {
        _P0: ScriptedPartition([*batches(2), _MARKER, stamp(batch(0), 21, 3)]),
        _P1: ScriptedPartition(batches(2), leader=2),
    }
    with ScriptedCluster(partitions) as started:
        yield started


@pytest.fixture
def plan(brokers, tmp_path):
    def plan(**changes) -> IngestPlan:
        known = {"checkpoint": tmp_path / "checkpoint"} | changes
        return IngestPlan(brokers.bootstrap_servers, "t", tmp_path / "table", **known)

    return plan


def _places(tmp_path):
    rows = DeltaTable(str(tmp_path / "table")).to_pyarrow_table(columns=["partition", "offset"])
    return sorted(tuple(row.values()) for row in rows.to_pylist())


_FIRST = [(0, o) for o in [*range(20), *range(21, 31)]] + [(1, o) for o in range(20)]


def test_a_topic_arrives_once_with_its_lineage_and_an_account(spark, brokers, plan, tmp_path):
    reported = []
    first = ingest(spark, prepare(plan()), reported.append)
    assert [(far.batch, far.rows, far.batch_rows, far.batches) for far in reported] == [
        (0, 50, 50, 1)
    ]
    assert reported[0].newest_age_s is not None and reported[0].rows_per_s > 0
    assert (first.rows, first.control_rows, first.gap_rows, first.violations) == (50, 1, 0, ())
    assert first.positions == {"t:0": 31, "t:1": 20}
    assert _places(tmp_path) == _FIRST
    brokers.partitions[_P1].batches.extend(batches(3)[2:])
    second = ingest(spark, prepare(plan()))
    assert (second.batches, second.rows, second.repeated_batches) == (1, 10, 0)
    assert _places(tmp_path) == [*_FIRST, *((1, o) for o in range(20, 30))]
    expected = spark.createDataFrame(
        [
            (20, "k", "a value", None, 3, -1, 20, 1, True),
            (29, "k", "a value", None, 3, -1, 20, 1, True),
        ],
        "offset long, key string, value string, headers string, leader_epoch int, "
        "producer_id long, base_offset long, ingest_batch long, has_file boolean",
    )
    found = read_table(spark, str(tmp_path / "table")).where(
        "ingest_batch = 1 and offset in (20, 29)"
    )
    assertDataFrameEqual(
        found.selectExpr(
            "offset",
            "string(key)",
            "string(value)",
            "string(headers)",
            "leader_epoch",
            "producer_id",
            "base_offset",
            "ingest_batch",
            "ingest_file like 'topic=t/batch-00000001-%' has_file",
        ),
        expected,
    )
    accounts = DeltaTable(str(tmp_path / "table" / "_continuity")).to_pyarrow_table()
    lines = [
        (r["partition"], r["start"], r["end"], r["rows"], r["control_rows"], r["status"])
        for r in accounts.to_pylist()
    ]
    assert sorted(lines) == [
        (0, 0, 31, 30, 1, "ok"),
        (1, 0, 20, 20, 0, "ok"),
        (1, 20, 30, 10, 0, "ok"),
    ]


def test_without_its_checkpoint_the_ingest_goes_on_where_the_table_ends(
    spark, brokers, plan, tmp_path
):
    ingest(spark, prepare(plan()))
    brokers.partitions[_P1].batches.extend(batches(3)[2:])
    brokers.partitions[TopicPartition("t", 2)] = ScriptedPartition(batches(1))
    fresh = plan(checkpoint=tmp_path / "another")
    assert ingest(spark, prepare(fresh)).rows == 20
    places = _places(tmp_path)
    assert len(places) == len(set(places)) == 70
    with pytest.raises(TableConflict, match="DUPLICATE `t-1`"):
        ingest(spark, prepare(plan()))
    assert _places(tmp_path) == places


@pytest.mark.parametrize("moment", ["_judge", "_count"], ids=["before-commit", "after-commit"])
def test_a_batch_that_fails_around_its_commit_is_there_once(
    spark, plan, tmp_path, monkeypatch, moment
):
    fail_once_behind(moment, monkeypatch)
    with pytest.raises(OSError, match="no space left"):
        ingest(spark, prepare(plan()))
    again = ingest(spark, prepare(plan()))
    assert again.repeated_batches == (moment == "_count")
    assert _places(tmp_path) == _FIRST


def test_a_broker_that_fails_once_costs_nothing(spark, brokers, plan, tmp_path):
    trouble = ["close", "close", None]
    brokers.partitions[_P0].on_fetch = lambda node, offset: trouble.pop(0) if trouble else None
    assert ingest(spark, prepare(plan())).rows == 50
    assert _places(tmp_path) == _FIRST


def test_epochs_that_go_back_are_written_and_reported(spark, brokers, plan, tmp_path):
    brokers.partitions[_P1].batches[1:] = [batch(10, epoch=2)]
    done = ingest(spark, prepare(plan()))
    assert not done.is_clean
    assert done.violations == (
        "EPOCH_REGRESSION `t-1` [0, 20) in batch 0: 20 rows, 0 control records, 0 missing, "
        "epochs 2 to 3",
    )
    assert _places(tmp_path) == _FIRST


def test_gaps_of_a_compacted_topic_are_counted_and_excused(spark, brokers, plan, tmp_path):
    brokers.cleanup_policy = "compact"
    brokers.partitions[_P1].batches[:] = batches(3)[::2]
    done = ingest(spark, prepare(plan()))
    assert (done.gap_rows, done.is_clean) == (10, True)


def test_lost_records_end_the_run_and_leave_the_table_usable(spark, brokers, plan, tmp_path):
    brokers.partitions[_P1].batches[:] = batches(3)[::2]
    with pytest.raises(JobFailed, match=r"DataLoss: `t-1` .*offset 10 should follow"):
        ingest(spark, prepare(plan()))
    assert _places(tmp_path) == []
    brokers.partitions[_P1].batches[:] = batches(3)
    assert ingest(spark, prepare(plan())).rows == 60


def test_a_checkpoint_belongs_to_one_topic_and_one_table(spark, brokers, plan, tmp_path):
    brokers.partitions[TopicPartition("u", 7)] = ScriptedPartition(batches(1))
    prepare(plan())
    with pytest.raises(UsageError, match="checkpoint of the topic `t`, not of `u`"):
        prepare(
            IngestPlan(
                brokers.bootstrap_servers,
                "u",
                tmp_path / "table",
                checkpoint=tmp_path / "checkpoint",
            )
        )
    with pytest.raises(UsageError, match="is not a Delta table, but"):
        prepare(
            IngestPlan(
                brokers.bootstrap_servers,
                "t",
                tmp_path / "other",
                checkpoint=tmp_path / "checkpoint",
            )
        )
    with pytest.raises(UsageError, match="would change nothing"):
        prepare(plan(starting_offsets="latest"))
    with pytest.raises(UsageError, match="topic `nix` does not exist"):
        prepare(IngestPlan(brokers.bootstrap_servers, "nix", tmp_path / "table"))


def test_several_topics_arrive_side_by_side_in_one_table(spark, brokers, tmp_path):
    brokers.partitions[TopicPartition("u", 7)] = ScriptedPartition(batches(1))
    plans = [IngestPlan(brokers.bootstrap_servers, name, tmp_path / "table") for name in ("t", "u")]
    reported = []
    done = ingest_all(spark, [prepare(plan) for plan in plans], reported.append)
    assert {topic: (one.rows, one.is_clean) for topic, one in done.items()} == {
        "t": (50, True),
        "u": (10, True),
    }
    assert {far.topic for far in reported} == {"t", "u"}
    reads = read_table, read_accounts, read_quarantine
    whole = [read(spark, tmp_path / "table") for read in reads]
    rows = {row["topic"]: row["count"] for row in whole[0].groupBy("topic").count().collect()}
    assert rows == {"t": 50, "u": 10}
    assert faults(*whole) == []


def test_a_typed_topic_gets_fields_and_a_quarantine(spark, tmp_path):
    good, bad, more = b'{"id": 1, "name": "x"}', b'{"id": "x"}', b'{"id": 2, "price": 1.5}'
    contents = [batch(0, value=good), batch(10, value=bad), batch(20, value=more)]
    partition = ScriptedPartition(contents[:2])
    with ScriptedCluster({_P0: partition}) as brokers:
        place = (brokers.bootstrap_servers, "t", tmp_path / "table")
        prepared = prepare(IngestPlan(*place, value=AskedLayout(Format.JSON)))
        assert schema_text(prepared.value.type) == "id bigint, name string"
        first = ingest(spark, prepared)
        assert (first.rows, first.quarantined_rows, first.violations) == (10, 10, ())
        partition.batches.append(contents[2])
        wider = parse_schema("id bigint, price decimal(9,2)")
        second = ingest(spark, prepare(IngestPlan(*place, value=AskedLayout(Format.JSON, wider))))
        assert (second.rows, second.quarantined_rows) == (10, 0)
        assert second.positions == {"t:0": 30}
    rows, accounts, quarantine = (
        read(spark, tmp_path / "table") for read in (read_table, read_accounts, read_quarantine)
    )
    assert faults(rows, accounts, quarantine) == []
    found = rows.selectExpr("value.*").distinct()
    assert sorted(tuple(row) for row in found.collect()) == [
        (1, "x", None),
        (2, None, Decimal("1.50")),
    ]
    bytes_ = {(row["part"], bytes(row["value"])) for row in quarantine.collect()}
    assert bytes_ == {("value", bad)}


def test_a_topic_that_fails_ends_the_others_that_have_no_end(spark, brokers, tmp_path):
    lossy = ScriptedPartition(batches(3)[::2])
    brokers.partitions[TopicPartition("u", 7)] = lossy
    plans = [
        IngestPlan(brokers.bootstrap_servers, name, tmp_path / "table", interval_s=0.5)
        for name in ("t", "u")
    ]
    with pytest.raises(JobFailed, match="DataLoss: `u-7`"):
        ingest_all(spark, [prepare(plan) for plan in plans])


def test_a_run_that_is_stopped_within_a_batch_prints_nothing(
    spark, plan, tmp_path_factory, monkeypatch
):
    log = next(tmp_path_factory.getbasetemp().glob("spark*/spark.log"))
    before, runs = log.read_text(), threading.Event()

    def wait_in_a_task(batches):
        threading.Event().wait(_PATIENCE_S)
        yield from batches

    def run_tasks(self, records, batch):
        runs.set()
        return records.mapInArrow(wait_in_a_task, records.schema).collect()

    monkeypatch.setattr(BatchWriter, "_run_tasks", run_tasks)
    done = ingest(spark, prepare(plan(interval_s=0.0)), is_over=runs.is_set)
    assert (done.rows, log.read_text()[len(before) :]) == (0, "")


def test_a_topic_that_matches_later_joins_a_run_without_an_end(
    spark, brokers, tmp_path, monkeypatch
):
    monkeypatch.setattr("tidelog.pipeline.jobs.ingest._LOOK_S", 0.0)
    read = Counter()

    def plan(name):
        return IngestPlan(brokers.bootstrap_servers, name, tmp_path / name, interval_s=0.5)

    def progress(far):
        read[far.topic] = far.rows
        brokers.partitions.setdefault(TopicPartition("u", 7), ScriptedPartition(batches(1)))

    topics = Topics(
        {"kafka.bootstrap.servers": brokers.bootstrap_servers},
        None,
        "[tu]",
        plan,
        lambda *what: None,
    )
    done = ingest_all(
        spark, topics.first(), progress, lambda: read == {"t": 50, "u": 10}, topics.joining
    )
    assert {name: (one.rows, one.is_clean) for name, one in done.items()} == {
        "t": (50, True),
        "u": (10, True),
    }


def test_the_error_of_our_code_in_the_text_of_spark_is_reported():
    java = "[STREAM_FAILED] Query terminated with exception\n  at org.apache.spark.Worker"
    python = (
        "Traceback (most recent call last):\n"
        "tidelog.pipeline.errors.ClusterUnavailable: no broker answered\n"
        "During handling of the above\n"
        "tidelog.pipeline.errors.DataLoss: `t-1` [0, 30): offset 10 should follow\n"
        "hint: begin anew\n  more"
    )
    assert failure_text(java) == "[STREAM_FAILED] Query terminated with exception"
    assert failure_text(f"{java}\n{python}") == (
        "DataLoss: `t-1` [0, 30): offset 10 should follow\nhint: begin anew"
    )
