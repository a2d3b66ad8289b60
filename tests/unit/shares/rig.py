"""A share coordinator over a log in memory, and questions to it."""

from typing import Any

from tests.unit.rsm.coordinator_rig import CoordinatorRig, MemoryPartition
from tidelog.config import SharesConfig
from tidelog.env.trace import Trace
from tidelog.model import TopicId
from tidelog.shares.batches import StateBatch
from tidelog.shares.coordinator import ShareCoordinator
from tidelog.shares.image import ShareState
from tidelog.shares.messages import InitializeState, WriteState
from tidelog.shares.records import SharePartition

TOPIC = TopicId(bytes(range(16)))
OTHER = TopicId(bytes(range(16, 32)))
P0 = SharePartition("g", TOPIC, 0)
P1 = SharePartition("g", TOPIC, 1)
OF_OTHER = SharePartition("g", OTHER, 0)


class Rig(CoordinatorRig[ShareCoordinator]):
    """A share coordinator that is asked; answers by the number of the question."""

    def __init__(
        self, partition: MemoryPartition | None = None, *, now: int = 0, **config: Any
    ) -> None:
        self._config = SharesConfig(**config)
        # How many partitions each topic has.
        self.topics = {TOPIC: 2, OTHER: 1}
        super().__init__(partition, now)

    def _make(self, trace: Trace) -> ShareCoordinator:
        return ShareCoordinator(
            self.log, self._config, trace, lambda topic_id: self.topics.get(topic_id, 0)
        )

    def initialize(self, *partitions: SharePartition, state_epoch: int = 1, start: int = 0) -> None:
        """These share partitions may be read and written."""
        for each in partitions:
            self.ask(InitializeState(each, state_epoch, start))

    def known(self, partition: SharePartition = P0) -> ShareState:
        """What is committed about a share partition."""
        found = self.coordinator.entries.get(partition.key)
        assert found is not None, f"{partition} is not known"
        return found

    def prune(self) -> None:
        """The owner deletes what is not needed."""
        kept = self.coordinator.redundant_before
        batches = self.partition.batches
        self.partition.batches = [each for each in batches if each.last_offset >= kept]


def write(
    partition: SharePartition = P0, *batches: tuple[int, int, int, int], **values: Any
) -> WriteState:
    """A report of the leader, with the epochs of the first state."""
    made = tuple(StateBatch(*each) for each in batches)
    defaults = {"state_epoch": 1, "leader_epoch": 0, "start_offset": -1}
    return WriteState(partition, batches=made, **{**defaults, **values})
