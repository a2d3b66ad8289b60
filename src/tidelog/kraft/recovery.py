"""What a replica starts from: its newest sound snapshot, and the log behind it.

A crash may fall between any two steps of writing, installing or cleaning, so log and snapshots are
brought together here, in this order:

1. The newest snapshot is read whole. A damaged one is put aside, and the next older one is
   tried, as long as the log goes on from where it ends.
2. A log that does not contain the snapshot's last record in the snapshot's epoch is emptied and
   begins behind it: the process ended after a download and before the log was given up, or a
   power cut took records that others have made committed.
3. A log that begins above offset 0 begins at a snapshot (*SnapshotAtLogStart*), and snapshots
   that end below it are of no use.

All that is `recover`. When no snapshot is left for a log that does not begin at 0, the state cannot
be rebuilt here. Whether another replica has it is said by the records of the log, so the caller
reads them first and then calls `do_without_base`. The log itself is sound: the replica keeps it,
votes and replicates with it, but never asks for votes, because no replica could give a leader its
state, and it asks the leader for a snapshot (*BaseBeforeLeading*). If the log is empty and no file
of the snapshot is left either, the epoch of its end is unknown: the replica does not vote before it
has caught up. A quorum of one has no other replica to ask and refuses to start.

Source: KIP-630; Kafka's `KafkaRaftLog.recoverSnapshots`, `truncateToLatestSnapshot`.
"""

from tidelog.errors import UsageError
from tidelog.kraft.control_records import on_snapshot_loaded
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import SUBJECT
from tidelog.kraft.messages import SnapshotId
from tidelog.kraft.snapshot_format import BOOTSTRAP_SNAPSHOT, SnapshotContent
from tidelog.log.log import Log


def recover(core: QuorumCore) -> SnapshotContent | None:
    """Brings log and snapshots together; returns the snapshot to begin from, if any."""
    content = _load_newest(core)
    base = None if content is None else content.snapshot_id
    if content is not None:
        on_snapshot_loaded(core, content)
    if base is not None and base != BOOTSTRAP_SNAPSHOT:
        if not _contains(core.log, base):
            core.env.trace.warn(
                SUBJECT,
                "recover",
                "log restarted",
                "it does not contain the newest snapshot",
                snapshot=str(base),
                log_start=core.log.log_start_offset,
                log_end=core.log.log_end_offset,
            )
            core.log.truncate_fully_and_start_at(base.end_offset, start_is_durable=True)
        core.high_watermark = max(core.high_watermark, base.end_offset)
        if core.high_watermark > core.log.high_watermark:
            core.log.update_high_watermark(core.high_watermark)
        _align_log_start(core)
        return content
    core.lacks_base = core.log.log_start_offset > 0
    return None


def _load_newest(core: QuorumCore) -> SnapshotContent | None:
    for snapshot_id in reversed(list(core.snapshots.ids)):
        if snapshot_id.end_offset < core.log.log_start_offset:
            # The log does not go on from here.
            return None
        content = core.snapshots.load(snapshot_id)
        if content is not None:
            return content
    return None


def _contains(log: Log, snapshot_id: SnapshotId) -> bool:
    """Whether the log goes on from the snapshot as its leader wrote it."""
    end_offset = snapshot_id.end_offset
    if not log.log_start_offset <= end_offset <= log.log_end_offset:
        return False
    if end_offset == log.log_start_offset:
        # Its last record is gone; what follows must not be older than it.
        return end_offset < log.log_end_offset and log.epoch_at(end_offset) >= snapshot_id.epoch
    return log.epoch_at(end_offset - 1) == snapshot_id.epoch


def _align_log_start(core: QuorumCore) -> None:
    log, snapshots = core.log, core.snapshots
    if log.log_start_offset == 0:
        return
    snapshots.forget_before(log.log_start_offset, "ends below the log's start")
    earliest = snapshots.earliest
    assert earliest is not None, f"log starts at {log.log_start_offset} without a snapshot"
    log.maybe_raise_log_start_offset(earliest.end_offset)


def do_without_base(core: QuorumCore) -> None:
    """The log lacks what came before it. Raises `UsageError` when no other replica has it."""
    start = core.log.log_start_offset
    problem = (
        f"the metadata log in `{core.env.disk.root}` begins at offset `{start}` and there is no "
        "sound snapshot of what came before"
    )
    if core.is_alone:
        raise UsageError(
            problem,
            "restore a `.checkpoint` file from a backup; this node is the only voter, no other "
            "node has the metadata",
        )
    core.env.trace.error(
        SUBJECT,
        "recover",
        "without a state",
        f"{problem}; hint: a snapshot is fetched from the leader; see that it can be reached",
        log_start=start,
        log_end=core.log.log_end_offset,
    )
    core.snapshots.forget_before(start, "ends below the log's start")
    if not core.last_epoch:
        # The file of the snapshot is gone, and with it the epoch in which the log ends.
        core.must_catch_up = True
