"""Reading the committed prefix."""

import pytest

from tests.fixtures import kafka_disk, kafka_dump
from tests.unit.kraft.solo import LOG_CONFIG, Solo
from tidelog.env.disk import FileSlice
from tidelog.env.effects import Chunk, EffectQueue
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import CorruptBatch, StorageError
from tidelog.kraft.committed import CommittedReader, contiguous
from tidelog.kraft.messages import CommittedBatch, LoadedSnapshot, SnapshotId
from tidelog.kraft.snapshot_format import SnapshotContent
from tidelog.log.loading import open_log
from tidelog.log.log import Log
from tidelog.log.values import Checkpoints, LogEnv
from tidelog.model import METADATA_PARTITION
from tidelog.records.batch import build_batch
from tidelog.records.record import Record

SEGMENT = f"{METADATA_PARTITION}/00000000000000000000.log"


def kafka_log() -> Log:
    """The metadata log of a Kafka node."""
    env = LogEnv(kafka_disk("node1"), EffectQueue(), Trace(TraceList()))
    return open_log(env, METADATA_PARTITION, LOG_CONFIG, Checkpoints(), clean=True, wall_ms=0)


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


def test_a_turn_takes_so_many_records() -> None:
    """And the batch that goes beyond; the rest is known to be there."""
    reader = CommittedReader(Solo(log_epochs=(1, 1, 2, 2, 3)).log)
    taken = []
    while reader.has_more(5):
        taken.append([one.base_offset for one in reader.take(5, most_records=2)])
    assert taken == [[0, 1], [2, 3], [4]]


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


def content_at(end_offset: int, epoch: int) -> SnapshotContent:
    return SnapshotContent(SnapshotId(end_offset, epoch), 5, (), [b"state"])


def test_a_snapshot_takes_the_place_of_what_came_before() -> None:
    """Goal: it is handed out first, then the log from its end."""
    reader = CommittedReader(Solo(log_epochs=(1, 1, 2, 2)).log)
    assert len(reader.take(1)) == 1
    reader.restart(content_at(3, 2))
    assert (reader.next_offset, reader.last_epoch) == (3, 2)
    loaded, batch = reader.take(4)
    assert loaded == LoadedSnapshot(SnapshotId(3, 2), 5, [b"state"])
    assert isinstance(batch, CommittedBatch)
    assert batch.base_offset == 3


def test_a_snapshot_of_the_past_is_a_bug() -> None:
    """CommittedOnce."""
    reader = CommittedReader(Solo(log_epochs=(1, 1, 2)).log)
    reader.take(3)
    with pytest.raises(AssertionError, match="CommittedOnce"):
        reader.restart(content_at(2, 1))


def lacking_base() -> tuple[Solo, CommittedReader]:
    """A log that begins at 3, and a reader that knows nothing of what came before."""
    solo = Solo(log_epochs=(1, 1, 2, 2, 2))
    solo.log.update_high_watermark(3)
    solo.log.maybe_raise_log_start_offset(3)
    reader = CommittedReader(solo.log)
    reader.begin_at_zero()
    return solo, reader


def batch_at(offset: int, epoch: int = 1, count: int = 1) -> bytes:
    records = [Record(7, None, b"old%d" % (offset + index)) for index in range(count)]
    return build_batch(records, base_offset=offset, leader_epoch=epoch)


def test_what_came_before_the_log_is_fed() -> None:
    """CommittedOnce. Goal: nothing of the own log before what the leader has fed, each once, and
    nothing beyond the log's start from the leader."""
    _, reader = lacking_base()
    assert reader.take(5) == []
    reader.feed(batch_at(0, count=2))
    assert [one.base_offset for one in reader.take(5) if isinstance(one, CommittedBatch)] == [0]
    assert (reader.next_offset, reader.last_epoch) == (2, 1)
    reader.feed(batch_at(2, 2) + batch_at(3, 2))
    handed = [one for one in reader.take(5) if isinstance(one, CommittedBatch)]
    assert [one.base_offset for one in handed] == [2, 3, 4]
    assert [one.records for one in handed] == [[b"old2"], [b"x"], [b"x"]]


@pytest.mark.parametrize(
    "data",
    [batch_at(1), batch_at(0, count=4), batch_at(0)[:-1] + b"?"],
    ids=["hole", "into the log", "damaged"],
)
def test_what_does_not_fit_is_not_fed(data: bytes) -> None:
    """Goal: a leader's bytes are checked like any other's."""
    _, reader = lacking_base()
    with pytest.raises(CorruptBatch):
        reader.feed(data)
    assert reader.next_offset == 0
    assert reader.take(5) == []
