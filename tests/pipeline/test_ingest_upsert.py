"""Upserts: a changelog becomes a table with a row for each key, once, whatever ended a run."""

import threading
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from tests.pipeline.ingest_rig import (
    Feeder,
    KillPlan,
    fail_once_behind,
    ingest_process,
    wait_for_table,
)
from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import changes
from tidelog.env.prng import Prng
from tidelog.model import TopicPartition
from tidelog.pipeline.errors import JobFailed
from tidelog.pipeline.jobs.ingest import ingest
from tidelog.pipeline.jobs.ingest_layout import AskedLayout
from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare
from tidelog.pipeline.jobs.ingest_upsert import Merging
from tidelog.pipeline.jobs.table import faults, read_accounts, read_quarantine, read_table, row_key
from tidelog.pipeline.tables.table import BronzeTable
from tidelog.pipeline.tables.upserts import Upsert
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.schema_text import parse_schema
from tidelog.pipeline.typed.transforms import load_transform

pytestmark = pytest.mark.spark

_P0, _P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def brokers():
    partitions = {
        _P0: ScriptedPartition([changes(0, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))]),
        _P1: ScriptedPartition([changes(0, (b"x", b"1"), (b"y", b"1"), (b"x", None))]),
    }
    with ScriptedCluster(partitions) as started:
        yield started


@pytest.fixture
def plan(brokers, tmp_path):
    return IngestPlan(brokers.bootstrap_servers, "t", tmp_path / "table", upsert=Upsert())


def _rows(directory, topic="t"):
    delta = DeltaTable(str(directory / "table"))
    found = [row for row in delta.to_pyarrow_table().to_pylist() if row["topic"] == topic]
    return {row["key"]: (row["partition"], row["offset"], row["value"]) for row in found}


def _faults(spark, directory):
    reads = read_table, read_accounts, read_quarantine
    table = directory / "table"
    return faults(*(read(spark, table) for read in reads), row_key(table))


_FIRST = {b"a": (0, 2, b"2"), b"b": (0, 1, b"1"), b"y": (1, 1, b"1")}
_MORE = [(b"b", None), (b"c", b"1")]
_SECOND = {b"a": (0, 2, b"2"), b"c": (0, 4, b"1"), b"y": (1, 1, b"1")}


def test_a_changelog_becomes_a_row_for_each_key(spark, brokers, plan, tmp_path):
    first = ingest(spark, prepare(plan))
    assert (first.rows, first.violations, first.positions) == (6, (), {"t:0": 3, "t:1": 3})
    assert _rows(tmp_path) == _FIRST
    brokers.partitions[_P0].batches.append(changes(3, *_MORE))
    assert ingest(spark, prepare(plan)).rows == 2
    assert _rows(tmp_path) == _SECOND
    assert _faults(spark, tmp_path) == []
    assert not list((tmp_path / "table" / "_changes").rglob("*.parquet"))


@pytest.mark.parametrize("moment", ["_judge", "_count"], ids=["before-commit", "after-commit"])
def test_a_batch_that_fails_around_its_commit_is_folded_once(
    spark, brokers, plan, tmp_path, monkeypatch, moment
):
    ingest(spark, prepare(plan))
    brokers.partitions[_P0].batches.append(changes(3, *_MORE))
    with monkeypatch.context() as broken:
        fail_once_behind(moment, broken)
        with pytest.raises(OSError, match="no space left"):
            ingest(spark, prepare(plan))
    again = ingest(spark, prepare(plan))
    assert again.repeated_batches == (moment == "_count")
    assert _rows(tmp_path) == _SECOND and _faults(spark, tmp_path) == []


def test_a_commit_that_met_another_topics_is_repeated_without_merging_anew(
    spark, brokers, plan, tmp_path, monkeypatch
):
    brokers.partitions[TopicPartition("u", 7)] = ScriptedPartition([changes(0, *_MORE)])
    other = replace(plan, topic="u")
    for one in (plan, other):
        ingest(spark, prepare(one))
    brokers.partitions[_P0].batches.append(changes(3, *_MORE))
    brokers.partitions[TopicPartition("u", 7)].batches.append(changes(2, *_MORE))
    whole, merged, changed = BronzeTable._write, Merging._merged, []

    def counted(self, *arguments):
        changed.append("merge")
        return merged(self, *arguments)

    def late(self, *arguments):
        if changed == ["merge"]:
            changed.append("change")
            with monkeypatch.context() as unbroken:
                unbroken.setattr(Merging, "_merged", merged)
                unbroken.setattr(BronzeTable, "_write", whole)
                ingest(spark, prepare(other))
        return whole(self, *arguments)

    monkeypatch.setattr(Merging, "_merged", counted)
    monkeypatch.setattr(BronzeTable, "_write", late)
    ingest(spark, prepare(plan))
    assert changed.count("merge") == 1
    assert _rows(tmp_path) == _SECOND and _faults(spark, tmp_path) == []


def test_a_key_in_two_partitions_ends_the_run_before_the_commit(spark, brokers, plan, tmp_path):
    ingest(spark, prepare(plan))
    brokers.partitions[_P1].batches.append(changes(3, (b"a", b"9")))
    with pytest.raises(JobFailed, match="KeyMoved: key b'a' of `t` is in partition 1 at offset 3"):
        ingest(spark, prepare(plan))
    assert _rows(tmp_path) == _FIRST


def test_fields_of_a_typed_key_name_the_row_and_bad_changes_leave_it(spark, tmp_path, monkeypatch):
    """Through Spark's workers, with a transform of a module that they do not have."""
    (tmp_path / "transforms_of_a_user.py").write_text(
        "def doubled(rows):\n    return rows.append_column('twice', rows.column('offset'))\n"
    )
    monkeypatch.chdir(tmp_path)
    transform = load_transform("transforms_of_a_user:doubled")
    keys = [
        b'{"id": 1, "at": "x"}',
        b'{"at":"y","id":1}',
        b'{"id": 2}',
        b'{"id": "?"}',
        b'{"id": 2}',
    ]
    values = [b'{"n": 1}', b'{"n": 2}', b'{"n": 3}', b'{"n": 4}', b'{"n": "?"}']
    log = changes(0, *zip(keys, values, strict=True))
    asked = [
        AskedLayout(Format.JSON, parse_schema(text)) for text in ("id int, at string", "n int")
    ]
    with ScriptedCluster({_P0: ScriptedPartition([log])}) as brokers:
        place = brokers.bootstrap_servers, "t", tmp_path / "table"
        plan = IngestPlan(
            *place, key=asked[0], value=asked[1], upsert=Upsert(("id",)), transform=transform
        )
        done = ingest(spark, prepare(plan))
    assert (done.rows, done.quarantined_rows) == (3, 2)
    found = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    assert all(row["twice"] == row["offset"] for row in found)
    assert {(r["key"]["id"], r["key"]["at"], r["value"]["n"], r["offset"]) for r in found} == {
        (1, "y", 2, 1),
        (2, None, 3, 2),
    }
    assert _faults(spark, tmp_path) == []


def _change(number):
    """Values with the numbers of their records; each seventh is a tombstone."""
    return None if number % 7 == 3 else b'{"number": %d}' % number


def test_kills_of_driver_and_workers_cost_nothing(spark, cluster, tmp_path):
    """Real nodes, a real process, SIGKILL; another driver takes its checkpoint over."""
    cluster.create_topic("killed-upserts", partitions=3, replication_factor=3)
    plan = KillPlan(["driver"], "killed-upserts", tmp_path, "local[2,4]", mode="upsert")
    feeder = Feeder(cluster.bootstrap_servers, plan.topic, plan.records_per_s, _change)
    prng = Prng(1)
    with ingest_process(plan, cluster.bootstrap_servers) as process:
        for kind in ("worker", "driver"):
            wait_for_table(plan, process, len(feeder.acked))
            while not process.kill(kind, prng):
                threading.Event().wait(0.05)
    feeder.close()
    place = cluster.bootstrap_servers, plan.topic, tmp_path / "table"
    value = AskedLayout(Format.JSON)
    done = ingest(spark, prepare(IngestPlan(*place, value=value, upsert=Upsert())))
    assert sum(done.positions.values()) == len(feeder.acked)
    newest = {}
    for number, at in feeder.acked.items():
        key = (at[0], b"%d" % (number % 97))
        newest[key] = max(newest.get(key, (-1, 0)), (at[1], number))
    expected = {
        (*key, offset): number
        for key, (offset, number) in newest.items()
        if _change(number) is not None
    }
    rows = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    found = {(r["partition"], r["key"], r["offset"]): r["value"]["number"] for r in rows}
    assert found == expected and len(rows) == len(found)
    assert _faults(spark, tmp_path) == []
