"""What lies on the disks, whatever a process makes of it: looked at in the files themselves."""

from collections.abc import Collection, Iterable
from typing import Final

from tidelog.kraft.snapshot_format import parse_snapshot_name
from tidelog.log.partition_directories import parse_partition_name
from tidelog.sim.checkers.base import Checker, Evidence
from tidelog.sim.checkers.replicas import waits_for_a_read
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.durable import (
    LogImages,
    LogReader,
    from_offset,
    log_start_in,
    seen_files,
    topic_id_in,
)
from tidelog.sim.evidence.oracle import BatchMark, PartitionId
from tidelog.sim.evidence.scrub import OFFSET_FILES, ScrubbedBatch, scrub

EVERY_SWEEPS: Final = 10


class DisksAreSound(Checker):
    """V6: once healed, a scrub of every disk finds nothing wrong.

    Every batch has its checksum, every index entry of a sealed segment leads to its batch, the
    epoch file agrees with the batches, every small file can be read. What a fault damaged on the
    way has been found and repaired, not stepped around, or a later read of the log would find it.
    """

    def at_end(self, evidence: Evidence) -> None:
        for host in evidence.world.hosts.values():
            with host.observed():
                complaints = [each for disk in host.disks for each in scrub(disk, settled=True)]
            if host.disk.was_damaged:
                # A bad checkpoint counts as empty, and is written anew when its time comes.
                passed = (*OFFSET_FILES, *_unread(host))
                complaints = [each for each in complaints if not each.startswith(passed)]
            if complaints:
                self.reject(f"{host.name}: {'; '.join(complaints[:5])}")


def _unread(host: Host) -> list[str]:
    """The directories of logs whose damage no read has found yet."""
    assert host.node is not None, f"{host.name} is down at the end"
    partitions = host.node.broker.replicas.partitions
    return [f"{key}/" for key, one in partitions.items() if waits_for_a_read(host, one.log)]


class CommittedIsDurable(Checker):
    """I4: with group commit, what is committed is on min ISR devices at least, whatever page caches
    hold.

    Looked at in each tenth sweep, on the durable images alone: this is what would be left if all
    machines lost power now. A device on which the log begins behind the last committed record has
    lost nothing. Topics that are being deleted and disks that a fault has damaged do not count.
    """

    def __init__(self, min_isr: int) -> None:
        self._min_isr = min_isr
        self._reader = LogReader()
        self._sweep_count = 0

    def sweep(self, evidence: Evidence) -> None:
        self._sweep_count += 1
        if self._sweep_count % EVERY_SWEEPS == 0:
            self.look(evidence)

    def look(self, evidence: Evidence) -> None:
        """Counts the devices that hold the last committed batch of each partition."""
        hosts = evidence.world.hosts.values()
        if any(host.disk.damaged for host in hosts):
            return
        holders: dict[PartitionId, list[str]] = {}
        for host in hosts:
            for pid in self._held_by(host, evidence):
                holders.setdefault(pid, []).append(host.name)
        for pid, true_log in evidence.oracle.logs.items():
            held = holders.get(pid, [])
            if not true_log.batches or str(pid).rpartition("-")[0] in evidence.history.abandoned:
                continue
            if len(held) < self._min_isr:
                last = true_log.batches[-1]
                self.reject(f"{pid}: {last} is committed, and on the devices of {held} only")

    def _held_by(self, host: Host, evidence: Evidence) -> list[PartitionId]:
        return [pid for disk in host.disks for pid in self._held_on(disk, evidence)]

    def _held_on(self, disk: SimDisk, evidence: Evidence) -> list[PartitionId]:
        files = disk.durable_files()
        found: list[PartitionId] = []
        for pid, true_log in evidence.oracle.logs.items():
            directory = f"{pid.topic}-{pid.partition}"
            if topic_id_in(files, directory) != pid.topic_id or not true_log.batches:
                continue
            last = true_log.batches[-1]
            # A cleaner may have rewritten it.
            count = 3 if true_log.contents else 4
            if log_start_in(files, directory) > last.last_offset or any(
                BatchMark(each.base_offset, each.last_offset, each.leader_epoch, each.crc)[:count]
                == last[:count]
                for each in reversed(self._reader.batches(disk.root, files, directory))
            ):
                found.append(pid)
        return found


class RecoveredFromImage(Checker):
    """I16: what a start makes of a log is a legal crash image of what was written.

    When a machine loses power the images of its logs are noted, file by file: what the process had
    written, and what the device had for sure. When the next process has opened its logs:

    - nothing is invented: each log is a prefix of what was written, or of what the device had (an
      unsynced truncation may come undone; so may the names of a cleaner's swap);
    - nothing is lost that was safe: it holds at least what both had in common.

    A machine may lose power once more before a process has opened its logs, and a start that failed
    may have changed files in between. What the device had before the *first* of these power cuts
    counts.

    A log that begins anew behind a snapshot has lost nothing that the snapshot does not have: a
    power cut may come between the snapshot's last byte and the cutting of the log.

    Below its log start a log may have segments or not: they are deleted, and that may come undone.

    Disks that a fault has damaged are not looked at; what they may lose is judged by
    `DisksAreSound` and `NothingLost`.
    """

    def __init__(self) -> None:
        self._reader = LogReader()
        # By disk and log: the image at the first power cut since the log was opened, until it is
        # opened the next time.
        self._images: dict[str, dict[str, LogImages]] = {}

    def before_power_cut(self, disk: SimDisk) -> None:
        """The device is about to lose what it has not got. What an earlier power cut has left,
        and no process has recovered since, says less than what was there before it."""
        with disk.observed():
            names = [name for name in disk.list_dir() if parse_partition_name(name) is not None]
        known = self._images.get(disk.root, {})
        self._images[disk.root] = self._reader.images(disk, names) | known

    def after_opening(self, host: Host) -> None:
        """A process may have opened more of its logs; a start with work that costs time opens them
        in slices, and does nothing else before all are open."""
        node = host.node
        for number, disk in enumerate(host.disks):
            images = self._images.get(disk.root)
            if node is not None and images:
                parsed = {name: parse_partition_name(name) for name in images}
                opened = [
                    name
                    for name, one in parsed.items()
                    if one is None or node.has_opened(one, number)
                ]
                self.after_start(disk, opened)

    def after_start(self, disk: SimDisk, names: Collection[str] | None = None) -> None:
        """The next process has opened its logs, or those of these names, and done nothing else
        yet."""
        images = self._images.get(disk.root, {})
        if disk.damaged:
            images.clear()
            return
        seen = seen_files(disk)
        for directory in [name for name in images if names is None or name in names]:
            image = images.pop(directory)
            everything = self._reader.batches(disk.root, seen, directory)
            found = from_offset(image.log_start, everything)
            if not found and _has_snapshot_beyond(seen, directory, image):
                continue
            self._compare(f"{disk.root} {directory}", found, image)

    def _compare(self, who: str, found: tuple[ScrubbedBatch, ...], image: LogImages) -> None:
        if not image.allow(found):
            self.reject(
                f"{who}: recovered is a log that ends with {found[-1]}, which is neither what was "
                f"written, up to {image.written[-1:]}, nor what the device had, up to "
                f"{image.on_device[-1:]}"
            )
        if len(found) < image.kept_count:
            self.reject(f"{who}: {image.written[len(found)]} was on the device and is gone")


def _has_snapshot_beyond(paths: Iterable[str], directory: str, image: LogImages) -> bool:
    """Whether a snapshot stands for every batch that the log had."""
    end = max((batch.last_offset + 1 for batch in image.written), default=0)
    inside = (path.removeprefix(f"{directory}/") for path in paths if path.startswith(directory))
    snapshots = (parse_snapshot_name(name) for name in inside)
    return any(snapshot is not None and snapshot.end_offset >= end for snapshot in snapshots)
