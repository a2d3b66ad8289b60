"""Removing what is bad from a damaged log, so that the rest is a log again.

A damaged log keeps its files until replication has made sure that the cluster does not count on it.
Then the bad segment goes with everything behind it, and the log is fetched again from there.

There may be thousands of segments, so a repair is done in pieces (`pieces.py`). Files go from the
end of the log to the bad segment, which is the last to go, and the checkpoints keep what the log
claimed: a start in the middle finds the log damaged, as it was.
"""

from typing import NamedTuple

from tidelog.config import LogConfig
from tidelog.env.disk import Disk
from tidelog.errors import LogDamaged
from tidelog.limits import FILE_DELETION_WORK, FILE_SYNC_WORK
from tidelog.log.checkpoint import LEADER_EPOCH_FILE
from tidelog.log.file_names import CORRUPT_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, offsets_in
from tidelog.log.loading import opened
from tidelog.log.log import Log
from tidelog.log.partition_directories import make_partition_dir
from tidelog.log.pieces import Pieces
from tidelog.log.replacement import finish_swaps
from tidelog.log.values import UNKNOWN_END, Checkpoints, LogEnv
from tidelog.model import ZERO_TOPIC_ID, TopicId, TopicPartition


class Damage(NamedTuple):
    """What is known of a log that must not be served."""

    base_offset: int
    """Where the first bad segment begins: what lies below is not known to be wrong."""
    cause: str
    checkpoints: Checkpoints
    """What the log claimed before."""
    topic_id: TopicId = ZERO_TOPIC_ID
    """`ZERO_TOPIC_ID` when its identity is not known."""
    truncation_count: int = -1
    """Of the log that was in service in this process; -1 when none was."""

    @property
    def saved_high_watermark(self) -> int:
        """What checkpoints say of the high watermark while the records are not back. A start takes
        the metadata log to have been durable up to where both files say so (`flushed_end.py`)."""
        return max(self.checkpoints.high_watermark, self.checkpoints.recovery_point)

    @property
    def outlasting_repair(self) -> "Damage":
        """The same for a log that its repair has cut. Where its end is not known, what is left must
        not read as sound: no end is far enough."""
        if self.checkpoints.complete:
            return self
        known = self.checkpoints._replace(recovery_point=UNKNOWN_END - 1, complete=True)
        return self._replace(checkpoints=known)

    def is_of_another_topic(self, topic_id: TopicId) -> bool:
        """Whether the log belongs to a topic that was deleted and created again."""
        return self.topic_id not in (ZERO_TOPIC_ID, topic_id)


def reopened(
    env: LogEnv,
    topic_partition: TopicPartition,
    config: LogConfig,
    damage: Damage,
    *,
    set_aside: bool,
) -> Pieces[Log]:
    """Removes the bad segment of a damaged log and all behind it, and opens the rest, durable. With
    `set_aside` the records that go stay as `.corrupt`."""
    path = str(topic_partition)
    make_partition_dir(env.disk, path)
    # A cleaner may have been at it. What is complete would get its name back behind the cut.
    yield from finish_swaps(env, path)
    bad_from = damage.base_offset
    while True:
        kept = yield from _cut_from(env.disk, path, bad_from, set_aside=set_aside)
        known = damage.checkpoints if kept else Checkpoints()
        checkpoints = Checkpoints(
            log_start_offset=min(known.log_start_offset, bad_from),
            high_watermark=min(known.high_watermark, bad_from),
            # What is fetched behind the cut is dirty, and a crash may come before a checkpoint.
            cleaned_to=min(known.cleaned_to, 0),
        )
        try:
            log = yield from opened(env, topic_partition, config, checkpoints)
            break
        except LogDamaged as error:
            bad_from = error.base_offset if error.base_offset < bad_from else 0
    for segment in log.segments:
        # Its files were closed with flushes under way, which were skipped.
        for file in segment.unsynced_files():
            env.disk.sync(file)
            yield FILE_SYNC_WORK
    log.ledger.begin_after(damage.truncation_count)
    return log


def _cut_from(disk: Disk, path: str, base_offset: int, *, set_aside: bool) -> Pieces[bool]:
    """Deletes the segments from `base_offset` on, with indexes and snapshots; returns whether any
    are left. Without any, nothing of the old log is left. Its identity stays, and so does what is
    not the log's: beside the metadata log lie the quorum's votes and snapshots. With `set_aside`
    the records themselves stay as `.corrupt`, for an operator without other copy."""
    names = disk.list_dir(path)
    logs = offsets_in(names, LOG_SUFFIX).values()
    is_left = any(offset < base_offset for offset in logs)
    snapshots = offsets_in(names, SNAPSHOT_SUFFIX).items()
    going = [name for name, offset in offsets_in(names).items() if offset >= base_offset]
    going += [name for name, offset in snapshots if offset > base_offset]
    if not is_left:
        of_log = [*offsets_in(names), *offsets_in(names, SNAPSHOT_SUFFIX), LEADER_EPOCH_FILE]
        going = [name for name in of_log if name in names]
    for name in sorted(going, reverse=True):
        file = f"{path}/{name}"
        if set_aside and name.endswith(LOG_SUFFIX) and _has_content(disk, file):
            disk.delete(file + CORRUPT_SUFFIX)
            disk.rename(file, file + CORRUPT_SUFFIX)
        else:
            disk.delete(file)
        yield FILE_DELETION_WORK
    return is_left


def _has_content(disk: Disk, path: str) -> bool:
    file = disk.open(path)
    size_bytes = file.size_bytes
    file.close()
    return size_bytes > 0
