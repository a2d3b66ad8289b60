"""What a share coordinator's log says: the state of each share partition.

This is the state that the kernel replays (`rsm/kernel.py`). It is immutable.

A snapshot takes the place of all that came before it; updates are laid over it (`batches.py`). So
nothing before the snapshots of all share partitions is needed any more, and the log is cut there
(`upkeep.py`).

Epochs only rise here. A share partition that begins anew has the state of no leader; the leader
epoch that fences is still the highest one in the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidelog.model import NO_EPOCH, NO_OFFSET
from tidelog.rsm.log_records import InTransaction, LogRecord, TransactionEnd
from tidelog.rsm.shared_map import SharedMap
from tidelog.shares.batches import combined
from tidelog.shares.records import SharePartition, ShareRecord, Snapshot, Update, decode, encode


@dataclass(frozen=True, slots=True)
class ShareState:
    """One share partition."""

    partition: SharePartition
    whole: Snapshot
    """The last snapshot with all updates since."""
    updates: int
    """Records since the last snapshot."""
    leader_epoch: int
    """The highest one that was seen: leaders of lower ones are fenced."""
    state_epoch: int
    """Likewise."""
    snapshot_offset: int
    """Its records before this offset are not needed; at most that of its last snapshot."""


@dataclass(frozen=True, slots=True)
class SharesImage:
    """All share partitions of one partition of `__share_group_state`."""

    states: SharedMap[ShareState] = field(default_factory=SharedMap)
    end_offset: int = 0
    """Exclusive."""

    def get(self, partition: SharePartition) -> ShareState | None:
        """One share partition, if it is known."""
        return self.states.get(partition.key)


class SharesMachine:
    """The log of a coordinator as the kernel's state machine."""

    def encode(self, record: ShareRecord | None) -> LogRecord:
        """Key and value."""
        assert record is not None, "an unknown record is not written"
        return encode(record)

    def decode(self, raw: LogRecord) -> ShareRecord | None:
        """The inverse of `encode`; `None` for what no coordinator writes here."""
        return None if isinstance(raw, InTransaction | TransactionEnd) else decode(raw)

    def replay(
        self,
        state: SharesImage,
        records: Sequence[ShareRecord | None],
        last_offset: int,
        epoch: int,
    ) -> SharesImage:
        """The image after a batch."""
        changes: dict[str, ShareState | None] = {}
        # Offsets may be missing in the middle: then those of the records are higher than this.
        for offset, record in enumerate(records, state.end_offset):
            if record is not None:
                key = record.partition.key
                before = changes[key] if key in changes else state.states.get(key)
                changes[key] = applied(before, record, offset)
        return SharesImage(state.states.changed(changes), last_offset + 1)


def applied(before: ShareState | None, record: ShareRecord, offset: int) -> ShareState | None:
    """A share partition after one of its records."""
    partition, value = record
    if value is None:
        return None
    leader_epoch = value.leader_epoch
    if before is not None:
        leader_epoch = max(before.leader_epoch, leader_epoch)
    if isinstance(value, Snapshot):
        state_epoch = value.state_epoch
        if before is not None:
            state_epoch = max(before.state_epoch, state_epoch)
        return ShareState(partition, value, 0, leader_epoch, state_epoch, offset)
    if before is None:
        # Its snapshot is not in the log: what there is counts, as in Kafka.
        before = ShareState(partition, Snapshot(value.snapshot_epoch), 0, 0, 0, offset)
    return ShareState(
        partition,
        _updated(before.whole, value),
        before.updates + 1,
        leader_epoch,
        before.state_epoch,
        before.snapshot_offset,
    )


def _updated(whole: Snapshot, update: Update) -> Snapshot:
    start = whole.start_offset if update.start_offset == NO_OFFSET else update.start_offset
    is_leaderless = update.leader_epoch == NO_EPOCH
    return whole._replace(
        leader_epoch=whole.leader_epoch if is_leaderless else update.leader_epoch,
        start_offset=start,
        complete=update.complete,
        batches=combined((*whole.batches, *update.batches), start),
    )
