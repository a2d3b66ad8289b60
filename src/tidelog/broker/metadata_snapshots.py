"""Snapshots of the metadata: when to make one, and writing it without stopping the node.

Every node makes its own, from the image that it has published, at the end of what is committed:
after so many bytes of records (`metadata.log.max.record.bytes.between.snapshots`), after so much
time if there are new records (`metadata.log.max.snapshot.interval.ms`), and at once when the quorum
lost the snapshot that its log needs.

An image never changes, so it is written a few records a tick, while the node goes on. What is
committed meanwhile is in the next snapshot. A snapshot from the leader replaces the one being
written.

Source: KIP-630; Kafka's `SnapshotGenerator`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from tidelog.config import QuorumConfig
from tidelog.env.instant import Instant
from tidelog.env.steps import Steps
from tidelog.errors import ProtocolError, StorageError
from tidelog.kraft.messages import Committed, CommittedBatch, LoadedSnapshot, SnapshotId
from tidelog.kraft.quorum import Quorum
from tidelog.kraft.snapshot_format import snapshot_name
from tidelog.kraft.snapshots import SnapshotWriter
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.image_records import image_of_records, image_records
from tidelog.metadata.record_codec import encode_record
from tidelog.metadata.records import MetadataRecord
from tidelog.model import METADATA_PARTITION

RECORDS_PER_TICK: Final = 100
"""A few milliseconds of encoding."""


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """A snapshot that takes the place of all metadata known before."""

    image: MetadataImage


CommittedMetadata = CommittedBatch | LoadedImage


def with_images(committed: Sequence[Committed]) -> list[CommittedMetadata]:
    """What was committed, with the images that snapshots stand for.

    Raises `StorageError` when a snapshot has records that this version cannot read.
    """
    return [
        LoadedImage(_image_of(each)) if isinstance(each, LoadedSnapshot) else each
        for each in committed
    ]


def _image_of(snapshot: LoadedSnapshot) -> MetadataImage:
    end_offset, epoch = snapshot.snapshot_id
    try:
        return image_of_records(snapshot.records, end_offset - 1, epoch)
    except ProtocolError as error:
        path = f"{METADATA_PARTITION}/{snapshot_name(snapshot.snapshot_id)}"
        raise StorageError(path, f"cannot be read: {error.message}") from error


class MetadataSnapshots:
    """Makes the snapshots of one node."""

    def __init__(self, quorum: Quorum, config: QuorumConfig, steps: Steps, now: Instant) -> None:
        self._quorum = quorum
        self._steps = steps
        self._config = config
        # Bytes of committed records since the last snapshot was begun or loaded.
        self._unsaved_bytes = 0
        # When that was, or when the process started.
        self._saved_at = now
        # Wall time at which the last committed batch was appended.
        self._append_time_ms = 0
        # The snapshot being written, and the records that it still lacks.
        self._writing: tuple[SnapshotWriter, Iterator[MetadataRecord]] | None = None
        # The last tick: while one is written, the next is due at once.
        self._woken_at = now

    def on_committed(
        self, committed: Sequence[Committed], image: MetadataImage, now: Instant
    ) -> None:
        """The node has published `image`, with all of this."""
        for each in committed:
            self._append_time_ms = each.append_time_ms
            if isinstance(each, LoadedSnapshot):
                self._unsaved_bytes = 0
                self._saved_at = now
            else:
                self._unsaved_bytes += each.size_bytes
        if self._is_due(now) and image.open_transaction is None:
            self._begin(image, now)

    def _is_due(self, now: Instant) -> bool:
        interval_ms = self._config.max_snapshot_interval_ms
        return (
            self._unsaved_bytes >= self._config.max_record_bytes_between_snapshots
            or (interval_ms > 0 and now - self._saved_at >= interval_ms)
            or self._quorum.wants_snapshot
        )

    def _begin(self, image: MetadataImage, now: Instant) -> None:
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        writer = self._quorum.begin_snapshot(snapshot_id, self._append_time_ms)
        if writer is not None:
            self._writing = (writer, image_records(image))
            self._unsaved_bytes = 0
            self._saved_at = now

    def wake(self, now: Instant) -> None:
        """Writes the next few records. Raises `StorageError`."""
        self._woken_at = now
        if self._writing is None:
            return
        self._steps.begin("metadata snapshot", RECORDS_PER_TICK)
        writer, records = self._writing
        if not writer.is_current:
            self._writing = None
            return
        values = [encode_record(record) for record in islice(records, RECORDS_PER_TICK)]
        if values:
            writer.append(values)
        if len(values) < RECORDS_PER_TICK:
            writer.finish()
            self._writing = None

    def deadline(self) -> Instant | None:
        """At once, while a snapshot is written."""
        return None if self._writing is None else self._woken_at
