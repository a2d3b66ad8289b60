"""One hosted replica: its log, its role, and what waits on it.

A replica is a leader, a follower, or offline. The role follows from the metadata alone:
`become_leader` and `become_follower` take a `PartitionImage` and never decide anything about the
cluster. What a leadership remembers lives in `LeaderState`, which exists exactly while the node
leads; what a follower does lives in the fetcher of its leader.

Becoming leader, in this order (each step is needed before the next):
1. A smaller partition epoch than the known one is old news. An equal one is not: the answer to an
   AlterPartition may have brought the epoch before the metadata did.
2. With a larger leader epoch: (leader epoch, log end) goes into the epoch cache at once, though
   nothing is written yet. Otherwise a follower that holds uncommitted records of a later epoch
   than ours would ask where that epoch ends and learn nothing, and keep them.
3. The followers' progress starts anew, and the ISR is the committed one of the metadata. Only a
   leader whose terms follow each other without a gap keeps it: metadata comes in groups, and a gap
   between two terms of this node is a leadership of another node.
4. The high watermark is computed: it stands still until every member of the ISR has fetched.

Becoming follower forgets ISR and progress, keeps log and high watermark, and answers every ack
that waits with NOT_LEADER_OR_FOLLOWER: the records may or may not survive, and the client must ask
the new leader.

Group commit (`flush.messages=1`): records count as held by this replica, towards followers and
towards its own leader, only once they are on the device. At most one flush per partition is under
way; all that arrives meanwhile is covered by the next one.

Invariants: `LeaderEpochMonotonic`, `HighWatermarkBounds`, `RoleMatchesMetadata`.

Source: KIP-101, KIP-497, KIP-966.
"""

from dataclasses import dataclass
from enum import Enum

from tidelog.config import ReplicationConfig
from tidelog.env.instant import LONG_AGO, Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.metadata.image import PartitionImage
from tidelog.model import NO_EPOCH, NO_LEADER, ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.events.in_sync import IsrUpdated, IsrUpdateReason
from tidelog.replication.events.roles import FollowingBegan, LeadershipBegan
from tidelog.replication.interest import Readers
from tidelog.replication.isr import Committed
from tidelog.replication.leader import LeaderState
from tidelog.replication.purgatory import AckQueue, Deletions
from tidelog.wire.fetch import LeaderHint


@dataclass(frozen=True, slots=True)
class PartitionEnv:
    """What every hosted replica of a node shares."""

    node_id: int
    config: ReplicationConfig
    brokers: BrokerEpochs
    trace: Trace


class Role(Enum):
    """What a hosted replica is at the moment."""

    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"


class Partition:
    """A replica of one partition on this node."""

    __slots__ = (
        "_env",
        "_flush_in_flight",
        "acks",
        "deletions",
        "image",
        "last_consumer_read",
        "leader_epoch",
        "leader_id",
        "leadership",
        "log",
        "offline",
        "partition_epoch",
        "readers",
        "replicas",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, log: Log, env: PartitionEnv) -> None:
        self._env = env
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id: TopicId = log.topic_id
        # The records. No other code writes to it while this replica is hosted. Another one when the
        # replica has moved to another log directory.
        self.log = log
        # The metadata this replica follows; `None` before the first.
        self.image: PartitionImage | None = None
        # Assigned brokers in order, from the metadata.
        self.replicas: tuple[int, ...] = ()
        # Which broker leads, -1 for none; and since which term. Both from the metadata.
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        # Version of the partition's metadata; from the metadata or an AlterPartition answer.
        self.partition_epoch = -1
        # Exists exactly while this node leads.
        self.leadership: LeaderState | None = None
        # Why the replica is out of service; `None` while it is in service. Never taken back.
        self.offline: str | None = None
        # acks=all appends that are not committed; empty on a follower.
        self.acks = AckQueue()
        # DeleteRecords that wait for the followers; empty on a follower.
        self.deletions: Deletions = {}
        # Those who have to learn of changes: see `interest`.
        self.readers: Readers = {}
        # When a consumer last read here while this replica followed, as of the last change.
        self.last_consumer_read = LONG_AGO
        # A flush was asked for and is not answered.
        self._flush_in_flight = False

    def __str__(self) -> str:
        return str(self.topic_partition)

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Whom its high watermark waits for: the in-sync replicas, with those that are proposed to
        join or to leave; none where it is not led here."""
        return frozenset() if self.leadership is None else frozenset(self.leadership.maximal_isr)

    # Roles --------------------------------------------------------------------------------

    def objection_to(self, image: PartitionImage) -> str | None:
        """Why the metadata is not to be followed; `None` when it is."""
        if self.offline is not None:
            return "offline"
        if image.partition_epoch < self.partition_epoch:
            return "stale partition epoch"
        if image is self.image:
            return "unchanged"
        return None

    def become_leader(self, image: PartitionImage, now: Instant) -> bool:
        """Leads as the metadata demands; returns whether a new term began."""
        assert image.leader == self._env.node_id, f"{self} is led by {image.leader}"
        new_term = image.leader_epoch > self.leader_epoch or self.leadership is None
        if self._has_missed_a_term(image):
            # The leader of it may have made followers cut what they had claimed to this node.
            self.leadership = None
        self._follow_epochs(image)
        log = self.log
        if self.leadership is None:
            self.leadership = LeaderState(
                self._env.node_id, log, brokers=self._env.brokers, config=self._env.config
            )
        if new_term:
            log.assign_epoch(image.leader_epoch, log.log_end_offset)
            self.leadership.begin_epoch(image.leader_epoch, image.replicas, image.isr, now)
            self._env.trace.event(
                LeadershipBegan(
                    partition=self.topic_partition,
                    leader_epoch=image.leader_epoch,
                    epoch_start=log.log_end_offset,
                    high_watermark=log.high_watermark,
                    isr=image.isr,
                )
            )
            return True
        self._follow_isr(self.leadership, image)
        return False

    def _has_missed_a_term(self, image: PartitionImage) -> bool:
        return image.leader_epoch > self.leader_epoch + 1

    def become_follower(self, image: PartitionImage) -> bool:
        """Follows as the metadata demands; returns whether a new term began, in which case fetching
        starts anew."""
        assert image.leader != self._env.node_id, f"{self} is led by this node"
        new_term = image.leader_epoch > self.leader_epoch
        led = self.leadership is not None
        self._follow_epochs(image)
        self.leadership = None
        if new_term or led:
            log = self.log
            self._env.trace.event(
                FollowingBegan(
                    partition=self.topic_partition,
                    leader=image.leader,
                    leader_epoch=image.leader_epoch,
                    log_end=log.log_end_offset,
                    high_watermark=log.high_watermark,
                    was_leader=led,
                )
            )
        return new_term or led

    def maybe_follow_isr(self, image: PartitionImage) -> bool:
        """Follows metadata that changes nothing for a follower but the ISR; returns whether it does
        so."""
        if (
            self.leadership is not None
            or image.leader != self.leader_id
            or image.leader_epoch != self.leader_epoch
            or image.partition_epoch < self.partition_epoch
        ):
            return False
        self._follow_epochs(image)
        return True

    def go_offline(self, cause: str) -> None:
        """Takes the replica out of service for the rest of the process's life."""
        self.offline = cause
        self.leadership = None

    def _follow_epochs(self, image: PartitionImage) -> None:
        assert image.partition_epoch >= self.partition_epoch, f"{self} {image}"
        assert image.leader_epoch >= self.leader_epoch, f"LeaderEpochMonotonic: {self} {image}"
        self.image = image
        self.replicas = image.replicas
        self.leader_id = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch

    def _follow_isr(self, leadership: LeaderState, image: PartitionImage) -> None:
        state = leadership.isr_state
        if set(state.isr) != set(image.isr):
            proposed = not isinstance(state, Committed) and set(state.proposed_isr) == set(
                image.isr
            )
            reason = IsrUpdateReason.AS_PROPOSED if proposed else IsrUpdateReason.BY_THE_CONTROLLER
            self._env.trace.event(
                IsrUpdated(
                    partition=self.topic_partition,
                    reason=reason,
                    was=state.isr,
                    isr=image.isr,
                    partition_epoch=image.partition_epoch,
                    high_watermark=self.log.high_watermark,
                )
            )
        leadership.assign(image.replicas, image.isr)
        if (
            not isinstance(state, Committed)
            and state.proposal.partition_epoch == image.partition_epoch
            and set(state.maximal_isr) <= set(image.replicas)
        ):
            # 1. The answer to a shrink brings epoch 5. 2. An expansion is proposed on top of it.
            # 3. The metadata brings epoch 5. Taking its ISR as all there is would drop the newcomer
            # from the maximal ISR though the controller may commit it at any moment: the high
            # watermark could pass it, and it could be elected without what was committed.
            leadership.isr_state = state

    # Checks of requests -------------------------------------------------------------------

    def error_of_request(self, topic_id: TopicId, current_leader_epoch: int) -> ErrorCode:
        """What stands against serving a request that names this topic id (zero: any) and this
        leader epoch (-1: any)."""
        if self.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if topic_id != self.topic_id and topic_id != ZERO_TOPIC_ID:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if current_leader_epoch == NO_EPOCH or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    @property
    def leader_hint(self) -> LeaderHint | None:
        """Which broker leads now, for clients that asked the wrong node (KIP-951)."""
        if self.leader_id == NO_LEADER:
            return None
        return LeaderHint(self.leader_id, self.leader_epoch)

    # ISR changes --------------------------------------------------------------------------

    @property
    def is_proposing(self) -> bool:
        """Whether this leader waits for the controller's answer to an ISR change."""
        leadership = self.leadership
        return leadership is not None and not isinstance(leadership.isr_state, Committed)

    # Group commit -------------------------------------------------------------------------

    @property
    def is_flushed(self) -> bool:
        """Whether this replica may claim to hold all of its log: always without group commit."""
        log = self.log
        return log.config.flush_messages != 1 or log.recovery_point >= log.log_end_offset

    def maybe_request_flush(self) -> bool:
        """Asks for a flush when enough is unflushed and none is under way.

        Raises `StorageError`.
        """
        if self.offline is not None:
            return False
        log = self.log
        unflushed = log.log_end_offset - log.recovery_point
        if self._flush_in_flight or unflushed < log.config.flush_messages:
            return False
        self._flush_in_flight = True
        log.request_flush()
        return True

    def on_flushed(self) -> None:
        """The flush under way is answered; the log has moved its recovery point."""
        self._flush_in_flight = False

    # Moves ----------------------------------------------------------------------------------

    def take_log(self, log: Log) -> None:
        """A copy has taken the place of the log, and has the same records."""
        assert log.log_end_offset == self.log.log_end_offset, f"MovesComplete: {self}"
        self.log = log
        self._flush_in_flight = False
        if self.leadership is not None:
            self.leadership.log = log

    # Role and invariants ------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """What the replica is at the moment."""
        if self.offline is not None:
            return Role.OFFLINE
        return Role.FOLLOWER if self.leadership is None else Role.LEADER

    def check(self) -> None:
        """Asserts what must hold between two events."""
        if self.offline is not None:
            assert self.leadership is None, f"RoleMatchesMetadata: {self} is offline and leads"
            return
        log = self.log
        stable, committed = log.last_stable_offset, log.high_watermark
        assert log.log_start_offset <= stable <= committed <= log.log_end_offset, (
            f"HighWatermarkBounds: {self} {log.log_start_offset} <= {stable} <= {committed} <= "
            f"{log.log_end_offset}"
        )
        assert log.latest_epoch <= max(self.leader_epoch, NO_EPOCH), (
            f"LeaderEpochMonotonic: {self} holds epoch {log.latest_epoch} of {self.leader_epoch}"
        )
        leads = self.leadership is not None
        assert leads == (self.leader_id == self._env.node_id), f"RoleMatchesMetadata: {self}"
        if self.leadership is None:
            assert not self.acks, f"RoleMatchesMetadata: {self} follows, acks wait"
            assert not self.deletions, f"RoleMatchesMetadata: {self} follows, deletions wait"
        else:
            self.leadership.check()
        self.acks.check()
