"""ImageIsFoldOfLog (I18): the image of each node is the fold of the committed metadata log up to
its offset; so images at the same offset are equal on all nodes.

The log is read from the files of sound disks, each committed batch once, and replayed in its order
on the empty image. Every image that any node came to is compared: with the fold, or with the first
one seen at its offset until the fold gets there.

Retention may take a part of the log from all disks between two looks; from there on the fold goes
on from an image of a node, which at that time was equal to all others at its offset. Left out is
`registration_offset`, in which a node that loaded a snapshot may differ.
"""

from collections.abc import Iterator
from typing import Final

from tidelog.errors import CorruptBatch
from tidelog.log.file_names import LOG_SUFFIX
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.metadata.record_codec import decode_record
from tidelog.model import METADATA_PARTITION
from tidelog.records.batch import batch_size_at, decode_batch, read_header
from tidelog.sim.checkers.base import Checker, Evidence
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.engine.host import Host

EVERY_SWEEPS: Final = 5


class ImageIsFoldOfLog(Checker):
    """Folds the log itself."""

    def __init__(self) -> None:
        # By offset: the first image that a node had there, and the fold after each batch.
        self._images: dict[int, MetadataImage] = {}
        self._folds: dict[int, MetadataImage] = {}
        # The newest fold.
        self._fold = EMPTY_IMAGE
        self._sweep_count = 0

    def on_image(self, host: Host, image: MetadataImage) -> None:
        """Compares a new image with the fold, or with what others had at that offset."""
        known = self._folds.get(image.offset)
        if known is None:
            known = self._images.setdefault(image.offset, image)
        self._compare(host.name, image, known)

    def sweep(self, evidence: Evidence) -> None:
        """Looks at each fifth call."""
        self._sweep_count += 1
        if self._sweep_count % EVERY_SWEEPS == 0:
            self.look(evidence)

    def at_end(self, evidence: Evidence) -> None:
        """Every node's image has its fold."""
        self.look(evidence)
        for host in evidence.world.hosts.values():
            if host.node is not None:
                image = host.node.broker.image
                known = self._folds.get(image.offset)
                if known is None:
                    self.reject(f"{host.name} has an image at {image.offset}, where no batch ends")
                self._compare(host.name, image, known)

    def look(self, evidence: Evidence) -> None:
        """Folds what was committed since the last time."""
        for host in evidence.world.hosts.values():
            if host.node is None or host.disk.damaged:
                continue
            high_watermark = host.node.broker.quorum.high_watermark
            if high_watermark > self._fold.offset + 1:
                self._skip_what_is_gone(host.disk)
                for batch in _batches(host.disk, self._fold.offset + 1, high_watermark):
                    self._take(batch)

    def _take(self, batch: bytes) -> None:
        header = read_header(batch)
        delta = MetadataDelta(self._fold)
        if not header.is_control:
            for record in decode_batch(batch):
                delta.replay(decode_record(record.value or b""), record.offset)
        self._fold = delta.apply(header.last_offset, header.leader_epoch)
        self._folds[header.last_offset] = self._fold
        known = self._images.pop(header.last_offset, None)
        if known is not None:
            self._compare("a node", known, self._fold)

    def _skip_what_is_gone(self, disk: SimDisk) -> None:
        first = min((base for base, _ in _segments(disk)), default=0)
        if first > self._fold.offset + 1:
            offset = min((one for one in self._images if one >= first - 1), default=None)
            if offset is not None:
                self._fold = self._folds[offset] = self._images.pop(offset)

    def _compare(self, who: str, image: MetadataImage, known: MetadataImage) -> None:
        if image is not known and image != known:
            self.reject(f"{who} has an image at {image.offset} that is not the fold of the log")


def _segments(disk: SimDisk) -> list[tuple[int, str]]:
    """Base offsets and paths of the metadata log's files, in order."""
    prefix = f"{METADATA_PARTITION}/"
    return sorted(
        (int(path.removeprefix(prefix).removesuffix(LOG_SUFFIX)), path)
        for path, _ in disk.contents()
        if path.startswith(prefix) and path.endswith(LOG_SUFFIX)
    )


def _batches(disk: SimDisk, offset: int, high_watermark: int) -> Iterator[bytes]:
    """The batches of a disk from the one that begins at `offset`, below a high watermark, as far as
    they follow each other."""
    segments = _segments(disk)
    ends = [base for base, _ in segments[1:]] + [high_watermark]
    for (_, path), end_offset in zip(segments, ends, strict=True):
        if end_offset <= offset:
            continue
        data, position = bytes(disk.content(path).data), 0
        while (size_bytes := batch_size_at(data, position)) and offset < high_watermark:
            batch = data[position : position + size_bytes]
            try:
                header = read_header(batch)
            except CorruptBatch:
                return
            if header.base_offset == offset and len(batch) == size_bytes:
                yield batch
                offset = header.last_offset + 1
            position += size_bytes
