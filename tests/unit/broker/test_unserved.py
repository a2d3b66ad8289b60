"""Goal: a node does not start on what Apache Kafka left and it cannot go on with, and says why."""

from struct import pack
from zlib import crc32

import pytest

from tests.unit.broker.one_node import CLUSTER_ID, DIRECTORY_ID, OneNode
from tidelog.broker.unserved import hindrances
from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import UsageError
from tidelog.kraft.messages import SnapshotId
from tidelog.kraft.snapshot_format import encode_snapshot, snapshot_name
from tidelog.log.identity import format_directory
from tidelog.log.partition_directories import parse_partition_name
from tidelog.metadata import records
from tidelog.metadata.image import TOPIC_RESOURCE
from tidelog.metadata.record_codec import encode_record
from tidelog.model import METADATA_PARTITION, TopicId, Uuid
from tidelog.records.batch import build_batch
from tidelog.records.record import Record

WALL_MS = 1_700_000_000_000
SNAPSHOT = SnapshotId(5, 1)
TOPIC_ID = TopicId(bytes(range(16)))
TOPIC = records.TopicRecord(name="cold", topic_id=Uuid(TOPIC_ID))
GONE = records.RemoveTopicRecord(topic_id=Uuid(TOPIC_ID))


def tiering(value: str) -> records.ConfigRecord:
    return records.ConfigRecord(
        resource_type=TOPIC_RESOURCE,
        resource_name="cold",
        name="remote.storage.enable",
        value=value,
    )


def disk_with(*snapshot: records.MetadataRecord, log: bytes = b"") -> MemoryDisk:
    disk = MemoryDisk(root="data")
    format_directory(disk, cluster_id=CLUSTER_ID, node_id=1, directory_id=DIRECTORY_ID)
    disk.make_dir(str(METADATA_PARTITION))
    data = encode_snapshot(SNAPSHOT, WALL_MS, [encode_record(each) for each in snapshot])
    disk.replace(f"{METADATA_PARTITION}/{snapshot_name(SNAPSHOT)}", data)
    disk.replace(f"{METADATA_PARTITION}/{SNAPSHOT.end_offset:020d}.log", log)
    return disk


def logged(*entries: records.MetadataRecord) -> bytes:
    values = [Record(WALL_MS, None, encode_record(each)) for each in entries]
    return build_batch(values, base_offset=SNAPSHOT.end_offset, leader_epoch=1)


def content(disk: MemoryDisk) -> dict[str, bytes | None]:
    paths = []
    for name in disk.list_dir():
        inside = disk.list_dir(name) if parse_partition_name(name) is not None else []
        paths += [f"{name}/{each}" for each in inside] or [name]
    return {path: disk.read_file(path) for path in paths}


def test_a_tiered_topic_is_named_with_its_place() -> None:
    (topic,) = hindrances(disk_with(TOPIC, tiering("true")))
    assert "`cold`" in topic.reason
    assert "remote.storage.enable=false" in topic.hint


@pytest.mark.parametrize(
    ("snapshot", "log"),
    [
        ((TOPIC, tiering("false")), b""),
        ((TOPIC, tiering("true")), logged(tiering("false"))),
        ((TOPIC, tiering("true")), logged(GONE)),
    ],
    ids=["off", "switched off", "deleted"],
)
def test_what_is_not_tiered_any_more_does_not_hinder(
    snapshot: tuple[records.MetadataRecord, ...], log: bytes
) -> None:
    assert list(hindrances(disk_with(*snapshot, log=log))) == []


def test_a_node_refuses_before_it_writes_a_byte() -> None:
    disk = disk_with(TOPIC, log=logged(tiering("true")))
    before = content(disk)
    with pytest.raises(UsageError, match="`cold` has segments in a remote tier"):
        OneNode(disk=disk)
    assert content(disk) == before


def test_a_torn_log_is_read_up_to_there_and_a_damaged_snapshot_is_not_judged() -> None:
    log = logged(tiering("true"))
    torn = disk_with(TOPIC, log=log + log[:30])
    assert len(list(hindrances(torn))) == 1
    damaged = disk_with(TOPIC, tiering("true"))
    path = f"{METADATA_PARTITION}/{snapshot_name(SNAPSHOT)}"
    damaged.replace(path, (damaged.read_file(path) or b"")[:-1])
    assert list(hindrances(damaged)) == []


NEWER = build_batch([Record(WALL_MS, None, b"\x01\x7f\x00")], base_offset=SNAPSHOT.end_offset)


def old_message(magic: int) -> bytes:
    """Offset, size, CRC, magic, attributes, timestamp from format 1 on, no key, a value."""
    timestamp = pack(">q", WALL_MS) if magic else b""
    rest = bytes((magic, 0)) + timestamp + pack(">ii", -1, 1) + b"v"
    return pack(">qiI", 0, 4 + len(rest), crc32(rest)) + rest


def segment_of(content: bytes) -> MemoryDisk:
    disk = disk_with()
    disk.make_dir("orders-0")
    disk.replace(f"orders-0/{0:020d}.log", content)
    disk.replace(f"orders-0/{1:020d}.log", b"")
    return disk


@pytest.mark.parametrize(
    ("disk", "file", "reason"),
    [
        (
            disk_with(TOPIC, log=NEWER),
            f"{SNAPSHOT.end_offset:020d}.log",
            "record `127` version `0`",
        ),
        (segment_of(old_message(0)), f"orders-0/{0:020d}.log", "message format 0"),
        (segment_of(old_message(1)), f"orders-0/{0:020d}.log", "message format 1"),
    ],
    ids=["newer metadata", "format 0", "format 1"],
)
def test_what_cannot_be_read_is_refused_with_its_file_before_a_byte_is_written(
    disk: MemoryDisk, file: str, reason: str
) -> None:
    before = content(disk)
    with pytest.raises(UsageError, match=reason) as refused:
        OneNode(disk=disk)
    assert file in refused.value.message
    assert refused.value.hint
    assert content(disk) == before


def test_damage_is_not_another_format() -> None:
    message = old_message(1)
    for damaged in (bytes(4096), bytes(17), b"A" * 100, message[:-1], message[:-1] + b"w"):
        assert list(hindrances(segment_of(damaged))) == []
    torn = bytearray(NEWER)
    torn[-1] ^= 1
    assert list(hindrances(disk_with(log=bytes(torn)))) == []


def test_a_page_of_another_log_is_not_newer_metadata() -> None:
    """Seed 1686078723 on damaged disks: a misdirected write put a page of a topic over the
    metadata log. Their checksums are right, their offsets are not those that are due; the voter
    refused to start for good."""
    values = [Record(WALL_MS, None, b"\x01\x7f\x00")]
    for offset in (SNAPSHOT.end_offset - 1, SNAPSHOT.end_offset + 1):
        other = build_batch(values, base_offset=offset, leader_epoch=1)
        assert list(hindrances(disk_with(log=other))) == []
        behind = logged(GONE) + build_batch(values, base_offset=offset + 1, leader_epoch=1)
        assert list(hindrances(disk_with(log=behind))) == []
