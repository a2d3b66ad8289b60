"""The quarantine: what does not parse is there with its bytes, once, whenever the run ended."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.unit.pipeline.bronze_rows import open_table, rows, written
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.quarantine import QUARANTINE_SCHEMA, QuarantineFile, quarantined_rows
from tidelog.pipeline.tables.table_files import TableTask, TaskReport, write_files
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.parsing import Layout
from tidelog.pipeline.typed.schema_text import parse_schema

_JSON = Layout(Format.JSON, parse_schema("id bigint"))
_GOOD, _BAD = '{"id": %d}', '{"id": "%d"}'


def _read(directory):
    table = DeltaTable(str(directory / "_quarantine")).to_pyarrow_table()
    return sorted(table.to_pylist(), key=lambda row: row["offset"])


def test_rows_keep_their_bytes_and_get_part_and_reason():
    found = quarantined_rows(rows(5, 9, value=_BAD), {2: ("value", "why")}, 3)
    assert found.schema == QUARANTINE_SCHEMA
    (row,) = found.to_pylist()
    assert (row["topic"], row["partition"], row["offset"], row["value"]) == (
        "t",
        0,
        7,
        b'{"id": "7"}',
    )
    assert (row["part"], row["reason"], row["ingest_batch"]) == ("value", "why", 3)


def test_a_file_is_there_when_it_has_rows(tmp_path):
    file = QuarantineFile(TableAddress.of(tmp_path), 0)
    assert file.finish() == ()
    assert list(tmp_path.iterdir()) == []
    file.add(quarantined_rows(rows(0, 2), {0: ("key", "why")}, 0))
    (done,) = file.finish()
    rows_there = pq.read_metadata(tmp_path / "_quarantine" / done.path).num_rows
    assert rows_there == done.stats["numRecords"] == 1


def test_good_and_bad_records_of_a_task_part(tmp_path):
    mixed = [rows(0, 3, value=_GOOD), rows(3, 5, value=_BAD), rows(5, 8, value=_GOOD, control=True)]
    report = write_files(TableTask(TableAddress.of(tmp_path), 0, value=_JSON), iter(mixed))
    (file,) = report.files
    (bad,) = report.quarantine
    found = pq.read_table(tmp_path / file.path, partitioning=None)
    assert found.column("value").to_pylist() == [{"id": offset} for offset in (0, 1, 2, 5, 6)]
    assert pq.read_table(tmp_path / "_quarantine" / bad.path).column("offset").to_pylist() == [3, 4]
    (piece,) = report.pieces
    assert (piece.rows, piece.quarantined_rows, piece.control_rows) == (5, 2, 1)
    assert TaskReport.from_text(report.to_text()) == report


def test_a_record_whose_key_and_value_are_bad_is_there_once(tmp_path):
    task = TableTask(TableAddress.of(tmp_path), 0, key=_JSON, value=_JSON)
    report = write_files(task, iter([rows(0, 2, value=_BAD)]))
    assert report.files == ()
    assert [file.stats for file in report.quarantine] == [{"numRecords": 2}]


def test_a_task_that_fails_takes_its_bad_records_back(tmp_path):
    def failing():
        yield rows(0, 5, value=_BAD)
        raise OSError("the source failed")

    with pytest.raises(OSError, match="the source failed"):
        write_files(TableTask(TableAddress.of(tmp_path), 0, value=_JSON), failing())
    assert list(tmp_path.rglob("*.parquet")) == []


def test_the_quarantine_follows_the_commits_after_every_crash(tmp_path, monkeypatch):
    table = open_table(tmp_path, value=_JSON)
    batches = [(0, 4, _GOOD), (4, 6, _BAD), (6, 7, _GOOD), (7, 9, _BAD), (9, 10, _BAD)]
    for number, (start, end, value) in enumerate(batches):
        table.commit(written(table, number, rows(start, end, value=value), value=_JSON))
        if number == 1:
            table.sync_continuity()
        if number == 3:
            # The process dies between the quarantine and the accounts.
            monkeypatch.setattr("tidelog.pipeline.tables.table.continuity_table", None)
            with pytest.raises(TypeError):
                table.sync_continuity()
            monkeypatch.undo()
    reopened = open_table(tmp_path, value=_JSON)
    reopened.sync_continuity()
    reopened.sync_continuity()
    assert [row["offset"] for row in _read(tmp_path)] == [4, 5, 7, 8, 9]
    accounts = DeltaTable(str(tmp_path / "_continuity")).to_pyarrow_table().to_pylist()
    assert [row["status"] for row in accounts] == ["ok"] * 5
    assert sum(row["rows"] + row["quarantined_rows"] for row in accounts) == 10
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 5


def test_accounts_of_a_table_without_a_quarantine_get_the_column(tmp_path, monkeypatch):
    old = pa.schema([field for field in _continuity() if field.name != "quarantined_rows"])
    table = open_table(tmp_path)
    DeltaTable.create(str(tmp_path / "_continuity"), old)
    batch = written(table, 0, rows(0, 2))
    table.commit(replace(batch, quarantine=()))
    table.sync_continuity()
    (account,) = DeltaTable(str(tmp_path / "_continuity")).to_pyarrow_table().to_pylist()
    assert (account["rows"], account["quarantined_rows"]) == (2, 0)


def _continuity():
    from tidelog.pipeline.tables.continuity import CONTINUITY_SCHEMA

    return CONTINUITY_SCHEMA
