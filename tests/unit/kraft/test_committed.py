"""Reading the committed prefix."""

import pytest

from tests.fixtures import kafka_disk, kafka_dump
from tests.unit.kraft.cluster import LOG_CONFIG
from tests.unit.kraft.solo import Solo
from tidelog.env.disk import FileSlice
from tidelog.env.effects import Chunk, EffectQueue
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import StorageError
from tidelog.kraft.committed import CommittedReader, contiguous
from tidelog.log.loading import Checkpoints, open_log
from tidelog.log.log import Log
from tidelog.log.values import LogEnv
from tidelog.model import METADATA_PARTITION

SEGMENT = f"{METADATA_PARTITION}/00000000000000000000.log"


def kafka_log() -> Log:
    """The metadata log of a Kafka node."""
    env = LogEnv(kafka_disk("node1"), EffectQueue(), Trace(TraceList()))
    return open_log(
        env,
        str(METADATA_PARTITION),
        METADATA_PARTITION,
        LOG_CONFIG,
        Checkpoints(),
        clean=True,
        wall_ms=0,
    )


def test_kafkas_metadata_log_is_handed_out_batch_by_batch() -> None:
    """Offsets, epochs, counts and control flags as DumpLogSegments prints them."""
    log = kafka_log()
    batches = CommittedReader(log).take(log.log_end_offset)
    dumped = kafka_dump(SEGMENT)
    assert [(one.base_offset, one.last_offset, one.epoch) for one in batches] == [
        (
            int(batch.fields["baseOffset"]),
            int(batch.fields["lastOffset"]),
            int(batch.fields["partitionLeaderEpoch"]),
        )
        for batch in dumped
    ]
    assert [one.is_control for one in batches] == [
        batch.fields["isControl"] == "true" for batch in dumped
    ]
    assert [len(one.records) for one in batches] == [int(batch.fields["count"]) for batch in dumped]
    assert [one.append_time_ms for one in batches] == [
        int(batch.fields["CreateTime"]) for batch in dumped
    ]


def test_each_batch_once_and_none_above_the_high_watermark() -> None:
    """In three steps through five batches."""
    solo = Solo(log_epochs=(1, 1, 2, 2, 3))
    reader = CommittedReader(solo.log)
    assert [one.base_offset for one in reader.take(2)] == [0, 1]
    assert reader.take(2) == []
    assert [(one.base_offset, one.epoch) for one in reader.take(5)] == [(2, 2), (3, 2), (4, 3)]
    assert reader.next_offset == 5


def test_file_slices_are_read_from_their_file() -> None:
    """Chunks of all kinds make one buffer."""
    disk = kafka_disk("node1")
    file = disk.open(SEGMENT)
    chunks: list[Chunk] = [b"ab", bytearray(b"c"), memoryview(b"d"), FileSlice(file, 0, 8)]
    assert contiguous(chunks) == b"abcd" + bytes(8)


def test_a_damaged_batch_is_not_handed_out() -> None:
    """A bit flips on the medium after the log was opened; what comes before is fine."""
    log = kafka_log()
    file = log.segments[-1].file
    content = bytearray(file.read(0, file.size_bytes))
    content[200] ^= 1
    file.truncate(0)
    file.append((content,))
    reader = CommittedReader(log)
    assert [one.last_offset for one in reader.take(1)] == [0]
    with pytest.raises(StorageError, match="damaged"):
        reader.take(log.log_end_offset)


# Snapshots ---------------------------------------------------------------------------------
