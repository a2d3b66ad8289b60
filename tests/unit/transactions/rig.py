"""One coordinator over a log in memory, whose high watermark the test moves.

A `MemoryPartition` outlives its leaders: a second `Rig` over the same one is the next leader, which
loads what was committed and nothing else. Partitions take markers when the test says so.
"""

from typing import Any

from tests.unit.groups.rig import WALL_MS, Leader, MemoryPartition
from tidelog.config import TransactionsConfig
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace, TraceList
from tidelog.model import TopicPartition
from tidelog.transactions.coordinator import TransactionCoordinator
from tidelog.transactions.endings import WantedMarkers
from tidelog.transactions.messages import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    Marker,
    ProducerGranted,
    ProducerIdNeeded,
    Request,
    Response,
    VerifyPartitions,
)
from tidelog.transactions.records import Transaction

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
TIMEOUT_MS = 1000
ID = "x"


class Rig:
    """A coordinator that is asked; answers by the number of the question."""

    def __init__(
        self,
        partition: MemoryPartition | None = None,
        *,
        now: int = 0,
        version: int = 2,
        **config: Any,
    ) -> None:
        self.partition = partition or MemoryPartition()
        self.partition.lose_uncommitted()
        self.now = Instant(now)
        self.trace = TraceList()
        self.log = Leader(self.partition)
        self.wanted: list[WantedMarkers] = []
        self.coordinator = TransactionCoordinator(
            self.log, TransactionsConfig(**config), Trace(self.trace), self.wanted
        )
        self.coordinator.wall_offset_ms = WALL_MS
        self.coordinator.transaction_version = version
        for batch in self.partition.batches:
            self.coordinator.load(batch)
        self.coordinator.become_active(self.log.epoch, self.now)
        self.answers: dict[int, Response] = {}
        # The next producer id of the controller.
        self.next_id = 100 * self.log.epoch
        self._asked = 0
        self.coordinator.wake(self.now)
        self._settle()

    def send(self, request: Request) -> int:
        """Asks without committing anything; the number of the question."""
        self._asked += 1
        self.coordinator.handle(request, self._asked, self.now)
        self._settle()
        if isinstance(self.answers.get(self._asked), ProducerIdNeeded):
            self.next_id += 1
            return self.send(request._replace(fresh_producer_id=self.next_id))
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

    def take_markers(self) -> list[WantedMarkers]:
        """The markers that the coordinator wants written."""
        wanted = list(self.wanted)
        self.wanted.clear()
        return wanted

    def write(self, marker: Marker, *partitions: TopicPartition, **values: Any) -> None:
        """These partitions have the marker."""
        self.coordinator.on_markers_written(marker, partitions, self.now, **values)
        self._settle()

    def write_all(self) -> list[Marker]:
        """All partitions take all markers; what that writes is committed."""
        wanted = self.take_markers()
        for marker, partitions in wanted:
            self.write(marker, *partitions)
        self.commit()
        return [marker for marker, _ in wanted]

    def known(self, transactional_id: str = ID) -> Transaction:
        """What is committed about an id."""
        found = self.coordinator.entries.get(transactional_id)
        assert found is not None, f"{transactional_id} is not known"
        return found

    def _settle(self) -> None:
        self.coordinator.check()
        for number, response in self.coordinator.take_replies():
            assert number not in self.answers, f"{number} was answered twice"
            assert isinstance(number, int)
            self.answers[number] = response

    # Questions ----------------------------------------------------------------------------

    def begin(self, transactional_id: str = ID, **values: Any) -> ProducerGranted:
        """A producer begins."""
        answer = self.ask(init(transactional_id, **values))
        assert isinstance(answer, ProducerGranted), answer
        return answer

    def ongoing(self, *partitions: TopicPartition, version: int = 2) -> ProducerGranted:
        """A producer with an open transaction in these partitions."""
        producer = self.begin()
        self.ask(add(producer, *(partitions or (T0, T1)), version=version))
        return producer


def init(transactional_id: str = ID, **values: Any) -> InitProducerId:
    return InitProducerId(transactional_id, **{"timeout_ms": TIMEOUT_MS, **values})


def add(
    producer: ProducerGranted, *partitions: TopicPartition, version: int = 2, name: str = ID
) -> AddPartitions:
    return AddPartitions(name, *producer[1:], frozenset(partitions), version)


def verify(
    producer: ProducerGranted, *partitions: TopicPartition, name: str = ID
) -> VerifyPartitions:
    return VerifyPartitions(name, *producer[1:], frozenset(partitions))


def end(
    producer: ProducerGranted, *, commit: bool = True, version: int = 2, name: str = ID
) -> EndTransaction:
    return EndTransaction(name, *producer[1:], commit, version)
