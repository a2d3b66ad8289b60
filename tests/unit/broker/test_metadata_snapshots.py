"""When a node makes snapshots of its metadata, how slowly, and a restart from one."""

from itertools import pairwise

import pytest

from tests.unit.broker.one_node import OneNode
from tidelog.broker.metadata_snapshots import SnapshotReading
from tidelog.env.effects import Flush, StopRequested
from tidelog.errors import StorageError
from tidelog.kraft.messages import LoadedSnapshot, SnapshotId
from tidelog.kraft.snapshots import SnapshotFlush
from tidelog.metadata.image import EMPTY_IMAGE
from tidelog.metadata.image_records import image_records
from tidelog.metadata.record_codec import encode_record

BETWEEN = "metadata.log.max.record.bytes.between.snapshots"
INTERVAL = "metadata.log.max.snapshot.interval.ms"
RETENTION = "metadata.max.retention.bytes"
SEGMENT = "metadata.log.segment.bytes"


def test_defaults_make_none_for_little() -> None:
    """Goal: Kafka's bounds; nothing is written for a handful of records."""
    node = OneNode()
    node.advance(10_000)
    assert node.broker.quorum.latest_snapshot is None


def test_so_many_bytes_make_one() -> None:
    """Goal: after the bound, of the newest image; and the next only after the bound again."""
    node = OneNode(**{BETWEEN: "2000"})
    made = []
    for _ in range(120):
        node.advance(500)
        latest = node.broker.quorum.latest_snapshot
        if latest is not None and (not made or made[-1] != latest):
            made.append(latest)
    assert len(made) >= 2
    gaps = [b.end_offset - a.end_offset for a, b in pairwise(made)]
    assert min(gaps) > 12, "a no-op record is less than 150 bytes"


def test_so_much_time_makes_one_if_there_is_anything_new() -> None:
    """Goal: no-op records are something new, as in Kafka."""
    node = OneNode(**{INTERVAL: "5000"})
    node.advance(4_000)
    assert node.broker.quorum.latest_snapshot is None
    node.advance(3_000)
    first = node.broker.quorum.latest_snapshot
    assert first is not None
    node.advance(6_000)
    second = node.broker.quorum.latest_snapshot
    assert second is not None
    assert second.end_offset > first.end_offset


def test_a_restart_begins_from_it() -> None:
    """Goal: the same metadata, from a log that does not begin at 0 any more."""
    settings = {BETWEEN: "2000", RETENTION: "0", SEGMENT: "1000"}
    node = OneNode(**settings)
    for number in range(4):
        node.advance(10_000)
        node.client().create_topic(f"t{number}", 2)
    node.advance(20_000)
    before, quorum = node.broker.image, node.broker.quorum
    assert quorum.log.log_start_offset > 0
    assert quorum.latest_snapshot is not None
    again = OneNode(disk=node.disk, **settings)
    assert again.broker.quorum.log.log_start_offset > 0
    assert again.broker.image.offset >= before.offset
    assert dict(again.broker.image.topics_by_id) == dict(before.topics_by_id)
    assert again.broker.image.features == before.features
    assert again.broker.image.is_alive(1)


def test_a_clean_stop_makes_one_of_less() -> None:
    """Goal: a hundredth of the bound is enough; the next start reads it and nothing before."""
    node = OneNode(**{BETWEEN: "200000"})
    node.client().create_topic("t", 40)
    node.advance(100)
    assert node.broker.quorum.latest_snapshot is None
    before = node.broker.image
    node.receive(StopRequested())
    node.run_until_exit()
    assert [exit_.code for exit_ in node.exits] == [0]
    again = OneNode(disk=node.disk, seed=8)
    latest = again.broker.quorum.latest_snapshot
    assert latest is not None and latest.end_offset > before.offset
    assert again.broker.image.topics_by_id.keys() == before.topics_by_id.keys()


def test_a_clean_stop_makes_none_for_little() -> None:
    """Goal: nor one that nothing is new in."""
    node = OneNode(**{BETWEEN: "2000000"})
    node.receive(StopRequested())
    node.run_until_exit()
    assert node.broker.quorum.latest_snapshot is None


def test_a_large_image_is_written_in_many_ticks() -> None:
    """Goal: ten thousand partitions hold nothing up. Method: ticks between begin and flush."""
    node = OneNode(**{INTERVAL: "2000"})
    node.client().create_topic("large", 950)
    node.advance(100)
    flushes, ticks = 0, 0
    node.now = type(node.now)(node.now + 3_000)
    while flushes == 0:
        node.node.wake(node.now)
        for effect in node.node.take_effects():
            if isinstance(effect, Flush) and isinstance(effect.subject, SnapshotFlush):
                flushes += 1
            node.carry_out(effect)
        if node.broker.quorum.snapshots.is_busy:
            ticks += 1
        assert ticks < 100
    assert ticks >= 9


def test_a_snapshot_becomes_an_image_in_slices() -> None:
    """Goal: at its last offset and epoch, whatever the slices."""
    node = OneNode()
    values = [encode_record(record) for record in image_records(node.broker.image)]
    assert len(values) > 3
    for most in (1, 2, len(values), 1000):
        reading = SnapshotReading(LoadedSnapshot(SnapshotId(50, 3), 0, values))
        slices = []
        while not reading.is_complete:
            slices.append(reading.read(most))
        assert (max(slices), sum(slices)) == (min(most, len(values)), len(values))
        image = reading.image().image
        assert (image.offset, image.epoch) == (49, 3)
        assert image.brokers == node.broker.image.brokers
    empty = SnapshotReading(LoadedSnapshot(SnapshotId(1, 0), 0, []))
    assert empty.is_complete
    assert empty.image().image.topics_by_id == EMPTY_IMAGE.topics_by_id


def test_a_snapshot_of_a_newer_kafka_is_not_half_read() -> None:
    """Goal: the node stops and names the file."""
    reading = SnapshotReading(LoadedSnapshot(SnapshotId(50, 3), 0, [b"\x01\x7f\x00"]))
    with pytest.raises(StorageError, match=r"00000000000000000050-0000000003.checkpoint"):
        reading.read(1)
