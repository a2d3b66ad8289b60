"""A partition of an internal topic as the log of its coordinator.

Appends go to the leader of the partition, which must be this node in the epoch of the coordinator.
They are replicated as a client's with acks=all; the coordinator learns from the high watermark what
is committed. Below the min ISR they are taken and not committed, until replicas come back.

Left out: reading all of it (`log_loader.py`).
"""

from collections.abc import Sequence

from tidelog.env.instant import Instant
from tidelog.model import NO_OFFSET, TopicId, TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.control import build_end_txn_marker
from tidelog.records.record import Record
from tidelog.replication.replicas import Replicas
from tidelog.rsm.log_records import InTransaction, LogRecord, TransactionEnd


class CoordinatorLog:
    """The log of one coordinator (`rsm.kernel.ReplicatedLog`)."""

    __slots__ = ("_leader_epoch", "_replicas", "_topic_id", "topic_partition", "wall_ms")

    def __init__(
        self,
        replicas: Replicas,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        leader_epoch: int,
    ) -> None:
        self._replicas = replicas
        self.topic_partition = topic_partition
        # Replicas follow the metadata in slices: the log of a former topic may still be there.
        self._topic_id = topic_id
        # The leadership that the coordinator belongs to.
        self._leader_epoch = leader_epoch
        # The wall time of the input being handled.
        self.wall_ms = 0

    @property
    def is_led(self) -> bool:
        """Whether the leadership still lasts."""
        partition = self._replicas.partitions.get(self.topic_partition)
        return (
            partition is not None
            and partition.leadership is not None
            and partition.topic_id == self._topic_id
            and partition.leader_epoch == self._leader_epoch
        )

    @property
    def start_offset(self) -> int:
        """The first offset there is."""
        return self._replicas.partitions[self.topic_partition].log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get; -1 when there is no such partition here."""
        partition = self._replicas.partitions.get(self.topic_partition)
        return NO_OFFSET if partition is None else partition.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Everything below is committed; only while it is led."""
        return self._replicas.partitions[self.topic_partition].log.high_watermark

    def append(self, records: Sequence[LogRecord]) -> int:
        """Appends one batch: plain records, or those of one transaction, or its end. Returns its
        last offset. Raises `NotLeader`, and `ProtocolError` for a batch that is too large, of a
        deposed producer or of a deposed coordinator."""
        first = records[0]
        return self._replicas.append_as_coordinator(
            self.topic_partition,
            self._leader_epoch,
            _batch_of(records, self.wall_ms),
            self.wall_ms,
            bumps_epoch=isinstance(first, TransactionEnd) and first.bumps_epoch,
        )

    def delete_before(self, offset: int) -> None:
        """Raises its start: nothing below this offset, which is committed, is needed any more. Only
        while it is led."""
        if offset > self.start_offset:
            self._replicas.delete_as_coordinator(self.topic_partition, offset)

    def read(self, offset: int, max_bytes: int, now: Instant) -> bytes | None:
        """Whole batches from `offset` on, at least one, all of them committed; `None` when the log
        cannot be read, and is on its way to quarantine."""
        return self._replicas.read_committed(self.topic_partition, offset, max_bytes, now)


def _batch_of(records: Sequence[LogRecord], wall_ms: int) -> bytes:
    first = records[0]
    if isinstance(first, TransactionEnd):
        assert len(records) == 1, f"{len(records)} records beside a marker"
        return build_end_txn_marker(first.marker, first.producer_id, first.producer_epoch, wall_ms)
    plain: list[Record] = []
    for each in records:
        assert not isinstance(each, TransactionEnd), "a marker among records"
        key, value = each.raw if isinstance(each, InTransaction) else each
        plain.append(Record(wall_ms, key, value))
    if not isinstance(first, InTransaction):
        return build_batch(plain)
    return build_batch(
        plain,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
