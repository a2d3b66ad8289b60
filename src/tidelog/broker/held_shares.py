"""The share partitions of this node: one for each group that reads a partition which is led here.

A share partition comes with the first fetch of a member, in the term in which this node leads the
partition. It goes with the term, when the coordinator fences it, and when the group's state is
gone; the next fetch begins anew with what the coordinator knows.

    a member fetches ──> loading ──(the coordinator has answered)──> active ──> gone
                            └───────────(it has refused)───────────────────────^

While it loads, fetches wait. Where the group has no place yet, it gets one then, which is written
before anything is delivered (Kafka writes it with the first acknowledgement). An acknowledgement of
records of which this node knows nothing is refused; the member's records are available again on the
new leader, and delivered once more.

What a member says of its records is answered when the coordinator has written it. A release, or the
end of a lock, makes the records available to the members that wait (`hopeful`).

Invariant: a share partition has the epoch of a leadership, and the coordinator refuses writes of
older ones.

Left out: what is acquired (`sharing/`), how state is kept (`share_persister.py`), fetches
(`sharing.py`).

Source: KIP-932; Kafka's SharePartitionManager.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.broker import events
from tidelog.broker.features import has_share_groups
from tidelog.broker.share_fetches import ShareFetchCall
from tidelog.broker.share_persister import SharePersister
from tidelog.config import NodeConfig
from tidelog.config.group_properties import BY_DURATION, EARLIEST, duration_ms
from tidelog.env.instant import Instant, earliest
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.model import CONSUMER_REPLICA_ID, NO_OFFSET, TopicPartition
from tidelog.replication.messages import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ListOffsetsQuery
from tidelog.replication.replicas import Replicas
from tidelog.sharing.in_flight import Change
from tidelog.sharing.settings import settings_of
from tidelog.sharing.share_partition import SharePartition
from tidelog.sharing.values import (
    UNINITIALIZED,
    Acknowledgement,
    ShareKey,
    ShareSettings,
    ShareState,
)
from tidelog.wire.fetch import READ_UNCOMMITTED

_CODES: Final = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What members get for what a coordinator answers; anything else is UNKNOWN_SERVER_ERROR."""

_ENDS: Final = frozenset(_CODES) - {ErrorCode.COORDINATOR_NOT_AVAILABLE}
"""Answers of a coordinator after which a share partition has no future here."""

OnAcknowledged = Callable[[ErrorCode, Instant], None]


@dataclass(slots=True, eq=False)
class Held:
    """A share partition of this node."""

    key: ShareKey
    topic: str
    leader_epoch: int
    # None while it is loaded.
    share: SharePartition | None = None
    # The fetches that wait for something to be had of it.
    waiting: dict[ShareFetchCall, None] = field(default_factory=dict)


class HeldShares:
    """The share partitions of one node."""

    def __init__(
        self, config: NodeConfig, replicas: Replicas, persister: SharePersister, trace: Trace
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._persister = persister
        self._trace = trace
        # The newest image.
        self._image: MetadataImage = EMPTY_IMAGE
        # Wall time minus monotonic time, from the driver.
        self.wall_offset_ms = 0
        # All that were asked for in this term of their leadership.
        self._held: dict[ShareKey, Held] = {}
        # Fetches that may find something now, to be looked at in this tick.
        self.hopeful: dict[ShareFetchCall, None] = {}
        # No lock ends before.
        self.lock_ends: Instant | None = None

    @property
    def is_enabled(self) -> bool:
        """Whether the cluster has share groups switched on."""
        return has_share_groups(self._image.features)

    def settings(self, group_id: str) -> ShareSettings:
        """What the share partitions of a group obey."""
        return settings_of(self._config.sharing, self._image.group_configs(group_id))

    def get(self, key: ShareKey) -> Held | None:
        """The share partition, if it is here."""
        return self._held.get(key)

    # Leadership -------------------------------------------------------------------------------

    def on_image(self, image: MetadataImage) -> None:
        """Follows the leadership of partitions, and the configuration of groups."""
        before, self._image = self._image, image
        for held in list(self._held.values()):
            partition = image.partition(held.key.topic_id, held.key.partition)
            if partition is None or not self.is_enabled:
                self.drop(held, "the partition is gone" if partition is None else "switched off")
            elif partition.leader != self._config.node_id:
                self.drop(held, "another node leads")
            elif partition.leader_epoch != held.leader_epoch:
                self.drop(held, "a new term")
            elif held.share is not None and image.configs is not before.configs:
                held.share.settings = self.settings(held.key.group_id)

    def find(self, key: ShareKey, topic: str, now: Instant) -> Held | ErrorCode:
        """The share partition, which begins to load if it is not here; or why there is none."""
        found = self._held.get(key)
        if found is not None:
            return found
        partition = self._replicas.partitions.get(TopicPartition(topic, key.partition))
        known = self._image.partition(key.topic_id, key.partition)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if (
            partition is None
            or partition.topic_id != key.topic_id
            or partition.leadership is None
            or known.leader != self._config.node_id
            or known.leader_epoch != partition.leader_epoch
        ):
            # The replica may lead on for a moment, in a term that is over: then it would deliver
            # once more what it has just forgotten.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self._persister.is_full:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        held = self._held[key] = Held(key, topic, partition.leader_epoch)
        self._load(held, now)
        return held

    def _load(self, held: Held, now: Instant) -> None:
        self._persister.read(
            held.key, held.leader_epoch, lambda state, at: self._on_read_state(held, state, at), now
        )

    def _on_read_state(self, held: Held, state: ShareState | ErrorCode, now: Instant) -> None:
        """The coordinator has answered."""
        if self._held.get(held.key) is not held:
            return
        if isinstance(state, ErrorCode):
            self._refuse(held, state)
            return
        settings = self.settings(held.key.group_id)
        try:
            start = self._start_of(held, state, settings, now)
            begun = state._replace(start=start)
            share = SharePartition(held.key, held.leader_epoch, begun, settings)
        except ProtocolError as error:
            if error.code is ErrorCode.OFFSET_NOT_AVAILABLE:
                # The high watermark of a new leader is not known yet.
                self._load(held, now)
            else:
                self._refuse(held, error.code)
            return
        if state.start == UNINITIALIZED:
            self._note_start(held, share, now)
        else:
            self._begin(held, share)

    def _note_start(self, held: Held, share: SharePartition, now: Instant) -> None:
        """Has the place written where the group begins, before anything is delivered. The next
        leader would choose another one: `latest` would leave out what was delivered here and not
        acknowledged."""

        def on_written(code: ErrorCode, _: Instant) -> None:
            if self._held.get(held.key) is not held:
                return
            if code is ErrorCode.NONE:
                self._begin(held, share)
            else:
                self._refuse(held, code)

        self._persister.write(share, Change(), on_written, now)

    def _refuse(self, held: Held, code: ErrorCode) -> None:
        """It cannot be loaded."""
        for call in held.waiting:
            call.fail(held.key, _CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR))
        self.drop(held, code.name)

    def _begin(self, held: Held, share: SharePartition) -> None:
        """It is loaded: fetches that wait may find something."""
        share.settings = self.settings(held.key.group_id)
        held.share = share
        self.hopeful.update(held.waiting)
        self._trace.event(
            events.SharePartitionLoaded(
                partition=TopicPartition(held.topic, held.key.partition),
                group_id=held.key.group_id,
                leader_epoch=held.leader_epoch,
                offset=share.start,
            )
        )

    def _start_of(
        self, held: Held, state: ShareState, settings: ShareSettings, now: Instant
    ) -> int:
        """Where a share partition begins. Raises `ProtocolError` while that is not known."""
        if state.start != UNINITIALIZED:
            return state.start
        timestamp, reset = LATEST_TIMESTAMP, settings.offset_reset
        if reset == EARLIEST:
            timestamp = EARLIEST_TIMESTAMP
        elif reset.startswith(BY_DURATION):
            ago_ms = duration_ms(reset.removeprefix(BY_DURATION))
            if ago_ms is not None:
                timestamp = max(0, now + self.wall_offset_ms - ago_ms)
        offset = self._offset_at(held, timestamp)
        # Nothing is that young: as Kafka does for consumers, the end.
        return self._offset_at(held, LATEST_TIMESTAMP) if offset == NO_OFFSET else offset

    def _offset_at(self, held: Held, timestamp: int) -> int:
        query = ListOffsetsQuery(held.topic, held.key.partition, held.leader_epoch, timestamp)
        found = self._replicas.list_offset(
            query, replica_id=CONSUMER_REPLICA_ID, isolation_level=READ_UNCOMMITTED
        )
        if found.error_code is not ErrorCode.NONE:
            raise ProtocolError(found.error_code)
        return found.offset

    def drop(self, held: Held, reason: str) -> None:
        """Forgets a share partition; fetches that wait for it look again what there is."""
        self.hopeful.update(held.waiting)
        if self._held.get(held.key) is not held:
            # Several writes of it were refused.
            return
        del self._held[held.key]
        self._trace.event(
            events.SharePartitionDropped(
                partition=TopicPartition(held.topic, held.key.partition),
                group_id=held.key.group_id,
                leader_epoch=held.leader_epoch,
                reason=reason,
            )
        )

    # Acknowledgements -------------------------------------------------------------------------

    def acknowledge(
        self,
        key: ShareKey,
        member_id: str,
        wanted: Sequence[Acknowledgement],
        on_done: OnAcknowledged,
        now: Instant,
    ) -> None:
        """Takes what a member says of its records; `on_done` is called when that is written, or
        refused."""
        held = self._held.get(key)
        if held is None:
            on_done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, now)
            return
        if held.share is None:
            on_done(ErrorCode.INVALID_RECORD_STATE, now)
            return
        if self._persister.is_full:
            on_done(ErrorCode.COORDINATOR_NOT_AVAILABLE, now)
            return
        try:
            change = held.share.acknowledge(member_id, wanted, now)
        except ProtocolError as error:
            on_done(error.code, now)
            return
        self.lock_ends = earliest(self.lock_ends, held.share.deadline())
        self._write(held, held.share, change, on_done, now)

    def _write(
        self,
        held: Held,
        share: SharePartition,
        change: Change,
        on_done: OnAcknowledged,
        now: Instant,
    ) -> None:
        """Has a change written; a change of nothing is over at once."""
        if not change.batches:
            on_done(ErrorCode.NONE, now)
            return

        def on_written(code: ErrorCode, at: Instant) -> None:
            share.finish(change, at, written=code is ErrorCode.NONE)
            self.lock_ends = earliest(self.lock_ends, share.deadline())
            if code in _ENDS:
                self.drop(held, code.name)
            self.rouse(held)
            known = code is ErrorCode.NONE
            on_done(code if known else _CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR), at)

        self._persister.write(share, change, on_written, now)

    def rouse(self, held: Held) -> None:
        """There may be something else to deliver: fetches that do not read there look again."""
        share = held.share
        if share is None or not held.waiting or not share.may_acquire():
            return
        for call in held.waiting:
            if call.read is None or not call.read.is_at(held.topic, share):
                self.hopeful[call] = None

    def release(self, key: ShareKey, member_id: str, now: Instant) -> None:
        """Takes from a member what it has; where too much waits to be written, its locks end."""
        held = self._held.get(key)
        if held is not None and held.share is not None and not self._persister.is_full:
            self._write(held, held.share, held.share.release(member_id), _ignore, now)

    # Locks ------------------------------------------------------------------------------------

    def note_lock(self, share: SharePartition) -> None:
        """Records of a share partition were acquired."""
        self.lock_ends = earliest(self.lock_ends, share.deadline())

    def end_locks(self, now: Instant) -> bool:
        """Takes back records whose locks have ended; returns whether it was time to look."""
        if self.lock_ends is None or self.lock_ends > now:
            return False
        self.lock_ends = None
        for held in list(self._held.values()):
            share = held.share
            if share is None:
                continue
            change = share.wake(now)
            if change is not None:
                if self._persister.is_full:
                    # It counts all the same.
                    share.finish(change, now, written=False)
                else:
                    self._write(held, share, change, _ignore, now)
                self.rouse(held)
            self.lock_ends = earliest(self.lock_ends, share.deadline())
        return True

    def check(self) -> None:
        """Asserts the invariants of all share partitions."""
        for key, held in self._held.items():
            assert held.key == key, f"{held.key} is filed as {key}"
            if held.share is not None:
                held.share.check()
                ends, known = held.share.deadline(), self.lock_ends
                assert ends is None or (known is not None and known <= ends), f"a lock of {key}"


def _ignore(code: ErrorCode, now: Instant) -> None:
    """No member waits for the outcome."""
