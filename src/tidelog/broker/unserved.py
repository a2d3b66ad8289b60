"""What Apache Kafka may have left in a log directory and this software cannot go on with.

A node that opened such a directory would lose something without a word: the records of a tiered
topic that are only in the remote tier. So a node looks before it writes a byte, and does not start;
`tidelog migrate check` names all of it beforehand.

Whether topics are tiered is in the metadata. A start does not decode all of it for that: the
property's name is looked for in the bytes, which are not compressed, and only where it is found the
metadata is read.

Left out: identity (`log/identity.py`), feature levels, which the controller judges when the broker
registers, and records of a newer kind, which end the replay of the metadata log with their reason.

Source: KIP-405 (tiered storage).
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from tidelog.env.disk import Disk
from tidelog.errors import CorruptBatch, ProtocolError, StorageError
from tidelog.kraft.snapshot_format import parse_snapshot_name, read_snapshot, snapshot_name
from tidelog.log.file_names import LOG_SUFFIX
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.metadata.record_codec import decode_record
from tidelog.model import METADATA_PARTITION
from tidelog.records.batch import decode_body, iter_headers

TIERED: Final = "remote.storage.enable"
"""A topic's property."""


class Hindrance(NamedTuple):
    """Something that keeps this software from taking a node's place."""

    place: str
    """A file, a directory, or a part of the cluster."""
    reason: str
    hint: str


def hindrances(disk: Disk) -> Iterator[Hindrance]:
    """What is in a log directory. Raises `StorageError` for one that cannot be read."""
    if _names_tiered(disk):
        # Damage is for the recovery of the metadata log to judge.
        with suppress(StorageError):
            yield from tiered_topics(disk.root, read_metadata(disk))


def tiered_topics(root: str, image: MetadataImage) -> Iterator[Hindrance]:
    """Topics with records in a remote tier."""
    for name in sorted(image.topics_by_name):
        if image.topic_configs(name).get(TIERED) == "true":
            yield Hindrance(
                f"{root}/{METADATA_PARTITION}",
                f"topic `{name}` has segments in a remote tier (`{TIERED}` is `true`)",
                f"switch tiering off for it with Kafka: `kafka-configs.sh --alter --topic {name} "
                f"--add-config {TIERED}=false,remote.log.delete.on.disable=true`",
            )


def _names_tiered(disk: Disk) -> bool:
    wanted = TIERED.encode()
    return any(wanted in data for _, data in _metadata_files(disk))


def _metadata_files(disk: Disk) -> Iterator[tuple[str, bytes]]:
    """The newest snapshot and the segments of the metadata log, in this order."""
    where = str(METADATA_PARTITION)
    names = disk.list_dir(where) if disk.exists(where) else []
    snapshots = sorted(filter(None, map(parse_snapshot_name, names)))
    segments = sorted(name for name in names if name.endswith(LOG_SUFFIX))
    for name in [*map(snapshot_name, snapshots[-1:]), *segments]:
        yield f"{where}/{name}", disk.read_file(f"{where}/{name}") or b""


def read_metadata(disk: Disk) -> MetadataImage:
    """The metadata that a directory holds, records included that may not be committed; a log that
    a crash has torn is read up to there. Raises `StorageError` for what this version cannot read,
    and for a damaged snapshot."""
    delta, end_offset = MetadataDelta(EMPTY_IMAGE), 0
    for path, data in _metadata_files(disk):
        snapshot_id = parse_snapshot_name(path.rpartition("/")[2])
        try:
            if snapshot_id is not None:
                for value in read_snapshot(data, snapshot_id).records:
                    delta.replay(decode_record(value), snapshot_id.end_offset - 1)
                end_offset = snapshot_id.end_offset
            else:
                _replay_segment(delta, data, end_offset)
        except CorruptBatch as error:
            if snapshot_id is not None:
                raise StorageError(f"{disk.root}/{path}", str(error)) from error
            break
        except ProtocolError as error:
            reason = f"{error}: written by a newer version"
            raise StorageError(f"{disk.root}/{path}", reason) from error
    return delta.apply(end_offset, 0)


def _replay_segment(delta: MetadataDelta, data: bytes, end_offset: int) -> None:
    for position, header in iter_headers(data):
        if header.last_offset < end_offset or header.is_control:
            continue
        for number, record in enumerate(decode_body(data, position, header)):
            offset = header.base_offset + number
            if record.value is not None and offset >= end_offset:
                delta.replay(decode_record(bytes(record.value)), offset)
