"""RecoveredFromImage (I16): what a start makes of a log is a legal crash image of what was written.

When a machine loses power the images of its logs are noted, file by file: what the process had
written, and what the device had for sure. When the next process has opened its logs:

- nothing is invented: each log is a prefix of what was written, or of what the device had (an
  unsynced truncation may come undone);
- nothing is lost that was safe: it holds at least what both had in common.

A machine may lose power once more before a process has opened its logs, and a start that failed may
have changed files in between. What the device had before the *first* of these power cuts counts.

A log that begins anew behind a snapshot has lost nothing that the snapshot does not have: a power
cut may come between the snapshot's last byte and the cutting of the log.

Disks that a fault has damaged are not looked at; what they may lose is judged by `DisksAreSound`
and `NothingLost`.
"""

from collections.abc import Iterable

from tidelog.kraft.snapshot_format import parse_snapshot_name
from tidelog.log.partition_directories import parse_partition_name
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.evidence.durable import LogImages, LogReader, seen_files
from tidelog.sim.evidence.scrub import ScrubbedBatch
from tidelog.sim.report.violation import Violation


class RecoveredFromImage:
    """Remembers the images of each host's logs while it is down."""

    name = "RecoveredFromImage"

    def __init__(self) -> None:
        self._reader = LogReader()
        # By disk: the images at the first power cut since the last start, until the next one.
        self._images: dict[str, dict[str, LogImages]] = {}

    def before_power_cut(self, disk: SimDisk) -> None:
        """The device is about to lose what it has not got. What an earlier power cut has left,
        and no process has recovered since, says less than what was there before it."""
        if disk.root in self._images:
            return
        with disk.observed():
            names = [name for name in disk.list_dir() if parse_partition_name(name) is not None]
        self._images[disk.root] = self._reader.images(disk, names)

    def after_start(self, disk: SimDisk) -> None:
        """The next process has opened its logs and done nothing else yet."""
        images = self._images.pop(disk.root, {})
        if disk.damaged:
            return
        seen = seen_files(disk)
        for directory, image in images.items():
            found = self._reader.batches(disk.root, seen, directory)
            if not found and _has_snapshot_beyond(seen, directory, image):
                continue
            self._compare(f"{disk.root} {directory}", found, image)

    def _compare(self, who: str, found: tuple[ScrubbedBatch, ...], image: LogImages) -> None:
        if found not in (image.written[: len(found)], image.on_device[: len(found)]):
            raise Violation(
                self.name,
                f"{who}: recovered is a log that ends with {found[-1]}, which is neither what was "
                f"written, up to {image.written[-1:]}, nor what the device had, up to "
                f"{image.on_device[-1:]}",
            )
        if len(found) < image.kept_count:
            lost = image.written[len(found)]
            raise Violation(self.name, f"{who}: {lost} was on the device and is gone")


def _has_snapshot_beyond(paths: Iterable[str], directory: str, image: LogImages) -> bool:
    """Whether a snapshot stands for every batch that the log had."""
    end = max((batch.last_offset + 1 for batch in image.written), default=0)
    inside = (path.removeprefix(f"{directory}/") for path in paths if path.startswith(directory))
    snapshots = (parse_snapshot_name(name) for name in inside)
    return any(snapshot is not None and snapshot.end_offset >= end for snapshot in snapshots)
