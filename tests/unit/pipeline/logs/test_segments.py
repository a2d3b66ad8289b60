"""Log directories read from outside."""

import pytest

from tests.fixtures import unpack_kafka_node
from tests.unit.pipeline.batch_samples import random_batches
from tidelog.env.prng import Prng
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.logs import segments
from tidelog.pipeline.logs.segments import (
    HIGH_WATERMARK_FILE,
    partition_directories,
    read_bytes,
    read_offset_checkpoint,
    read_replica,
)
from tidelog.records.batch import iter_headers


def test_a_directory_of_kafka_is_read(tmp_path):
    log_dir = unpack_kafka_node("node1", tmp_path)
    directories = partition_directories(log_dir)
    assert {tp.partition for tp in directories if tp.topic == "plain"} == {0, 1, 2}
    marks = read_offset_checkpoint(log_dir / HIGH_WATERMARK_FILE)
    replica = read_replica(directories[TopicPartition("plain", 0)])
    assert replica.end_offset == marks[TopicPartition("plain", 0)] == 218
    assert len({span.path for span in replica.spans}) == 2
    columns = replica.columns
    assert (columns["stored CRC"] == columns["recomputed CRC"]).all()


@pytest.mark.parametrize("window_bytes", [64, 1000, 1 << 20])
def test_windows_do_not_change_what_is_read(tmp_path, monkeypatch, window_bytes):
    """Windows smaller than a batch grow until it fits."""
    monkeypatch.setattr(segments, "WINDOW_BYTES", window_bytes)
    files = [random_batches(Prng(seed), 25) for seed in (1, 2)]
    for number, data in enumerate(files):
        (tmp_path / f"{number:020d}.log").write_bytes(data)
    replica = read_replica(tmp_path)
    headers = [header for data in files for _, header in iter_headers(data)]
    columns = {name: values.tolist() for name, values in replica.columns.items()}
    assert columns["base offset"] == [header.base_offset for header in headers]
    assert columns["last offset"] == [header.last_offset for header in headers]
    assert columns["stored CRC"] == [header.crc for header in headers]
    assert b"".join(read_bytes(replica.spans, 777)) == b"".join(files)
    cut = replica.rows(3, 30)
    sizes = [header.size_bytes for header in headers]
    joined = b"".join(files)
    assert b"".join(read_bytes(cut.spans, 777)) == joined[sum(sizes[:3]) : sum(sizes[:30])]


@pytest.mark.parametrize("tail", [b"", bytes(5000), b"\x01" * 70, random_batches(Prng(4), 1)[:-1]])
def test_a_replica_ends_at_the_last_whole_batch(tmp_path, tail):
    """Nothing, preallocated zeros, garbage, or half an append behind the last batch."""
    data = random_batches(Prng(3), 10)
    (tmp_path / f"{0:020d}.log").write_bytes(data + tail)
    replica = read_replica(tmp_path)
    assert len(replica) == 10
    assert sum(span.size_bytes for span in replica.spans) == len(data)


def test_an_empty_partition_has_no_batches(tmp_path):
    (tmp_path / f"{0:020d}.log").touch()
    replica = read_replica(tmp_path)
    assert (len(replica), replica.end_offset, replica.spans) == (0, 0, ())


def test_partitions_being_deleted_are_left_out(tmp_path):
    for name in ("t-0", "with-dash-12", "t-1.4fzzE6-delete", "nodash"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-3").touch()
    assert list(partition_directories(tmp_path)) == [("t", 0), ("with-dash", 12)]


def test_a_missing_log_directory_is_refused(tmp_path):
    with pytest.raises(UsageError, match="not a log directory"):
        partition_directories(tmp_path / "missing")


def test_an_empty_checkpoint_was_never_written(tmp_path):
    """Kafka makes the file first, and reads an empty one as no entries."""
    (tmp_path / HIGH_WATERMARK_FILE).write_text("")
    assert read_offset_checkpoint(tmp_path / HIGH_WATERMARK_FILE) == {}


@pytest.mark.parametrize("text", ["1\n0\n", "0\n2\nt 0 5\n", "0\n1\nt zero 5\n", "0\n1\nt 0\n"])
def test_a_damaged_checkpoint_is_refused(tmp_path, text):
    (tmp_path / HIGH_WATERMARK_FILE).write_text(text)
    with pytest.raises(UsageError, match="not an offset checkpoint"):
        read_offset_checkpoint(tmp_path / HIGH_WATERMARK_FILE)


def test_a_missing_checkpoint_has_no_entries(tmp_path):
    assert read_offset_checkpoint(tmp_path / HIGH_WATERMARK_FILE) == {}
