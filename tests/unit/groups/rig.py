"""One coordinator over a log in memory, whose high watermark the test moves.

A `MemoryPartition` outlives its leaders: a second `Rig` over the same one is the next leader, which
loads what was committed and nothing else.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidelog.config import GroupsConfig
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import ErrorCode, ProtocolError
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
    Response,
    SyncGroup,
)
from tidelog.groups.records import CommittedOffset
from tidelog.groups.topics import Topics
from tidelog.kraft.messages import NotLeader
from tidelog.model import TopicPartition
from tidelog.rsm.log_records import InTransaction, LogRecord, TransactionEnd

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
WALL_MS = 1_700_000_000_000
DELAY_MS = 10
"""The first rebalance of a group waits so long, and once more for those that come meanwhile."""


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    records: Sequence[LogRecord]
    is_control: bool = False


class MemoryPartition:
    """The log of a partition, as its leader sees it."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.high_watermark = 0
        self.leader_epoch = 0
        self.max_batch_bytes = 1 << 20

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def lose_uncommitted(self) -> None:
        self.batches = [each for each in self.batches if each.last_offset < self.high_watermark]


class Leader:
    """One leadership of it (`rsm.kernel.ReplicatedLog`)."""

    def __init__(self, partition: MemoryPartition) -> None:
        partition.leader_epoch += 1
        self.partition, self.epoch = partition, partition.leader_epoch

    @property
    def end_offset(self) -> int:
        return self.partition.end_offset

    def append(self, records: Sequence[LogRecord]) -> int:
        partition = self.partition
        if partition.leader_epoch != self.epoch:
            raise NotLeader("another one leads")
        plain = [each for each in records if not isinstance(each, InTransaction | TransactionEnd)]
        if sum(len(key) + len(value or b"") for key, value in plain) > partition.max_batch_bytes:
            raise ProtocolError(ErrorCode.RECORD_LIST_TOO_LARGE, "too large")
        base = partition.end_offset
        partition.batches.append(Batch(base, base + len(records) - 1, self.epoch, list(records)))
        return base + len(records) - 1


class Rig:
    """A coordinator that is asked; answers by the number of the question."""

    def __init__(
        self, partition: MemoryPartition | None = None, *, now: int = 0, **config: Any
    ) -> None:
        self.partition = partition or MemoryPartition()
        self.partition.lose_uncommitted()
        self.now = Instant(now)
        self.trace = TraceList()
        values = {"initial_rebalance_delay_ms": DELAY_MS, "min_session_timeout_ms": 100, **config}
        self.log = Leader(self.partition)
        self.coordinator = GroupCoordinator(
            subject="__consumer_offsets-0",
            log=self.log,
            config=GroupsConfig(**values),
            prng=Prng(self.log.epoch),
            trace=Trace(self.trace),
            topics=Topics(),
        )
        self.coordinator.wall_offset_ms = WALL_MS
        for batch in self.partition.batches:
            self.coordinator.load(batch)
        self.coordinator.become_active(self.log.epoch, self.now)
        self.answers: dict[int, Response] = {}
        self._asked = 0

    def send(self, request: Request) -> int:
        """Asks without committing anything; the number of the question."""
        self._asked += 1
        self.coordinator.handle(request, self._asked, self.now)
        self.coordinator.wake(self.now)
        self._settle()
        return self._asked

    def ask(self, request: Request) -> Any:
        """Asks, and commits what that writes; the answer, or `None` while it waits."""
        number = self.send(request)
        self.commit()
        return self.answers.get(number)

    def commit(self) -> None:
        """All that was appended is on the replicas."""
        self.partition.high_watermark = self.partition.end_offset
        self.coordinator.on_high_watermark(self.partition.high_watermark, self.now)
        self._settle()

    def advance(self, duration_ms: int) -> None:
        """Time passes, and what is written is committed."""
        end = self.now + duration_ms
        while (deadline := self.coordinator.deadline()) is not None and deadline <= end:
            self.now = Instant(max(self.now, deadline))
            self.coordinator.wake(self.now)
            self._settle()
            self.commit()
        self.now = Instant(end)

    def _settle(self) -> None:
        self.coordinator.check()
        for number, response in self.coordinator.take_replies():
            assert number not in self.answers, f"OneAnswer: {number} was answered twice"
            assert isinstance(number, int)
            self.answers[number] = response

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
