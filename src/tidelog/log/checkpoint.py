"""The small text files beside the logs, in Kafka's exact form: encode and decode, no disk.

- Offset checkpoints (`replication-offset-checkpoint`, `recovery-point-offset-checkpoint`,
  `log-start-offset-checkpoint`): version, count, then `topic partition offset`.
- `leader-epoch-checkpoint`: version, count, then `epoch start_offset`.
- `partition.metadata`: the topic id.
- `meta.properties`: cluster, node and directory id, as a Java properties file.
- `.kafka_cleanshutdown`: JSON with the broker epoch, and an incarnation id of our own where a
  registration was sent and never answered.

A decoder raises `CheckpointDamaged`; the caller decides whether the file can be rebuilt.

Source: Kafka's `CheckpointFile`, `PartitionMetadataFile`, `MetaProperties` and
`CleanShutdownFileHandler`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from tidelog.limits import MAX_TOPIC_NAME_LENGTH
from tidelog.model import TopicId, TopicPartition, Uuid, uuid_from_text, uuid_to_text

HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
META_PROPERTIES_FILE: Final = "meta.properties"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"

_VERSION: Final = "0"
_BEYOND: Final = 1 << 63
"""No offset and no broker epoch reaches it."""
_PARTITIONS = _EPOCHS = range(1 << 31)


class CheckpointDamaged(Exception):
    """The file does not follow its format."""


class IdentityFault(StrEnum):
    """Why `partition.metadata` cannot be used."""

    NOT_TEXT = "not utf-8 text"
    NO_COLON = "a line has no colon"
    WRONG_FIELDS = "version or topic id is missing or unknown"
    NOT_A_UUID = "the topic id is not a uuid"


class IdentityDamaged(CheckpointDamaged):
    """`partition.metadata` does not follow its format."""

    def __init__(self, fault: IdentityFault, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault


class OffsetLines:
    """What an offset checkpoint has, kept to write it again: an offset that has not moved has its
    line already. With ten thousand logs that is the difference between 8 ms and 1 ms."""

    def __init__(self) -> None:
        # What was encoded last.
        self.offsets: Mapping[TopicPartition, int] = {}
        # The same as lines, sorted by partition.
        self._lines: dict[TopicPartition, str] = {}

    def encode(self, offsets: Mapping[TopicPartition, int]) -> bytes:
        """The file with these offsets, which the caller leaves as they are."""
        if offsets.keys() != self.offsets.keys():
            lines = self._lines
            if offsets.keys() <= lines.keys():
                # Logs have gone: the others are sorted already.
                self._lines = {key: line for key, line in lines.items() if key in offsets}
            else:
                self._lines = {key: lines.get(key, "") for key in sorted(offsets)}
        known, self.offsets = self.offsets, offsets
        for key, offset in offsets.items():
            if known.get(key) != offset:
                topic, partition = key
                self._lines[key] = f"{topic} {partition} {offset}"
        return _encode(self._lines.values())


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """An offset checkpoint, sorted by partition."""
    return OffsetLines().encode(offsets)


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """The offsets of an offset checkpoint; an empty file has none. One line that no log can have
    makes all of it damaged."""
    offsets: dict[TopicPartition, int] = {}
    for line, (topic, number, text) in _decode(data, 3):
        partition, offset = _integer(number), _integer(text)
        is_possible = partition in _PARTITIONS and 0 <= offset < _BEYOND
        if not is_possible or len(topic) > MAX_TOPIC_NAME_LENGTH:
            raise CheckpointDamaged(f"no log can have line `{line[:MAX_TOPIC_NAME_LENGTH]}`")
        offsets[TopicPartition(topic, partition)] = offset
    return offsets


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """A leader epoch checkpoint of (epoch, start offset)."""
    return _encode(f"{epoch} {start_offset}" for epoch, start_offset in entries)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    """(epoch, start offset) in file order; strictly increasing in both columns."""
    entries: list[tuple[int, int]] = []
    for line, fields in _decode(data, 2):
        entry = (_integer(fields[0]), _integer(fields[1]))
        if entry[0] not in _EPOCHS or not 0 <= entry[1] < _BEYOND:
            raise CheckpointDamaged(f"no log can have line `{line}`")
        if entries and not (entry[0] > entries[-1][0] and entry[1] > entries[-1][1]):
            raise CheckpointDamaged(f"line `{line}` does not increase")
        entries.append(entry)
    return entries


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    """`partition.metadata`; without a final newline, as Kafka writes it."""
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}".encode()


@lru_cache(maxsize=64)
def decode_partition_metadata(data: bytes) -> TopicId:
    """The topic id of a partition directory. Raises `IdentityDamaged`."""
    # The partitions of a topic have equal files.
    fields: dict[str, str] = {}
    try:
        lines = _text(data).splitlines()
    except CheckpointDamaged as error:
        raise IdentityDamaged(IdentityFault.NOT_TEXT, str(error)) from None
    for line in lines:
        name, separator, value = line.partition(":")
        if not separator:
            raise IdentityDamaged(IdentityFault.NO_COLON, f"line `{line}` has no colon")
        fields[name.strip()] = value.strip()
    if fields.get("version") != _VERSION or "topic_id" not in fields:
        detail = f"fields `{sorted(fields)}` of partition metadata"
        raise IdentityDamaged(IdentityFault.WRONG_FIELDS, detail)
    try:
        return TopicId(uuid_from_text(fields["topic_id"]))
    except ValueError as error:
        raise IdentityDamaged(IdentityFault.NOT_A_UUID, str(error)) from None


def encode_meta_properties(cluster_id: str, node_id: int, directory_id: Uuid) -> bytes:
    """`meta.properties`, keys sorted."""
    identity = f"cluster.id={cluster_id}\ndirectory.id={uuid_to_text(directory_id)}\n"
    return f"{identity}node.id={node_id}\nversion=1\n".encode()


def decode_properties(data: bytes) -> dict[str, str]:
    """A Java properties file as far as Kafka's own files use it: comments, `=` or `:`."""
    properties: dict[str, str] = {}
    for line in map(str.strip, _text(data).splitlines()):
        if line and line[0] not in "#!":
            end = min((line.index(mark) for mark in "=:" if mark in line), default=len(line))
            properties[line[:end].strip()] = line[end + 1 :].strip().replace("\\", "")
    return properties


class CleanShutdown(NamedTuple):
    """What a process leaves behind when it stops cleanly."""

    broker_epoch: int = -1
    """In which the logs became what they are; -1 when an older version left no epoch."""
    incarnation_id: Uuid | None = None
    """Of a registration that may still reach the controller; `None` where there is none. The next
    process registers under it too. Otherwise the controller would take a late registration for an
    unclean stop in between."""


def encode_clean_shutdown(marker: CleanShutdown) -> bytes:
    """The marker of a clean stop."""
    content: dict[str, object] = {"version": 0, "brokerEpoch": marker.broker_epoch}
    if marker.incarnation_id is not None:
        content["incarnationId"] = uuid_to_text(marker.incarnation_id)
    return json.dumps(content, separators=(",", ":")).encode()


def decode_clean_shutdown(data: bytes) -> CleanShutdown:
    """What the last clean stop has left."""
    try:
        content = json.loads(_text(data))
        epoch = content.get("brokerEpoch", -1) if isinstance(content, dict) else None
        if not isinstance(epoch, int) or not -1 <= epoch < _BEYOND:
            raise ValueError(f"`{content}`")
        incarnation = content.get("incarnationId")
        return CleanShutdown(epoch, None if incarnation is None else uuid_from_text(incarnation))
    except (ValueError, TypeError, RecursionError) as error:
        raise CheckpointDamaged(f"not a clean shutdown marker: {error}") from None


def _encode(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join((_VERSION, str(len(entries)), *entries, "")).encode()


def _decode(data: bytes, field_count: int) -> Iterator[tuple[str, list[str]]]:
    """Each entry: its line, and the fields of it."""
    lines = _text(data).splitlines()
    if not lines:
        return
    if lines[0] != _VERSION:
        raise CheckpointDamaged(f"version is `{lines[0]}`, expected `{_VERSION}`")
    if len(lines) < 2 or len(lines) - 2 != _integer(lines[1]):
        raise CheckpointDamaged(f"{len(lines) - 2} entries, `{lines[1:2]}` announced")
    for line in lines[2:]:
        fields = line.split(" ")
        if len(fields) != field_count:
            raise CheckpointDamaged(f"line `{line}` does not have {field_count} fields")
        yield line, fields


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CheckpointDamaged(f"`{text}` is not a number") from None


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CheckpointDamaged("not utf-8 text") from None
