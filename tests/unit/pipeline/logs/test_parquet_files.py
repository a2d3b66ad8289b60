"""What a task of an export writes, and what it leaves behind when it fails."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.pipeline.log_directories import batches, write_broker
from tidelog.errors import CorruptBatch
from tidelog.pipeline.logs import parquet_files
from tidelog.pipeline.logs.layout import find_replicas
from tidelog.pipeline.logs.parquet_files import Portion, Written, write_file
from tidelog.pipeline.logs.scan import SEGMENT_RECORD_SCHEMA, scan_records


@pytest.fixture
def places(tmp_path):
    """The segments of two partitions with a hundred and fifty records."""
    write_broker(tmp_path / "logs", 1, {"t-0": batches(), "t-1": batches(5)}, 100)
    replicas = find_replicas([tmp_path / "logs"])
    return [place for one in replicas for place in one.segments]


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def test_a_file_has_the_records_within_the_offsets_in_order(places, out):
    written = write_file(out, [Portion(places[0], 13, 87), Portion(places[1], 0, 1000)])
    (path,) = out.iterdir()
    size_bytes = path.stat().st_size
    assert written == [
        Written(path.name, size_bytes, "t", 0, 74),
        Written(path.name, size_bytes, "t", 1, 50),
    ]
    whole = [
        pa.Table.from_batches(scan_records(place, SEGMENT_RECORD_SCHEMA.names)) for place in places
    ]
    found = pq.read_table(path)
    assert found == pa.concat_tables([whole[0].slice(13, 74), whole[1]])
    assert found.schema == SEGMENT_RECORD_SCHEMA


def test_row_groups_are_bounded_and_lose_nothing(places, out, monkeypatch):
    monkeypatch.setattr(parquet_files, "_ROW_GROUP_ROWS", 60)
    write_file(out, [Portion(place, 0, 1000) for place in places])
    (path,) = out.iterdir()
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [100, 50]
    assert file.metadata.row_group(0).column(9).compression == "SNAPPY"


def test_no_records_make_no_file(places, out):
    assert write_file(out, [Portion(places[0], 100, 200), Portion(places[1], 7, 7)]) == []
    assert write_file(out, []) == []
    assert not list(out.iterdir())


def test_a_task_that_fails_takes_its_file_away(places, out, tmp_path):
    damaged = tmp_path / "logs" / "node-1" / "data" / "t-1" / f"{0:020d}.log"
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(CorruptBatch, match="`t-1`"):
        write_file(out, [Portion(place, 0, 1000) for place in places])
    assert not list(out.iterdir())
