"""A transaction coordinator over a log in memory, and questions to it. Partitions take markers when
the test says so."""

from typing import Any

from tests.unit.rsm.coordinator_rig import CoordinatorRig, MemoryPartition
from tidelog.config import TransactionsConfig
from tidelog.env.trace import Trace
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
    VerifyPartitions,
)
from tidelog.transactions.records import Transaction

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
TIMEOUT_MS = 1000
ID = "x"


class Rig(CoordinatorRig[TransactionCoordinator]):
    """A transaction coordinator that is asked; answers by the number of the question."""

    def __init__(
        self,
        partition: MemoryPartition | None = None,
        *,
        now: int = 0,
        version: int = 2,
        **config: Any,
    ) -> None:
        self.wanted: list[WantedMarkers] = []
        self._config, self._version = TransactionsConfig(**config), version
        super().__init__(partition, now)
        # The next producer id of the controller.
        self.next_id = 100 * self.log.epoch
        self._wake()

    def _make(self, trace: Trace) -> TransactionCoordinator:
        coordinator = TransactionCoordinator(self.log, self._config, trace, self.wanted)
        coordinator.transaction_version = self._version
        return coordinator

    def send(self, request: Request) -> int:
        """Asks without committing anything; the number of the question."""
        number = super().send(request)
        if isinstance(self.answers.get(number), ProducerIdNeeded):
            self.next_id += 1
            return self.send(request._replace(fresh_producer_id=self.next_id))
        return number

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
