"""Changes folded into buckets: the newest of each key, tombstones, keys without an order."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.pipeline.bronze_rows import change_rows
from tidelog.pipeline.errors import KeyMoved
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.table_files import (
    RAW,
    TableTask,
    file_schema,
    table_schema,
    write_files,
)
from tidelog.pipeline.tables.upserts import (
    BUCKETS,
    NO_KEY,
    MergeTask,
    Upsert,
    _buckets,
    identities,
    merge,
    newest,
)

_WHOLE = Upsert(app="app")


def _newest(changes, upsert=_WHOLE):
    found = newest(pa.Table.from_batches([changes]), upsert).to_pylist()
    return {row["key"]: (row["offset"], row["value"]) for row in found}


def test_the_change_with_the_largest_offset_is_the_newest_in_any_order():
    changes = change_rows((0, b"a", b"1"), (3, b"a", None), (2, b"a", b"2"), (1, b"b", b"3"))
    assert _newest(changes) == {b"a": (3, None), b"b": (1, b"3")}
    assert _newest(change_rows()) == {}


def test_a_key_in_two_partitions_is_refused_with_both_places():
    changes = pa.concat_batches(
        [change_rows((7, b"a", b"1")), change_rows((2, b"a", b"1"), partition=1)]
    )
    with pytest.raises(
        KeyMoved, match=r"key b'a' of `t` is in partition 1 at offset 2 and in .* 0 at"
    ):
        _newest(changes)


def test_fields_of_a_key_name_a_row_and_no_two_keys_are_mistaken():
    keys = pa.array([{"a": "1", "b": 23}, {"a": "12", "b": 3}, {"a": None, "b": 1}, None])
    names = identities(keys, Upsert(("a", "b"))).to_pylist()
    assert len(set(names)) == 3 and names[2:] == [None, None]
    assert identities(keys, Upsert(("b",))).to_pylist() == [b"23", b"3", b"1", None]


def test_a_key_stays_in_its_bucket():
    """Tables are divided by it: these numbers must never change."""
    assert _buckets(pa.array([b"", b"a", b"key-1"], pa.binary())).tolist() == [0, 3, 10]


class _Table:
    """One bucketed table without a Delta log: the buckets' files are those that merges made."""

    def __init__(self, directory, upsert=_WHOLE):
        self.directory, self._upsert = directory, upsert
        self.files, self.batch = {}, 0

    def write(self, *batches):
        task = TableTask(TableAddress.of(self.directory), self.batch, upsert=self._upsert)
        return write_files(task, iter(batches))

    def merge(self, report):
        grown = {}
        for bucket in sorted({one for file in report.files for one in file.stats[BUCKETS]}):
            done = merge(
                MergeTask(
                    TableAddress.of(self.directory),
                    "t",
                    bucket,
                    self.batch,
                    self._upsert,
                    file_schema(table_schema(RAW, RAW, self._upsert)),
                    tuple(f.path for f in report.files if bucket in f.stats[BUCKETS]),
                    self.files.get(bucket, ()),
                )
            )
            assert type(done).from_text(done.to_text()) == done
            self.files[bucket] = () if done.file is None else (done.file.path,)
            for partition, rows in done.grown.items():
                grown[partition] = grown.get(partition, 0) + rows
        self.batch += 1
        return grown

    def rows(self):
        paths = [path for files in self.files.values() for path in files]
        tables = [pq.read_table(self.directory / path, partitioning=None) for path in paths]
        rows = pa.concat_tables(tables).to_pylist() if tables else []
        return {row["key"]: (row["offset"], row["value"], row["ingest_batch"]) for row in rows}


def test_rows_are_added_replaced_and_deleted_with_their_lineage(tmp_path):
    table = _Table(tmp_path)
    first = table.write(
        change_rows((0, b"a", b"1"), (1, b"b", b"1"), (2, b"c", b"1"), (3, b"a", b"2")),
        change_rows((0, b"x", b"1"), (1, b"y", None), partition=1),
    )
    assert [(one.rows, one.quarantined_rows) for one in first.pieces] == [(4, 0), (2, 0)]
    assert table.merge(first) == {0: 3, 1: 1}
    second = table.write(change_rows((4, b"b", None), (5, b"c", b"2"), (6, b"d", b"1")))
    assert table.merge(second) == {0: 0}
    assert table.rows() == {
        b"a": (3, b"2", 0),
        b"c": (5, b"2", 1),
        b"d": (6, b"1", 1),
        b"x": (0, b"1", 0),
    }


def test_a_bucket_without_rows_has_no_file(tmp_path):
    table = _Table(tmp_path)
    table.merge(table.write(change_rows((0, b"a", b"1"))))
    assert table.merge(table.write(change_rows((1, b"a", None)))) == {0: -1}
    assert table.rows() == {} and set(table.files.values()) == {()}


def test_a_change_of_a_row_from_another_partition_is_refused_and_leaves_no_file(tmp_path):
    table = _Table(tmp_path)
    table.merge(table.write(change_rows((5, b"a", b"1"))))
    before = set(tmp_path.glob("topic=t/**/*.parquet"))
    moved = table.write(change_rows((9, b"a", b"1"), partition=1))
    with pytest.raises(KeyMoved, match="partition 1 at offset 9 and in partition 0 at offset 5"):
        table.merge(moved)
    assert set(tmp_path.glob("topic=t/**/*.parquet")) == before


def test_a_change_without_a_key_goes_to_the_quarantine(tmp_path):
    table = _Table(tmp_path)
    report = table.write(change_rows((0, None, b"1"), (1, b"a", b"1")))
    assert [(one.rows, one.quarantined_rows) for one in report.pieces] == [(1, 1)]
    bad = pq.read_table(tmp_path / "_quarantine" / report.quarantine[0].path).to_pylist()
    assert [(row["offset"], row["part"], row["reason"]) for row in bad] == [(0, "key", NO_KEY)]


def test_changes_that_do_not_fit_in_memory_are_folded_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("tidelog.pipeline.row_groups._ROW_GROUP_ROWS", 4)
    monkeypatch.setattr("tidelog.pipeline.tables.upserts._HELD_ROWS", 6)
    keys = [b"%d" % (number * number % 23) for number in range(100)]
    batches = [
        change_rows(*((o, keys[o], None if o % 7 == 0 else b"%d" % o) for o in range(s, s + 5)))
        for s in range(0, 100, 5)
    ]
    table = _Table(tmp_path)
    report = table.write(*batches)
    grown = table.merge(report)
    last = {key: number for number, key in enumerate(keys)}
    expected = {k: (o, b"%d" % o, 0) for k, o in last.items() if o % 7}
    assert table.rows() == expected and grown == {0: len(expected)}
    assert report.files[0].stats["numRecords"] > len(last), "all was folded at once"


def test_a_task_that_fails_takes_its_changes_back(tmp_path, monkeypatch):
    monkeypatch.setattr("tidelog.pipeline.row_groups._ROW_GROUP_ROWS", 1)
    monkeypatch.setattr("tidelog.pipeline.tables.upserts._HELD_ROWS", 0)

    def failing():
        yield change_rows((0, b"a", b"1"))
        raise OSError("the source failed")

    with pytest.raises(OSError, match="the source failed"):
        write_files(TableTask(TableAddress.of(tmp_path), 0, upsert=_WHOLE), failing())
    assert list(tmp_path.rglob("*.parquet")) == []
