"""The address of a table, and tables in an object store: the same promises as in a directory."""

import json
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.s3_server import COMMITS, SECRET, Rule, S3Server
from tests.unit.pipeline.bronze_rows import (
    change_rows,
    merged,
    open_table,
    open_upserts,
    rows,
    written,
)
from tidelog.pipeline.errors import OtherWriter, StoreUnavailable, TableDamaged
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.compaction import compact
from tidelog.pipeline.tables.table_files import TableTask, write_files
from tidelog.pipeline.tables.table_schema import existing_schema
from tidelog.pipeline.tables.upserts import Upsert
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.parsing import Layout

_JSON = Layout(Format.JSON, pa.struct([("n", pa.int32())]))
_WIDE = Layout(Format.JSON, pa.struct([("n", pa.int64())]))
_SECRET = {"AWS_SECRET_ACCESS_KEY": "geheim", "aws_region": "eu"}


def test_a_path_is_a_directory_and_an_address_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for table in ("a/b", Path("a/b"), f"file://{tmp_path}/a/b"):
        assert TableAddress.of(table).directory == tmp_path / "a" / "b"
    for table in ("s3://lake/a/b/", Path("s3://lake/a/b"), "S3://lake/a/b"):
        assert (str(TableAddress.of(table)), TableAddress.of(table).directory) == (
            "s3://lake/a/b",
            None,
        )
    for table in ("gs://lake/a", "abfss://lake@account.dfs.core.windows.net/a", "az://lake/a"):
        assert str(TableAddress.of(table)) == table
    assert str(TableAddress.of("s3://lake/a") / "_continuity") == "s3://lake/a/_continuity"


def test_an_address_shows_no_credentials_and_takes_them_along():
    address = TableAddress.of("s3://lake/a", _SECRET)
    assert "geheim" not in f"{address} {address!r} {address / 'b'!r}"
    assert pickle.loads(pickle.dumps(address)) == address
    assert dict(address.options)["aws_secret_access_key"] == "geheim"


@pytest.fixture
def address(object_store: S3Server) -> TableAddress:
    return TableAddress.of(object_store.place(), object_store.options)


def _offsets(address: TableAddress) -> list[tuple[str, int]]:
    found = address.delta().to_pyarrow_table(columns=["topic", "offset"]).to_pylist()
    return sorted((row["topic"], row["offset"]) for row in found)


def _numbers(address: TableAddress) -> list[int]:
    accounts = (address / "_continuity").delta().to_pyarrow_table().to_pylist()
    return [sum(line[name] for line in accounts) for name in ("rows", "quarantined_rows")]


def test_rows_and_quarantine_are_the_offsets_also_after_reopening_and_compaction(address):
    table = open_table(address, value=_JSON)
    for batch in range(3):
        good = rows(batch * 5, batch * 5 + 4, value='{"n": %d}')
        bad = rows(batch * 5 + 4, batch * 5 + 5, value="bad %d")
        table.commit(written(table, batch, good, bad, value=_JSON))
        table = open_table(address, value=_JSON)
    table.sync_continuity()
    assert table.ends == {"t:0": 15}
    assert _numbers(address) == [12, 3]
    assert (address / "_quarantine").delta().to_pyarrow_table().num_rows == 3
    before = _offsets(address)
    done = compact(address, vacuum_hours=1)
    assert (done.files_before, done.files_after, done.rows) == (3, 1, 12)
    assert _offsets(address) == before
    assert address.names() == ["_continuity", "_delta_log", "_quarantine", "topic=t"]


def test_wider_types_and_upserts_replace_files(address):
    table = open_table(address / "records", value=_JSON)
    table.commit(written(table, 0, rows(0, 5, value='{"n": %d}'), value=_JSON))
    open_table(address / "records", value=_WIDE)
    assert existing_schema(address / "records").field("value").type == _WIDE.type
    assert len(_offsets(address / "records")) == 5

    upsert = Upsert(app="app")
    table = open_upserts(address / "rows", upsert)
    table.commit(merged(table, 0, upsert, change_rows((0, b"a", b"1"), (1, b"b", b"2"))))
    table.commit(merged(table, 1, upsert, change_rows((2, b"a", None), (3, b"b", b"3"))))
    found = (address / "rows").delta().to_pyarrow_table(columns=["key", "value"]).to_pylist()
    assert found == [{"key": b"b", "value": b"3"}]
    assert "_changes" in (address / "rows").names()
    (address / "rows").remove_below("_changes/app")
    assert "_changes" not in (address / "rows").names()


def test_writers_of_different_topics_commit_side_by_side(address):
    """Each commit is a conditional put of the next version; the one that loses takes another."""
    names, batches = ("a", "b", "c"), 6
    tables = {name: open_table(address, name) for name in names}

    def write(name: str) -> None:
        for batch in range(batches):
            some = rows(batch, batch + 1, topic=name)
            tables[name].commit(written(tables[name], batch, some, app=name))

    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(write, name) for name in names]:
            done.result()
    assert _offsets(address) == [(name, o) for name in names for o in range(batches)]
    assert address.delta().version() == len(names) * batches


def test_of_two_writers_of_a_topic_one_is_refused(address):
    first, second = open_table(address), open_table(address)
    late = written(second, 0, rows(0, 5), app="another")
    first.commit(written(first, 0, rows(0, 5)))
    with pytest.raises(OtherWriter, match="another writer writes topic `t` into `s3://lake/"):
        second.commit(late)
    assert len(_offsets(address)) == 5


@pytest.mark.parametrize("makes", ["append", "upsert"])
def test_a_commit_whose_answer_is_lost_is_there_once(object_store, address, makes):
    """delta-rs repeats the request, which finds the object there: it looks like another writer."""
    upsert = Upsert(app="app")
    table = open_table(address) if makes == "append" else open_upserts(address, upsert)

    def batch(number: int) -> object:
        if makes == "append":
            return written(table, number, rows(number, number + 1))
        return merged(table, number, upsert, change_rows((number, b"k", b"%d" % number)))

    table.commit(batch(0))
    lost = Rule(COMMITS.format(str(address).removeprefix("s3:/")), "InternalError", 500, True)
    with object_store.obeying(replace(lost, times=1)):
        table.commit(batch(1))
    table.commit(batch(2))
    assert table.ends == open_table(address).ends if makes == "append" else True
    assert table.ends == {"t:0": 3}
    assert [o for _, o in _offsets(address)] == ([0, 1, 2] if makes == "append" else [2])


def _denied(object_store: S3Server, work: Callable[[], object]) -> str:
    denied = Rule(".*", "ExpiredToken", 403)
    with object_store.obeying(denied), pytest.raises(StoreUnavailable) as caught:
        work()
    return str(caught.value)


def test_a_store_that_refuses_is_one_line_and_the_same_batch_goes_on_later(object_store, address):
    table = open_table(address)
    table.commit(written(table, 0, rows(0, 5)))
    task = TableTask(address, 1)
    new = written(table, 1, rows(5, 9))
    for work in (
        lambda: table.commit(new),
        lambda: open_table(address),
        lambda: table.has("app", 0),
        lambda: table.sync_continuity(),
        lambda: list(task(iter([rows(5, 9)]))),
        lambda: compact(address),
        lambda: existing_schema(address),
    ):
        text = _denied(object_store, work)
        assert text.startswith(f"the table `{address}` cannot be reached: ")
        assert "ExpiredToken" in text and "\n" not in text and SECRET not in text
    table.reload()
    table.commit(new)
    assert table.ends == {"t:0": 9}


@pytest.mark.parametrize("where", ["directory", "store"])
def test_a_half_deleted_table_is_named_and_goes_on_when_its_files_are_back(
    address, tmp_path, where
):
    """Before a commit in each case, and by every command that reads the table."""
    place = address if where == "store" else TableAddress.of(tmp_path / "table")
    table = open_table(place)
    for batch in range(2):
        table.commit(written(table, batch, rows(5 * batch, 5 * batch + 5)))
    new = written(table, 2, rows(10, 15))
    log = [f"_delta_log/{version:020}.json" for version in range(3)]
    (data, *_) = place.delta().file_uris()
    for name, change, seen_by in (
        (log[0], None, (lambda: open_table(place),)),
        (log[1], None, (lambda: open_table(place), lambda: compact(place))),
        (log[2], b'{"add":', (table.reload, lambda: open_table(place))),
        (f"topic=t/{data.rpartition('/')[2]}", None, (lambda: compact(place),)),
    ):
        was = place.read(name)
        place.remove(name)
        if change is not None:
            _put(place, name, change)
        for work in seen_by:
            with pytest.raises(TableDamaged) as caught:
                work()
            assert str(caught.value).startswith(f"the table `{place}` is damaged: ")
            assert (
                str(caught.value).count("\n") == str(caught.value).count("\nhint: bring back") == 1
            )
        _put(place, name, was)
    table.commit(new)
    assert _offsets(place) == [("t", offset) for offset in range(15)]


def _put(place: TableAddress, name: str, content: bytes) -> None:
    with pa.BufferedOutputStream(place.new_file(name), 1 << 16) as file:
        file.write(content)


def test_credentials_are_in_no_file_of_the_table(address):
    table = open_table(address)
    table.commit(written(table, 0, rows(0, 2)))
    table.sync_continuity()
    for place in (address, address / "_continuity"):
        for name in (place / "_delta_log").names():
            text = place.read(f"_delta_log/{name}").decode()
            assert SECRET not in text
            assert all(isinstance(json.loads(line), dict) for line in text.splitlines())


def test_a_task_that_fails_leaves_no_file(address):
    def failing():
        yield rows(0, 5)
        raise ValueError("the source failed")

    with pytest.raises(ValueError, match="the source failed"):
        write_files(TableTask(address, 0), failing())
    assert address.names() == []
