"""A group coordinator over a log in memory, and questions to it."""

from typing import Any

from tests.unit.rsm.coordinator_rig import CoordinatorRig, MemoryPartition
from tidelog.config import GroupsConfig
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.groups.coordinator import GroupCoordinator
from tidelog.groups.messages import (
    CommitOffsets,
    FetchOffsets,
    FetchOffsetsResult,
    GroupProtocol,
    Heartbeat,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    Leaver,
    Request,
    SyncGroup,
)
from tidelog.groups.records import CommittedOffset
from tidelog.groups.topics import Topics
from tidelog.model import TopicPartition

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
DELAY_MS = 10
"""The first rebalance of a group waits so long, and once more for those that come meanwhile."""


class Rig(CoordinatorRig[GroupCoordinator]):
    """A group coordinator that is asked; answers by the number of the question."""

    def __init__(
        self, partition: MemoryPartition | None = None, *, now: int = 0, **config: Any
    ) -> None:
        values = {"initial_rebalance_delay_ms": DELAY_MS, "min_session_timeout_ms": 100, **config}
        self._config = GroupsConfig(**values)
        super().__init__(partition, now)

    def _make(self, trace: Trace) -> GroupCoordinator:
        return GroupCoordinator(
            subject="__consumer_offsets-0",
            log=self.log,
            config=self._config,
            prng=Prng(self.log.epoch),
            trace=trace,
            topics=Topics(),
        )

    def send(self, request: Request) -> int:
        """Asks without committing anything; the number of the question."""
        number = super().send(request)
        self._wake()
        return number

    # Questions ----------------------------------------------------------------------------

    def join_new(self, name: str = "a", **values: Any) -> str:
        """Gives a new client its member id."""
        answer = self.ask(join(client_id=name, **values))
        assert answer.error_code is ErrorCode.MEMBER_ID_REQUIRED, answer
        member_id: str = answer.member_id
        return member_id

    def group_of(self, *names: str, group_id: str = "g") -> list[str]:
        """A stable group of so many new members, the leader first; their ids."""
        members = [self.join_new(name, group_id=group_id) for name in names]
        waiting = {each: self.send(join(each, group_id=group_id)) for each in members}
        self.advance(2 * DELAY_MS)
        joined = {each: self.answers[number] for each, number in waiting.items()}
        results = [each for each in joined.values() if isinstance(each, JoinGroupResult)]
        leader, generation_id = results[0].leader, results[0].generation_id
        members.sort(key=lambda each: each != leader)
        assigned = tuple((each, f"for {each}".encode()) for each in members)
        for each in members[1:]:
            self.send(sync(each, generation_id, group_id=group_id))
        result = self.ask(sync(leader, generation_id, assigned, group_id=group_id))
        assert result.error_code is ErrorCode.NONE, result
        return members

    def committed(self, group_id: str = "g") -> dict[TopicPartition, int]:
        """What a client is answered about all partitions."""
        answer = self.answers[self.send(FetchOffsets(group_id, None))]
        assert isinstance(answer, FetchOffsetsResult), answer
        return {each: found.offset for each, found in answer.offsets if found is not None}


def join(member_id: str = "", **values: Any) -> JoinGroup:
    defaults: dict[str, Any] = {
        "group_id": "g",
        "group_instance_id": None,
        "client_id": "a",
        "client_host": "/host",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (GroupProtocol("range", b"\x00\x00\x00\x00\x00\x01\x00\x01t"),),
    }
    return JoinGroup(member_id=member_id, **{**defaults, **values})


def sync(
    member_id: str,
    generation_id: int,
    assignments: tuple[tuple[str, bytes], ...] = (),
    *,
    group_id: str = "g",
    instance_id: str | None = None,
    protocol: str | None = None,
) -> SyncGroup:
    return SyncGroup(group_id, generation_id, member_id, instance_id, None, protocol, assignments)


def heartbeat(
    member_id: str, generation_id: int, group_id: str = "g", instance_id: str | None = None
) -> Heartbeat:
    return Heartbeat(group_id, generation_id, member_id, instance_id)


def leave(*member_ids: str, group_id: str = "g") -> LeaveGroup:
    return LeaveGroup(group_id, tuple(Leaver(each) for each in member_ids))


def commit(
    offset: int,
    member_id: str = "",
    generation_id: int = -1,
    *,
    group_id: str = "g",
    partition: TopicPartition = T0,
    metadata: str = "",
) -> CommitOffsets:
    value = CommittedOffset(offset, metadata=metadata)
    return CommitOffsets(group_id, generation_id, member_id, None, ((partition, value),))
