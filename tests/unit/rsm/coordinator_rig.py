"""One coordinator over a log in memory, whose high watermark the test moves.

A `MemoryPartition` outlives its leaders: a second rig over the same one is the next leader, which
loads what was committed and nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from tidelog.env.instant import Instant
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.kraft.messages import NotLeader
from tidelog.rsm.coordinator import Coordinator
from tidelog.rsm.log_records import InTransaction, LogRecord, TransactionEnd

WALL_MS = 1_700_000_000_000


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


C = TypeVar("C", bound=Coordinator[Any, Any, Any])


class CoordinatorRig(ABC, Generic[C]):
    """A coordinator that is asked; answers by the number of the question."""

    def __init__(self, partition: MemoryPartition | None, now: int) -> None:
        self.partition = partition or MemoryPartition()
        self.partition.lose_uncommitted()
        self.now = Instant(now)
        self.trace = TraceList()
        self.log = Leader(self.partition)
        self.coordinator = self._make(Trace(self.trace))
        self.coordinator.wall_offset_ms = WALL_MS
        for batch in self.partition.batches:
            self.coordinator.load(batch)
        self.coordinator.become_active(self.log.epoch, self.now)
        self.answers: dict[int, Any] = {}
        self._asked = 0

    @abstractmethod
    def _make(self, trace: Trace) -> C:
        """The coordinator over `log`."""

    def send(self, request: Any) -> int:
        """Asks without committing anything; the number of the question."""
        self._asked += 1
        self.coordinator.handle(request, self._asked, self.now)
        self._settle()
        return self._asked

    def ask(self, request: Any) -> Any:
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
            self._wake()
            self.commit()
        self.now = Instant(end)

    def _wake(self) -> None:
        self.coordinator.wake(self.now)
        self._settle()

    def _settle(self) -> None:
        self.coordinator.check()
        for number, response in self.coordinator.take_replies():
            assert number not in self.answers, f"OneAnswer: {number} was answered twice"
            assert isinstance(number, int)
            self.answers[number] = response
