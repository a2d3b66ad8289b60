"""What a decider may look at, and what it returns.

Every decider of the controller is a function of a `View` and one request. It reads the newest
image, speculative records included, and returns a `ControllerDecision`; it changes nothing. The
only state it consumes is the seeded generator.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from tidelog.config import ControllerConfig
from tidelog.controller.messages import Response
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import (
    CLUSTER_DEFAULT,
    TOPIC_RESOURCE,
    BrokerImage,
    ConfigResource,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from tidelog.metadata.records import MetadataRecord
from tidelog.model import ZERO_UUID, TopicId, TopicPartition, Uuid
from tidelog.rsm.kernel import Decision

ControllerDecision: TypeAlias = Decision[MetadataRecord, Response]

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class View:
    """The newest state and the means to decide."""

    image: MetadataImage
    """Everything appended so far, committed or not."""
    next_offset: int
    """Where the decision's first record will stand."""
    config: ControllerConfig
    prng: Prng
    trace: Trace
    wall_ms: int = 0
    """Wall time of this node."""
    departing: frozenset[int] = frozenset()
    """The broker that a decision in slices takes out of all ISRs right now (`slices.py`)."""

    def is_active(self, node_id: int) -> bool:
        """Whether a broker may lead and be in an ISR: it is registered, neither fenced nor leaving,
        and not about to be fenced."""
        return node_id not in self.departing and self.image.is_active(node_id)

    def min_isr(self, topic: str) -> int:
        """The topic's min ISR as configured; a partition with fewer replicas needs all of them."""
        text = self._topic_config(topic, MIN_INSYNC_REPLICAS)
        return self.config.min_insync_replicas if text is None else int(text)

    def unclean_election_enabled(self, topic: str) -> bool:
        """Whether a replica outside of ISR and ELR may lead the topic's partitions."""
        text = self._topic_config(topic, UNCLEAN_LEADER_ELECTION_ENABLE)
        if text is None:
            return self.config.unclean_leader_election_enable
        return text.strip().lower() == "true"

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        """The registered broker; raises `ProtocolError(STALE_BROKER_EPOCH)` unless this epoch is
        its current one. The sender must register again."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            text = f"No broker is registered with id {broker_id}"
            raise ProtocolError(ErrorCode.STALE_BROKER_EPOCH, text)
        if broker.broker_epoch != broker_epoch:
            text = f"Expected broker epoch {broker.broker_epoch}, but got {broker_epoch}"
            raise ProtocolError(ErrorCode.STALE_BROKER_EPOCH, text)
        return broker

    def named_partitions(
        self, wanted: Sequence[tuple[str, Sequence[int]]] | None
    ) -> Iterator[tuple[str, int]]:
        """(topic, partition) for every one that a request names; `None` names all there are."""
        if wanted is None:
            topics = self.image.topics_by_id.values()
            wanted = [(topic.name, tuple(topic.partitions)) for topic in topics]
        return ((name, number) for name, numbers in wanted for number in numbers)

    def place(self, name: str, number: int) -> "Place":
        """One partition by name; raises `ProtocolError(UNKNOWN_TOPIC_OR_PARTITION)`."""
        topic = self.image.topic(name)
        partition = None if topic is None else topic.partitions.get(number)
        if topic is None or partition is None:
            text = f"No such partition as {name}-{number}"
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        return Place(topic, number, partition)

    def find(self, topic_id: TopicId, number: int) -> "Place | None":
        """One partition by topic id, if there is such a one."""
        topic = self.image.topics_by_id.get(topic_id)
        partition = None if topic is None else topic.partitions.get(number)
        return None if topic is None or partition is None else Place(topic, number, partition)

    def check_atomic(self, records: Sequence[MetadataRecord]) -> None:
        """Raises `ProtocolError(POLICY_VIOLATION)` for more records than one batch may hold."""
        self.check_bound(len(records), "records at once")

    def check_bound(self, count: int, what: str) -> None:
        """Raises `ProtocolError(POLICY_VIOLATION)` for more than one batch may hold."""
        bound = self.config.max_records_per_batch
        if count > bound:
            text = (
                f"The request needs {count} {what}, and the maximum per request is {bound}. "
                "Nothing was done; ask for it in several requests."
            )
            raise ProtocolError(ErrorCode.POLICY_VIOLATION, text)

    def directory_of(self, broker_id: int) -> Uuid:
        """Where a new replica on this broker goes; `ZERO_UUID` leaves the choice to the broker."""
        broker = self.image.brokers.get(broker_id)
        log_dirs = () if broker is None else broker.log_dirs
        return log_dirs[0] if len(log_dirs) == 1 else ZERO_UUID

    def _topic_config(self, topic: str, name: str) -> str | None:
        """The topic's own value, else the cluster-wide one, else nothing is set."""
        configs = self.image.configs
        for resource in (ConfigResource(TOPIC_RESOURCE, topic), CLUSTER_DEFAULT):
            value = configs.get(resource, {}).get(name)
            if value is not None:
                return value
        return None


class Place(NamedTuple):
    """One partition and where it stands."""

    topic: TopicImage
    number: int
    partition: PartitionImage

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition by name."""
        return TopicPartition(self.topic.name, self.number)


def places_where(view: View, wanted: Callable[[PartitionImage], bool]) -> Iterator[Place]:
    """The partitions that `wanted` holds for, topic by topic."""
    for topic in view.image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            if wanted(partition):
                yield Place(topic, number, partition)
