"""What Apache Kafka may have left in a log directory and this software cannot go on with.

A node that opened such a directory would lose something without a word: the records of a tiered
topic that are only in the remote tier, metadata of a newer Kafka, records in the message formats 0
and 1. So a node looks before it writes a byte, and does not start; `tidelog migrate check` names
all of it beforehand.

Of a record of the metadata its kind and version are looked at; the replay decodes it. A partition
has older formats where its oldest segment begins with one: Kafka has written format 2 alone since
it has controllers of its own. That is 8 us for each partition.

Left out: identity (`log/identity.py`), and feature levels, which the controller judges when the
broker registers.

Source: KIP-405 (tiered storage).
"""

from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from tidelog.broker.stored_metadata import NEWER, read_metadata, stored_values
from tidelog.env.disk import Disk
from tidelog.errors import ProtocolError, StorageError
from tidelog.log.file_names import LOG_SUFFIX, offset_name
from tidelog.log.partition_directories import parse_partition_name
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.record_codec import read_kind
from tidelog.model import METADATA_PARTITION
from tidelog.records.batch import MAGIC_POSITION

TIERED: Final = "remote.storage.enable"
"""A topic's property."""

_OLD_FORMATS: Final = (0, 1)
_OLD_MESSAGE: Final = Struct(">8xiI")
"""How a message of such a format begins: its offset, then the size of the rest, and the checksum
of what follows."""
_READ_BYTES: Final = 1 << 20
_KIND_BYTES: Final = 6
"""Two for each of the three numbers before the body of a record."""
_FIRST_SEGMENT: Final = offset_name(0) + LOG_SUFFIX


class Hindrance(NamedTuple):
    """Something that keeps this software from taking a node's place."""

    place: str
    """A file, a directory, or a part of the cluster."""
    reason: str
    hint: str


def hindrances(disk: Disk) -> Iterator[Hindrance]:
    """What is in a log directory. Raises `StorageError` for one that cannot be read."""
    # Damage, here and below, is for the recovery of the log to judge.
    with suppress(StorageError):
        yield from _of_metadata(disk)
    for name in sorted(disk.list_dir()):
        if parse_partition_name(name) is not None:
            with suppress(StorageError):
                yield from _old_format(disk, name)


def _of_metadata(disk: Disk) -> Iterator[Hindrance]:
    wanted, may_be_tiered = TIERED.encode(), False
    known: set[bytes] = set()
    for path, _, value in stored_values(disk):
        try:
            # Of thousands of records only the first of each kind.
            if (begin := value[:_KIND_BYTES]) not in known:
                read_kind(value)
                known.add(begin)
        except ProtocolError as error:
            hint = "go on with the Kafka that wrote it, or with a newer Tidelog"
            yield Hindrance(f"{disk.root}/{path}", f"{error}: {NEWER}", hint)
            return
        may_be_tiered |= wanted in value
    if may_be_tiered:
        yield from tiered_topics(disk.root, read_metadata(disk))


def _old_format(disk: Disk, name: str) -> Iterator[Hindrance]:
    """The oldest records of a partition are the ones that may have another format."""
    oldest = f"{name}/{_FIRST_SEGMENT}"
    head = disk.read_head(oldest, MAGIC_POSITION + 1)
    if head is None:
        found = [each for each in disk.list_dir(name) if each.endswith(LOG_SUFFIX)]
        if not found:
            return
        oldest = f"{name}/{found[0]}"
        head = disk.read_head(oldest, MAGIC_POSITION + 1) or b""
    if not _may_be_old(head) or not _is_old_message(disk, oldest, head):
        return
    yield Hindrance(
        f"{disk.root}/{oldest}",
        f"its records have message format {head[MAGIC_POSITION]}",
        "copy the topic with Kafka, or wait until retention has dropped the old segments",
    )


def _may_be_old(head: bytes) -> bool:
    return len(head) > MAGIC_POSITION and head[MAGIC_POSITION] in _OLD_FORMATS


def _is_old_message(disk: Disk, path: str, head: bytes) -> bool:
    """Whether a file begins with a message of an old format: its checksum is right. Bytes that only
    look like one are damage."""
    size_bytes, checksum = _OLD_MESSAGE.unpack_from(head)
    position, end = MAGIC_POSITION, MAGIC_POSITION - 4 + size_bytes
    file = disk.open(path)
    try:
        if not position < end <= file.size_bytes:
            return False
        found = 0
        while position < end:
            found = crc32(file.read(position, min(_READ_BYTES, end - position)), found)
            position += _READ_BYTES
        return bool(found == checksum)
    finally:
        file.close()


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
