"""A partition of an internal topic as the log of its coordinator: appends, and reading it all.

Appends go to the leader of the partition, which must be this node in the epoch of the coordinator.
They are replicated as a client's with acks=all; the coordinator learns from the high watermark what
is committed. Below the min ISR they are taken and not committed, until replicas come back.

Reading stops where the leadership began: what comes behind is the coordinator's own. Records that
were written in a transaction count from its marker on, those of an aborted one never.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.env.instant import Instant
from tidelog.model import NO_OFFSET, TopicId, TopicPartition
from tidelog.records.batch import build_batch, decode_body, iter_headers
from tidelog.records.control import read_end_txn_marker
from tidelog.records.record import Record
from tidelog.replication.replicas import Replicas

RawRecord = tuple[bytes, bytes | None]
"""Key and value as the log has them."""


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

    def append(self, records: Sequence[RawRecord]) -> int:
        """Appends one batch; returns its last offset. Raises `NotLeader`, and `ProtocolError` for
        a batch that is too large."""
        batch = build_batch([Record(self.wall_ms, key, value) for key, value in records])
        return self._replicas.append_as_coordinator(
            self.topic_partition, self._leader_epoch, batch, self.wall_ms
        )

    def read(self, offset: int, max_bytes: int, now: Instant) -> bytes | None:
        """Whole batches from `offset` on, at least one, all of them committed; `None` when the log
        cannot be read, and is on its way to quarantine."""
        return self._replicas.read_committed(self.topic_partition, offset, max_bytes, now)


class LoadedBatches(NamedTuple):
    """A run of batches as one (`rsm.kernel.Committed`)."""

    base_offset: int
    last_offset: int
    epoch: int
    records: Sequence[RawRecord]
    is_control: bool = False


class LogLoader:
    """Reads one partition from its beginning to where the leadership began."""

    __slots__ = ("_transactions", "end", "position")

    def __init__(self, start: int, end: int) -> None:
        # The next offset to read.
        self.position = start
        # Exclusive.
        self.end = end
        # Records of transactions whose marker has not come, by producer id.
        self._transactions: dict[int, list[RawRecord]] = {}

    @property
    def is_done(self) -> bool:
        """Whether everything was read."""
        return self.position >= self.end

    def take(self, data: bytes) -> LoadedBatches:
        """What these batches hold; reading goes on behind them. Raises `CorruptBatch`."""
        base, epoch = self.position, 0
        records: list[RawRecord] = []
        for place, header in iter_headers(data):
            self.position, epoch = header.last_offset + 1, header.leader_epoch
            if header.is_control:
                marker = read_end_txn_marker(data, place)
                ended = self._transactions.pop(header.producer_id, [])
                if marker is not None and marker.is_commit:
                    records += ended
                continue
            found = [
                (record.key, record.value)
                for record in decode_body(data, place, header)
                if record.key is not None
            ]
            if header.is_transactional:
                self._transactions.setdefault(header.producer_id, []).extend(found)
            else:
                records += found
        return LoadedBatches(base, self.position - 1, epoch, records)
