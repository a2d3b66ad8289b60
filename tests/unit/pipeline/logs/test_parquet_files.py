"""What a task of an export writes, and what it leaves behind when it fails."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.pipeline.log_directories import batch, batches, write_broker, write_segment
from tidelog.errors import CorruptBatch, UsageError
from tidelog.pipeline import row_groups
from tidelog.pipeline.logs.layout import Replica, SegmentPlace, find_replicas
from tidelog.pipeline.logs.parquet_files import Portion, Written, portions_of, write_file
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
    written = write_file(out, [Portion(places[0], 13, 87, 0), Portion(places[1], 0, 50, 0)])
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
    monkeypatch.setattr(row_groups, "_ROW_GROUP_ROWS", 60)
    write_file(out, [Portion(place, 0, 50, 0) for place in places])
    (path,) = out.iterdir()
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [100]
    assert file.metadata.row_group(0).column(9).compression == "SNAPPY"


def test_no_records_make_no_file(places, out):
    assert write_file(out, [Portion(places[0], 100, 200, 200)]) == []
    assert write_file(out, []) == []
    assert not list(out.iterdir())


def test_a_task_that_fails_takes_its_file_away(places, out, tmp_path):
    damaged = tmp_path / "logs" / "node-1" / "data" / "t-1" / f"{0:020d}.log"
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(CorruptBatch, match="`t-1`"):
        write_file(out, [Portion(place, 0, 50, 0) for place in places])
    assert not list(out.iterdir())


def portion(tmp_path, content, *offsets):
    """Of one segment with these batches."""
    path = write_segment(tmp_path / "t-0", content)
    return Portion(SegmentPlace(1, "t", 0, str(path), path.stat().st_size), *offsets)


@pytest.mark.parametrize(
    ("bases", "offsets", "message"),
    [
        ((0, 20), (0, 30, 0), r"no batch holds the offsets \[10, 20\)"),
        ((0, 20), (0, 30, 19), r"no batch holds the offsets \[10, 20\)"),
        ((0, 20), (13, 30, 0), r"no batch holds the offsets \[13, 20\)"),
        ((0, 20), (0, 15, 0), r"no batch holds the offsets \[10, 15\)"),
        ((10,), (0, 20, 0), r"no batch holds the offsets \[0, 10\)"),
        ((0, 10), (0, 21, 0), r"no batch holds the offsets \[20, 21\)"),
        ((), (0, 20, 0), r"no batch holds the offsets \[0, 20\)"),
        ((0, 10, 10), (0, 30, 30), "offset 10 follows offset 19"),
    ],
)
def test_offsets_that_are_missing_or_come_twice_are_named(tmp_path, out, bases, offsets, message):
    torn = portion(tmp_path, [batch(base) for base in bases], *offsets)
    with pytest.raises(CorruptBatch, match=f"`t-0`\\): {message}"):
        write_file(out, [torn])
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    ("bases", "offsets", "records"),
    [
        ((0, 20), (0, 30, 20), 20),  # The cleaner was there.
        ((0, 20), (0, 10, 0), 10),  # What is beyond was never committed,
        ((0, 20), (20, 30, 0), 10),  # what is below is deleted.
        ((0, 20), (0, 40, 40), 20),  # Whatever there is.
        ((0, 10, 10), (0, 10, 0), 10),
    ],
)
def test_other_holes_are_in_order(tmp_path, out, bases, offsets, records):
    (written,) = write_file(out, [portion(tmp_path, [batch(base) for base in bases], *offsets)])
    assert written.records == records


def test_a_segment_has_the_offsets_up_to_the_next_one():
    places = [SegmentPlace(1, "t", 0, f"/t-0/{base:020d}.log", 9) for base in (10, 20, 30, 40)]
    replica = Replica(1, "t", 0, 23, 35, 30, tuple(places))
    assert list(portions_of(replica).values()) == [
        Portion(places[1], 23, 30, 30),
        Portion(places[2], 30, 35, 30),
    ]
    assert portions_of(replica, allow_gaps=True)[places[2]] == Portion(places[2], 30, 35, 35)


def test_a_replica_without_segments_has_nothing_unless_something_was_committed():
    assert portions_of(Replica(1, "t", 0, 0, 0, 0, ())) == {}
    assert portions_of(Replica(1, "t", 0, 0, 35, 0, ()), allow_gaps=True) == {}
    with pytest.raises(UsageError, match="broker 1 has no segment of `t-0`"):
        portions_of(Replica(1, "t", 0, 0, 35, 0, ()))
