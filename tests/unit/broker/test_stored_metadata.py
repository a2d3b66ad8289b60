"""What the files of the metadata say."""

import pytest

from tests.unit.broker.test_unserved import GONE, SNAPSHOT, TOPIC, disk_with, logged, tiering
from tidelog.broker.stored_metadata import CompactedTopics, read_metadata
from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import StorageError
from tidelog.kraft.snapshot_format import snapshot_name
from tidelog.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from tidelog.metadata.record_codec import encode_record
from tidelog.metadata.records import ConfigRecord
from tidelog.model import METADATA_PARTITION
from tidelog.records.batch import build_batch
from tidelog.records.record import Record

SNAPSHOT_FILE = f"{METADATA_PARTITION}/{snapshot_name(SNAPSHOT)}"


def damage_snapshot(disk: MemoryDisk) -> None:
    disk.replace(SNAPSHOT_FILE, (disk.read_file(SNAPSHOT_FILE) or b"")[:-1])


def test_the_log_goes_on_behind_the_snapshot() -> None:
    assert "cold" in read_metadata(disk_with(TOPIC)).topics_by_name
    assert "cold" not in read_metadata(disk_with(TOPIC, log=logged(GONE))).topics_by_name


def policy(value: str | None, name: str = "cold", of_type: int = TOPIC_RESOURCE) -> ConfigRecord:
    key = "cleanup.policy" if of_type == TOPIC_RESOURCE else "log.cleanup.policy"
    return ConfigRecord(resource_type=of_type, resource_name=name, name=key, value=value)


def default(value: str | None, broker: str = "") -> ConfigRecord:
    return policy(value, broker, BROKER_RESOURCE)


@pytest.mark.parametrize(
    "disk",
    [
        disk_with(TOPIC, policy("compact")),
        disk_with(TOPIC, policy("compact,delete")),
        disk_with(TOPIC, log=logged(policy("compact"))),
        disk_with(TOPIC, policy("compact"), log=logged(policy("delete"))),
        disk_with(TOPIC, log=logged(policy("compact"), policy(None))),
        disk_with(TOPIC, default("compact")),
        disk_with(TOPIC, log=logged(default("compact", "1"))),
        disk_with(TOPIC, log=logged(policy("compact")) + bytes(40)),
    ],
    ids=["now", "both", "log", "was", "removed", "default", "default of the broker", "torn log"],
)
def test_a_topic_that_is_or_was_compacted(disk: MemoryDisk) -> None:
    assert CompactedTopics(disk, 1).has("cold")


def test_records_count_from_before_the_snapshot_too_while_the_log_has_them() -> None:
    """The policy has changed, and the newest snapshot does not know of the former one."""
    disk = disk_with(TOPIC, policy("delete"))
    before = build_batch([Record(0, None, encode_record(policy("compact")))], base_offset=0)
    disk.replace(f"{METADATA_PARTITION}/{0:020d}.log", before)
    assert CompactedTopics(disk, 1).has("cold")


def test_a_topic_of_which_the_metadata_does_not_say_so() -> None:
    others = (policy("compact", "warm"), policy("delete"), default("compact", "2"))
    disk = disk_with(TOPIC, *others, log=logged(default("delete")))
    assert not CompactedTopics(disk, 1).has("cold")
    damaged = disk_with(TOPIC, policy("compact"))
    damage_snapshot(damaged)
    assert not CompactedTopics(damaged, 1).has("cold")


def test_the_metadata_log_itself_is_never_compacted_and_not_read_for_that() -> None:
    """A start may ask while it opens it."""
    disk = disk_with(default("compact"))
    topics = CompactedTopics(disk, 1)
    disk.failing = "input/output error"
    assert not topics.has(METADATA_PARTITION.topic)


def test_the_metadata_is_read_at_the_first_question_and_once() -> None:
    disk = disk_with(TOPIC)
    topics = CompactedTopics(disk, 1)
    disk.replace(f"{METADATA_PARTITION}/{SNAPSHOT.end_offset:020d}.log", logged(policy("compact")))
    assert topics.has("cold")
    disk.failing = "input/output error"
    assert topics.has("cold") and not topics.has("warm")


def test_a_damaged_snapshot_is_not_read() -> None:
    damaged = disk_with(TOPIC, tiering("true"))
    damage_snapshot(damaged)
    with pytest.raises(StorageError, match="checkpoint"):
        read_metadata(damaged)
