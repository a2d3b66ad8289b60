"""Goal: a node does not start on what Apache Kafka left and it cannot go on with, and says why."""

import pytest

from tests.unit.broker.one_node import CLUSTER_ID, DIRECTORY_ID, OneNode
from tidelog.broker.unserved import hindrances, read_metadata
from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import StorageError, UsageError
from tidelog.kraft.messages import SnapshotId
from tidelog.kraft.snapshot_format import encode_snapshot, snapshot_name
from tidelog.log.identity import format_directory
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
    where = str(METADATA_PARTITION)
    names = [name for name in disk.list_dir() if name != where]
    return {
        name: disk.read_file(name)
        for name in (*names, *(f"{where}/{each}" for each in disk.list_dir(where)))
    }


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
    with pytest.raises(StorageError, match="checkpoint"):
        read_metadata(damaged)
