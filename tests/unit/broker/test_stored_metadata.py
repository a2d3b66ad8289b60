"""What the files of the metadata say."""

import pytest

from tests.unit.broker.test_unserved import GONE, SNAPSHOT, TOPIC, disk_with, logged, tiering
from tidelog.broker.stored_metadata import read_metadata
from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import StorageError
from tidelog.kraft.snapshot_format import snapshot_name
from tidelog.model import METADATA_PARTITION

SNAPSHOT_FILE = f"{METADATA_PARTITION}/{snapshot_name(SNAPSHOT)}"


def damage_snapshot(disk: MemoryDisk) -> None:
    disk.replace(SNAPSHOT_FILE, (disk.read_file(SNAPSHOT_FILE) or b"")[:-1])


def test_the_log_goes_on_behind_the_snapshot() -> None:
    assert "cold" in read_metadata(disk_with(TOPIC)).topics_by_name
    assert "cold" not in read_metadata(disk_with(TOPIC, log=logged(GONE))).topics_by_name


def test_a_damaged_snapshot_is_not_read() -> None:
    damaged = disk_with(TOPIC, tiering("true"))
    damage_snapshot(damaged)
    with pytest.raises(StorageError, match="checkpoint"):
        read_metadata(damaged)
