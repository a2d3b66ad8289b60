"""The tasks of the table sink: what is in the files, and what is left when one fails."""

from dataclasses import replace
from datetime import date

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.unit.pipeline.bronze_rows import TOPIC_ID, open_table, rows
from tidelog.errors import UsageError
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.compaction import compact
from tidelog.pipeline.tables.continuity import judge
from tidelog.pipeline.tables.table import BronzeTable, TableBatch
from tidelog.pipeline.tables.table_files import (
    BRONZE_SCHEMA,
    RAW,
    TableTask,
    TaskReport,
    parsed_schema,
    table_schema,
    write_files,
)
from tidelog.pipeline.typed.transforms import Transform
from tidelog.pipeline.values import OffsetRange


def _read(directory, report):
    return [pq.read_table(directory / file.path, partitioning=None) for file in report.files]


def test_rows_get_their_lineage_and_control_records_stay_out(tmp_path):
    report = write_files(TableTask(TableAddress.of(tmp_path), 3), iter([rows(5, 9, control=True)]))
    (file,) = report.files
    (table,) = _read(tmp_path, report)
    assert table.schema.names == [name for name in BRONZE_SCHEMA.names if name != "topic"]
    assert table.column("offset").to_pylist() == [5, 6, 7]
    assert set(table.column("ingest_batch").to_pylist()) == {3}
    assert set(table.column("ingest_file").to_pylist()) == {file.path}
    header = [{"key": "h", "value": None}]
    assert table.column("headers").to_pylist() == [header, None, header]
    (piece,) = report.pieces
    assert (piece.rows, piece.control_rows, piece.first, piece.last) == (3, 1, 5, 8)


def test_full_files_are_followed_by_others(tmp_path, monkeypatch):
    monkeypatch.setattr("tidelog.pipeline.row_groups._ROW_GROUP_ROWS", 10)
    task = TableTask(TableAddress.of(tmp_path), 0, file_bytes=1)
    report = write_files(task, (rows(start, start + 10) for start in range(0, 30, 10)))
    assert [table.num_rows for table in _read(tmp_path, report)] == [10, 10, 10]


def test_each_topic_has_files_of_its_own(tmp_path):
    mixed = pa.concat_batches([rows(0, 2), rows(0, 3, topic="u")])
    report = write_files(TableTask(TableAddress.of(tmp_path), 0), iter([mixed]))
    assert [(file.topic, file.stats["numRecords"]) for file in report.files] == [("t", 2), ("u", 3)]


def _with_kind(rows):
    kinds = ["a/b c%", "", None, "é"]
    column = pa.array([kinds[o % 4] for o in rows.column("offset").to_pylist()], pa.string())
    return rows.append_column("kind", column)


_BY = ("date", "kind")


def _partitioned(directory):
    transform = Transform("m:f", _with_kind).planned(parsed_schema(RAW, RAW))
    schema = table_schema(RAW, RAW, None, transform, _BY)
    table = BronzeTable.open(directory, "t", TOPIC_ID, schema=schema, partition_by=_BY)
    return table, TableTask(TableAddress.of(directory), 0, transform=transform, partition_by=_BY)


def test_rows_lie_by_the_day_and_by_columns_of_a_transform(tmp_path, monkeypatch):
    monkeypatch.setattr("tidelog.pipeline.tables.table_files.MAX_OPEN_FILES", 2)
    table, task = _partitioned(tmp_path)
    report = write_files(task, iter([rows(0, 6), rows(6, 9)]))
    assert all("/date=1970-01-01/" in one.path for one in report.files)
    account = judge([OffsetRange("t", 0, 0, 9)], report.pieces, {}, compacted=False, batch=0)
    table.commit(TableBatch("app", 0, report.files, tuple(account)))
    expected = sorted((o, date(1970, 1, 1), ["a/b c%", None, None, "é"][o % 4]) for o in range(9))
    columns = ["offset", "date", "kind"]
    for step in (lambda: None, lambda: compact(tmp_path)):
        step()
        found = DeltaTable(str(tmp_path)).to_pyarrow_table(columns=columns).to_pylist()
        assert sorted((row["offset"], row["date"], row["kind"]) for row in found) == expected
    assert polars.read_delta(str(tmp_path)).filter(polars.col("kind") == "a/b c%").height == 3
    with pytest.raises(UsageError, match="was made with `--partition-by date,kind`"):
        open_table(tmp_path)


def test_a_task_without_rows_makes_no_file(tmp_path):
    assert write_files(TableTask(TableAddress.of(tmp_path), 0), iter([rows(0, 0)])) == TaskReport(
        (), ()
    )
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_fails_takes_its_files_back(tmp_path):
    def failing():
        yield rows(0, 5)
        yield rows(0, 5, topic="u")
        raise OSError("the source failed")

    with pytest.raises(OSError, match="the source failed"):
        write_files(TableTask(TableAddress.of(tmp_path), 0), failing())
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_report_travels_as_text(tmp_path):
    task = TableTask(TableAddress.of(tmp_path), 0)
    report = write_files(task, iter([rows(0, 5)]))
    assert TaskReport.from_text(report.to_text()) == report
    (row,) = [row for batch in task(iter([rows(0, 5)])) for row in batch.to_pylist()]
    assert replace(TaskReport.from_text(row["report"]), files=()) == replace(report, files=())
