"""What all parts of the package share: the hosted replicas, what changed of them, the outputs.

A part is made with the `Env` of its node and notes there what it finds; `Replicas` looks at it at
the end of each tick. So a part knows of the others only what it calls.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import cast

from tidelog.config import LogConfig
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, LogDamaged, StorageError
from tidelog.log.directories import LogDirectories
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.model import TopicId, TopicPartition
from tidelog.replication.measures import Measures
from tidelog.replication.messages import LogConfigs, Output, Token
from tidelog.replication.partition import Partition, PartitionEnv
from tidelog.replication.purgatory import Deadlines, DelayedDelete, DelayedProduce
from tidelog.replication.throttle import Throttles
from tidelog.replication.turn_work import TurnWork


class Hosted:
    """The replicas that this node hosts, and the errors for those that it does not."""

    __slots__ = ("by_key", "damaged", "image", "is_behind", "log_configs", "moving", "partitions")

    def __init__(self) -> None:
        # By topic and partition number.
        self.partitions: dict[TopicPartition, Partition] = {}
        # The same dictionary, for hot paths that have a topic and a number and need no named key.
        self.by_key = cast(dict[tuple[str, int], Partition], self.partitions)
        # Partitions that are here and out of service, because their logs are damaged.
        self.damaged: Container[TopicPartition] = ()
        # Those whose logs are being copied to another log directory.
        self.moving: Container[TopicPartition] = ()
        # The newest metadata, for partitions that other nodes host; and what it makes of configs.
        self.image: MetadataImage = EMPTY_IMAGE
        self.log_configs: LogConfigs = lambda topic: LogConfig()
        # Whether a replica may not follow that metadata yet; it waits for its turn then.
        self.is_behind = False

    def find(
        self, topic: str, partition: int, topic_id: TopicId, current_leader_epoch: int
    ) -> Partition | ErrorCode:
        """The replica a request asks for, or what stands against serving it."""
        hosted = self.by_key.get((topic, partition))
        if hosted is None or (self.is_behind and not self._has_published_role(hosted)):
            return self.error_of_missing(topic, partition)
        code = hosted.error_of_request(topic_id, current_leader_epoch)
        return hosted if code is ErrorCode.NONE else code

    def _has_published_role(self, partition: Partition) -> bool:
        """Whether the newest metadata has the replica's topic, and the leader epoch that it is in
        (`PublishedRolesServe`)."""
        key = partition.topic_partition
        topic = self.image.topics_by_name.get(key.topic)
        if topic is None or topic.topic_id != partition.topic_id:
            return False
        return topic.partitions[key.partition].leader_epoch == partition.leader_epoch

    def error_of_missing(self, topic: str, partition: int) -> ErrorCode:
        """What to answer for a partition that is not here."""
        if (topic, partition) in self.damaged:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self.image.topics_by_name.get(topic)
        if known is None or partition not in known.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER


class ChangedPartitions:
    """What this tick's inputs have changed, in the order of the first change."""

    __slots__ = (
        "_partitions",
        "_unflushed",
        "_unnoticed",
        "appended",
        "failed",
        "progressed",
        "reconfigured",
        "retained",
    )

    def __init__(self) -> None:
        # Whose log end, high watermark, ISR, role or config may have changed.
        self._partitions: dict[Partition, None] = {}
        # Those of them whose log may have grown or whose flush was answered.
        self._unflushed: dict[Partition, None] = {}
        # What may give readers something else, and they do not know yet.
        self._unnoticed: dict[Partition, None] = {}
        # Partitions that clients appended to, and led ones of which a follower's end or start
        # moved; `take` adds them in this order.
        self.appended: dict[Partition, None] = {}
        self.progressed: dict[Partition, None] = {}
        # Partitions whose device failed or whose log is damaged.
        self.failed: list[tuple[Partition, StorageError | LogDamaged]] = []
        # Partitions with another configuration, which may keep less than the former one.
        self.reconfigured: dict[Partition, None] = {}
        # Partitions whose log start was raised by this node's own retention, not by their leader.
        self.retained: dict[Partition, None] = {}

    def mark(
        self, partition: Partition, *, log_changed: bool = True, readable: bool = True
    ) -> None:
        """Something about a partition may have changed. Readers find nothing else there unless it
        is `readable`, or the high watermark moves at the end of the tick."""
        self._partitions[partition] = None
        if readable:
            self._unnoticed[partition] = None
        if log_changed:
            self._unflushed[partition] = None

    def mark_appended(self, partition: Partition) -> None:
        """A client has appended."""
        self.appended[partition] = None
        self._unnoticed[partition] = None

    def mark_uncommitted(self, partitions: Iterable[Partition]) -> None:
        """Those that this node leads and that wait for followers are to be looked at again."""
        for partition in partitions:
            log = partition.log
            waits = log.high_watermark < log.log_end_offset or partition.deletions
            if partition.leadership is not None and waits:
                self.mark(partition, log_changed=False)

    def __bool__(self) -> bool:
        return bool(self._partitions or self.appended or self.progressed)

    def forget(self, partition: Partition) -> None:
        """The replica is out of service."""
        for register in (
            self._partitions,
            self._unflushed,
            self._unnoticed,
            self.appended,
            self.progressed,
            self.reconfigured,
            self.retained,
        ):
            register.pop(partition, None)

    def take(self) -> dict[Partition, None]:
        """All that changed since the last call."""
        self._unflushed.update(self.appended)
        partitions = self._partitions
        partitions.update(self.appended)
        partitions.update(self.progressed)
        self._partitions = {}
        self.appended.clear()
        self.progressed.clear()
        return partitions

    def mark_readable(self, partition: Partition) -> None:
        """Readers may find something else there."""
        self._unnoticed[partition] = None

    def take_unnoticed(self) -> Iterable[Partition]:
        """What may give readers something else since the last call."""
        unnoticed = self._unnoticed
        if unnoticed:
            self._unnoticed = {}
        return unnoticed

    def is_unnoticed(self, partition: Partition) -> bool:
        """Whether the next call of `take_unnoticed` names it."""
        return partition in self._unnoticed

    def take_unflushed(self) -> dict[Partition, None]:
        """All that may need a flush since the last call, but for what `take` has not seen."""
        unflushed = self._unflushed
        self._unflushed = {}
        return unflushed


class Outbox:
    """Outputs in the order of their decisions, and the tokens that tie answers to them."""

    __slots__ = ("_last_token", "_pending")

    def __init__(self) -> None:
        # Outputs since the last `take`.
        self._pending: list[Output] = []
        # The newest token given out; they count from 1.
        self._last_token: Token = 0

    def emit(self, output: Output) -> None:
        """Adds one output."""
        self._pending.append(output)

    def new_token(self) -> Token:
        """A token that was never used before."""
        self._last_token += 1
        return self._last_token

    def take(self) -> list[Output]:
        """Everything since the last call."""
        pending = self._pending
        self._pending = []
        return pending


class Recurring:
    """Something to do again and again. The first time is one interval after `start`."""

    __slots__ = ("due_at", "interval_ms")

    def __init__(self, interval_ms: int) -> None:
        assert interval_ms > 0, f"interval of {interval_ms} ms"
        self.interval_ms = interval_ms
        # The next time; `None` before `start`.
        self.due_at: Instant | None = None

    def start(self, now: Instant) -> None:
        """Begins, unless it has begun."""
        if self.due_at is None:
            self.due_at = Instant(now + self.interval_ms)

    def due(self, now: Instant) -> int | None:
        """How late it is, when it is time to do it. The next time is one interval from now, so
        that a pause of the process does not make up for what it missed."""
        if self.due_at is None or now < self.due_at:
            return None
        late_ms = now - self.due_at
        self.due_at = Instant(now + self.interval_ms)
        return late_ms


@dataclass(frozen=True, slots=True)
class Env(PartitionEnv):
    """The surroundings of the parts of one node."""

    directories: LogDirectories
    """Where the logs are. `Replicas` does not own those that it does not host."""
    throttles: Throttles
    """The quotas of throttled replicas; the node sets the rates."""
    measures: Measures
    work: TurnWork
    """What this turn may still do of what takes long."""
    hosted: Hosted = field(default_factory=Hosted)
    changed: ChangedPartitions = field(default_factory=ChangedPartitions)
    outbox: Outbox = field(default_factory=Outbox)
    deadlines: Deadlines = field(default_factory=Deadlines)
    """Where requests go that are still waiting at the end of their tick."""

    def answer(self, delayed: DelayedProduce | DelayedDelete) -> None:
        """All partitions of a request are decided before its deadline."""
        self.deadlines.note_answered(delayed)
        self.outbox.emit(delayed.reply())
