"""The group coordinators of this node: one for each partition of `__consumer_offsets` led here.

A request that writes waits for the replicas at most for `offsets.commit.timeout.ms`. JoinGroup and
SyncGroup wait for other members as long as these may take. All else is in `coordinator_seats.py`.
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar, cast

from tidelog.broker.coordinator_log import CoordinatorLog
from tidelog.broker.coordinator_seats import Call, CoordinatorSeats
from tidelog.broker.member_connections import MemberConnections
from tidelog.config import NodeConfig
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.groups.coordinator import GroupCoordinator
from tidelog.groups.messages import (
    AlterShareOffsets,
    CommitInTransaction,
    CommitOffsets,
    ConsumerGroupHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    DeleteShareOffsets,
    EndTransaction,
    LeaveGroup,
    ListedGroup,
    Request,
    Response,
    ShareGroupHeartbeat,
    StatesDeleted,
    StatesInitialized,
)
from tidelog.groups.topics import Topics
from tidelog.metadata.image import MetadataImage
from tidelog.model import OFFSETS_TOPIC, TopicPartition
from tidelog.replication.messages import TransactionalProducer
from tidelog.replication.replicas import Replicas
from tidelog.replication.verification import Verdict
from tidelog.rsm.coordinator import Refused

_WRITES: Final = (
    CommitOffsets,
    CommitInTransaction,
    ConsumerGroupHeartbeat,
    ShareGroupHeartbeat,
    StatesInitialized,
    AlterShareOffsets,
    DeleteShareOffsets,
    StatesDeleted,
    DeleteOffsets,
    DeleteGroup,
    LeaveGroup,
)
"""Requests that wait for replicas, and for nothing else."""


class GroupCall(Call[Response]):
    """A request under way to a group coordinator."""

    __slots__ = ()


class _Result(Protocol):
    """What a coordinator decided; it can be made of an error alone."""

    @property
    def error_code(self) -> ErrorCode: ...


ResultT = TypeVar("ResultT", bound=_Result)


def call_for(
    result_type: Callable[[ErrorCode], ResultT], take: Callable[[ResultT], None]
) -> GroupCall:
    """A call that ends in a result of this type; a refusal is one with nothing but the error."""

    def answer(response: Response) -> None:
        if isinstance(response, Refused):
            take(result_type(response.error_code))
        else:
            assert isinstance(response, result_type), f"{response}"  # type: ignore[arg-type]
            take(cast(ResultT, response))

    return GroupCall(answer)


class GroupSeats(CoordinatorSeats[GroupCoordinator]):
    """The group coordinators of one node."""

    __slots__ = ("_topics", "members")

    def __init__(self, config: NodeConfig, replicas: Replicas, prng: Prng, trace: Trace) -> None:
        # What all of them know of topics.
        self._topics = topics = Topics()
        # Where members sent their last request.
        self.members = MemberConnections()

        def make(topic_partition: TopicPartition, log: CoordinatorLog) -> GroupCoordinator:
            return GroupCoordinator(
                subject=str(topic_partition),
                log=log,
                config=config.groups,
                prng=prng,
                trace=trace,
                topics=topics,
            )

        super().__init__(
            topic_name=OFFSETS_TOPIC,
            make=make,
            write_timeout_ms=config.groups.offsets_commit_timeout_ms,
            node_id=config.node_id,
            replicas=replicas,
            trace=trace,
        )

    def on_image(self, image: MetadataImage) -> None:
        """Consumer groups look at the topics, too; offsets of deleted ones go at once."""
        deletions = self._topics.deletions
        self._topics.update(image)
        if self._topics.deletions != deletions:
            self._forget_deadlines()
        super().on_image(image)

    def check(self) -> None:
        """Asserts the invariants of the coordinators, and of where their members are."""
        super().check()
        self.members.check()

    def on_connection_closed(self, connection_id: int, now: Instant) -> None:
        """The members whose connection this was may be gone."""
        for group_id, member_id in self.members.take(connection_id):
            found = self.find(group_id)
            if found is not None:
                self.touch(*found, now)
                found[1].coordinator.on_disconnected(group_id, member_id, now)

    def ask(self, request: Request, call: GroupCall, now: Instant) -> None:
        """Hands a request to the coordinator of its group; the call is settled, now or later."""
        assert not isinstance(request, EndTransaction), f"{request} is for a partition"
        self.hand_over(request.group_id, request, call, now, writes=isinstance(request, _WRITES))

    def ask_in_transaction(
        self,
        request: CommitInTransaction,
        producer: TransactionalProducer,
        call: GroupCall,
        now: Instant,
    ) -> None:
        """As `ask`, once the producer's transaction has the partition of the group."""
        number = self.partition_of(request.group_id)

        def release(verdict: Verdict) -> None:
            if verdict.code is not ErrorCode.NONE:
                call.settle(Refused(verdict.code))
            else:
                self.ask(request, call, verdict.now)

        self.replicas.transactions.verify_transaction(
            TopicPartition(OFFSETS_TOPIC, number), producer, release, now
        )

    def end_transaction(
        self, number: int, request: EndTransaction, call: GroupCall, now: Instant
    ) -> None:
        """Ends a transaction in a partition of `__consumer_offsets`."""
        self.hand_over_to(number, request, call, now, writes=True)

    def list_groups(self) -> list[ListedGroup] | None:
        """The groups that this node coordinates; `None` while some of them are being loaded."""
        coordinators = self.coordinators()
        if coordinators is None:
            return None
        return [group for each in coordinators for group in each.list_groups()]
