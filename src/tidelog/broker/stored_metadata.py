"""The metadata as a disk has it, read from the files before the node replays any of it.

A start looks for what it must not go on with (`unserved.py`), and asks which topics may have gaps.

Source: KIP-630 (snapshots).
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from tidelog.env.disk import Disk
from tidelog.errors import CorruptBatch, ProtocolError, StorageError
from tidelog.kraft.snapshot_format import parse_snapshot_name, read_snapshot, snapshot_name
from tidelog.log.file_names import LOG_SUFFIX, offset_of
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    EMPTY_IMAGE,
    TOPIC_RESOURCE,
    ConfigResource,
    MetadataImage,
)
from tidelog.metadata.record_codec import decode_record
from tidelog.metadata.records import ConfigRecord
from tidelog.model import METADATA_PARTITION
from tidelog.records.batch import iter_headers, verify_crc
from tidelog.records.pairs import decode_pairs

NEWER: Final = "written by a newer version"

_POLICIES: Final = {TOPIC_RESOURCE: "cleanup.policy", BROKER_RESOURCE: "log.cleanup.policy"}
"""What says that logs are compacted, of a topic and as a default."""


class CompactedTopics:
    """Topics that are or were compacted: gaps stay when the policy changes. The metadata is read
    for the first question, in one pass; most starts have none."""

    def __init__(self, disk: Disk, node_id: int) -> None:
        # Has the metadata log.
        self._disk = disk
        self._defaults = (CLUSTER_DEFAULT, ConfigResource(BROKER_RESOURCE, str(node_id)))
        # The resources with such a policy; `None` before they were looked for.
        self._found: set[ConfigResource] | None = None

    def has(self, topic: str) -> bool:
        """Whether the metadata says so of a topic, by its own policy or by a default. What cannot
        be read says nothing."""
        if topic == METADATA_PARTITION.topic:
            return False
        if self._found is None:
            self._found = set()
            with suppress(StorageError, ProtocolError):
                self._found.update(_compacted(self._disk))
        resources = (ConfigResource(TOPIC_RESOURCE, topic), *self._defaults)
        return not self._found.isdisjoint(resources)


def _compacted(disk: Disk) -> Iterator[ConfigResource]:
    wanted = _POLICIES[TOPIC_RESOURCE].encode()
    for _, _, value in stored_values(disk, whole_log=True):
        record = decode_record(value) if wanted in value else None
        if not isinstance(record, ConfigRecord):
            continue
        if record.name == _POLICIES.get(record.resource_type) and "compact" in (record.value or ""):
            yield ConfigResource(record.resource_type, record.resource_name)


def read_metadata(disk: Disk) -> MetadataImage:
    """The metadata that a directory holds, records included that may not be committed; a log that
    a crash has torn is read up to there. Raises `StorageError` for what this version cannot read,
    and for a damaged snapshot."""
    delta, end_offset = MetadataDelta(EMPTY_IMAGE), 0
    for path, offset, value in stored_values(disk):
        try:
            delta.replay(decode_record(value), offset)
        except ProtocolError as error:
            raise StorageError(f"{disk.root}/{path}", f"{error}: {NEWER}") from error
        end_offset = offset + 1
    return delta.apply(end_offset, 0)


def stored_values(disk: Disk, *, whole_log: bool = False) -> Iterator[tuple[str, int, bytes]]:
    """The metadata's records: file, offset, value. A log that a crash has torn is read up to there;
    what the snapshot stands for is left out of it, unless the `whole_log` is wanted. Raises
    `StorageError` for a damaged snapshot."""
    end_offset = 0
    for path, data in _metadata_files(disk):
        name = path.rpartition("/")[2]
        snapshot_id = parse_snapshot_name(name)
        try:
            if snapshot_id is not None:
                end_offset = snapshot_id.end_offset
                for value in read_snapshot(data, snapshot_id).records:
                    yield path, end_offset - 1, value
            else:
                for offset, value in _of_segment(data, offset_of(name)):
                    if whole_log or offset >= end_offset:
                        yield path, offset, value
        except CorruptBatch as error:
            if snapshot_id is not None:
                raise StorageError(f"{disk.root}/{path}", str(error)) from error
            return


def _metadata_files(disk: Disk) -> Iterator[tuple[str, bytes]]:
    """The newest snapshot and the segments of the metadata log, in this order."""
    where = str(METADATA_PARTITION)
    names = disk.list_dir(where) if disk.exists(where) else []
    snapshots = sorted(filter(None, map(parse_snapshot_name, names)))
    segments = sorted(name for name in names if name.endswith(LOG_SUFFIX))
    for name in [*map(snapshot_name, snapshots[-1:]), *segments]:
        yield f"{where}/{name}", disk.read_file(f"{where}/{name}") or b""


def _of_segment(data: bytes, due: int) -> Iterator[tuple[int, bytes]]:
    """What begins at another offset than the one that is `due` may be sound, and of another log."""
    for position, header in iter_headers(data):
        if header.base_offset != due:
            raise CorruptBatch(f"offset {header.base_offset} where {due} was due")
        due = header.last_offset + 1
        if header.is_control:
            continue
        if not verify_crc(data, position):
            raise CorruptBatch("bad checksum")
        for number, (_, value) in enumerate(decode_pairs(data, position, header)):
            if value is not None:
                yield header.base_offset + number, value
