"""One Parquet file of a table: its statistics, its place, its columns."""

import re
import resource

import pyarrow.parquet as pq
import pytest

from tests.unit.pipeline.bronze_rows import rows
from tidelog.env.prng import Prng
from tidelog.pipeline.errors import DiskFull
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.data_files import OpenFile
from tidelog.pipeline.tables.table_files import (
    RAW,
    TableTask,
    file_schema,
    table_schema,
    write_files,
)

_SCHEMA = file_schema(table_schema(RAW, RAW))


def test_a_file_has_statistics_of_its_rows(tmp_path):
    batches = [rows(5, 9), rows(0, 2, partition=4)]
    (file,) = write_files(TableTask(TableAddress.of(tmp_path), 3), iter(batches)).files
    assert file.topic == "t"
    assert file.path.startswith("topic=t/batch-00000003-")
    assert file.size_bytes == (tmp_path / file.path).stat().st_size
    low = {"partition": 0, "offset": 0, "leader_epoch": 1, "ingest_batch": 3}
    high = {"partition": 4, "offset": 8, "leader_epoch": 1, "ingest_batch": 3}
    assert file.stats == {"numRecords": 6, "minValues": low, "maxValues": high}


def test_a_file_lies_below_its_partition_values(tmp_path):
    file = OpenFile(TableAddress.of(tmp_path), "t", 4, _SCHEMA, {"key_bucket": "7"})
    file.write(rows(0, 3))
    done = file.finish()
    assert done.path.startswith("topic=t/key_bucket=7/batch-00000004-")
    assert done.partition == {"key_bucket": "7"}
    assert pq.read_metadata(tmp_path / done.path).num_rows == 3


def test_rows_keep_the_batch_and_the_file_that_they_came_with(tmp_path):
    first = OpenFile(TableAddress.of(tmp_path), "t", 4, _SCHEMA)
    first.write(rows(0, 2))
    old = first.finish()
    second = OpenFile(TableAddress.of(tmp_path), "t", 5, _SCHEMA)
    second.write(pq.read_table(tmp_path / old.path, partitioning=None).to_batches()[0])
    second.end_row_group()
    second.write(rows(2, 3))
    done = second.finish()
    table = pq.read_table(tmp_path / done.path, partitioning=None)
    assert table.column("ingest_batch").to_pylist() == [4, 4, 5]
    assert table.column("ingest_file").to_pylist() == [old.path, old.path, done.path]
    assert (done.stats["minValues"]["ingest_batch"], done.stats["maxValues"]["ingest_batch"]) == (
        4,
        5,
    )


def test_a_file_that_is_discarded_is_gone(tmp_path):
    file = OpenFile(TableAddress.of(tmp_path), "t", 4, _SCHEMA)
    file.write(rows(0, 3))
    file.discard()
    assert list(tmp_path.rglob("*.parquet")) == []


@pytest.fixture
def small_files():
    """The system lets no file of this process grow beyond 64 KiB, as a full disk would not."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_for_which_there_is_no_space_is_named_and_taken_back(tmp_path, small_files):
    task = TableTask(TableAddress.of(tmp_path), 7)
    noise = Prng(1)
    random = "".join(chr(33 + noise.below(90)) for _ in range(100_000)).replace("%", "")
    with pytest.raises(DiskFull) as caught:
        write_files(task, iter([rows(0, 3, value=f"{random}%d")]))
    message, hint = str(caught.value).split("\n")
    assert re.match(
        rf"`{tmp_path}/topic=t/batch-00000007-\S+` cannot be written: .*File too", message
    )
    assert hint.startswith("hint: free space on its disk, and run it again")
    assert list(tmp_path.rglob("*.parquet")) == []
