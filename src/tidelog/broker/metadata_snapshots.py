"""Snapshots of the metadata: when to make one, and writing it without stopping the node.

Every node makes its own, from the image that it has published, at the end of what is committed:
after so many bytes of records (`metadata.log.max.record.bytes.between.snapshots`), after so much
time if there are new records (`metadata.log.max.snapshot.interval.ms`), and at once when the quorum
lost the snapshot that its log needs. A node that stops cleanly makes one of less: each restart of a
broker with ten thousand partitions appends twenty thousand records, and the next start would read
those of all restarts before.

An image never changes, so it is written a few records a tick, while the node goes on. What is
committed meanwhile is in the next snapshot. A snapshot from the leader replaces the one being
written. It is read a few records a tick too, before any of it counts.

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
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.metadata.image_records import image_records
from tidelog.metadata.record_codec import decode_record, encode_record
from tidelog.metadata.records import MetadataRecord
from tidelog.model import METADATA_PARTITION

RECORDS_PER_TICK: Final = 100
"""A few milliseconds of encoding."""
_PARTS_AT_STOP: Final = 100
"""A stop needs so many times less for a snapshot: 200 KiB, of Kafka's bound of 20 MiB."""


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """A snapshot that takes the place of all metadata known before."""

    image: MetadataImage


CommittedMetadata = CommittedBatch | LoadedImage


class SnapshotReading:
    """A snapshot that becomes an image, some records at a time: to decode and replay ten thousand
    partitions takes 130 ms."""

    def __init__(self, snapshot: LoadedSnapshot) -> None:
        self.snapshot = snapshot
        self._delta = MetadataDelta(EMPTY_IMAGE)
        # How many of its records are replayed.
        self._replayed = 0

    @property
    def is_complete(self) -> bool:
        """Whether all of it is read."""
        return self._replayed == len(self.snapshot.records)

    def read(self, most: int) -> int:
        """Replays up to so many records; returns how many.

        Raises `StorageError` when this version cannot read one of them.
        """
        snapshot_id = self.snapshot.snapshot_id
        part = self.snapshot.records[self._replayed : self._replayed + most]
        try:
            for value in part:
                self._delta.replay(decode_record(value), snapshot_id.end_offset - 1)
        except ProtocolError as error:
            path = f"{METADATA_PARTITION}/{snapshot_name(snapshot_id)}"
            raise StorageError(path, f"cannot be read: {error.message}") from error
        self._replayed += len(part)
        return len(part)

    def image(self) -> LoadedImage:
        """What all of it stands for."""
        assert self.is_complete, f"{self._replayed} of {len(self.snapshot.records)} records"
        end_offset, epoch = self.snapshot.snapshot_id
        return LoadedImage(self._delta.apply(end_offset - 1, epoch))


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
        # What was published last.
        self._image: MetadataImage = EMPTY_IMAGE
        # That of a clean stop, from its beginning on.
        self._last: SnapshotWriter | None = None
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
        self._image = image
        if self._is_due(now):
            self._begin(now)

    def _is_due(self, now: Instant) -> bool:
        interval_ms = self._config.max_snapshot_interval_ms
        return (
            self._unsaved_bytes >= self._config.max_record_bytes_between_snapshots
            or (interval_ms > 0 and now - self._saved_at >= interval_ms)
            or self._quorum.wants_snapshot
        )

    def begin_last(self, now: Instant) -> None:
        """The node stops cleanly."""
        least = self._config.max_record_bytes_between_snapshots // _PARTS_AT_STOP
        if self._writing is None and self._unsaved_bytes >= least:
            self._begin(now)
        if self._writing is not None:
            self._last, _ = self._writing

    @property
    def has_ended(self) -> bool:
        """Whether the last one is durable, or was given up, or none was due."""
        return self._last is None or not self._last.is_on_its_way

    def _begin(self, now: Instant) -> None:
        image = self._image
        if image.open_transaction is not None:
            return
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
