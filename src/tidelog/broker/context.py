"""What request handlers may see and use of their broker.

`Broker` is the handlers' side of a node: the committed metadata image, the rooms that answer, and
the way back to the client. It decides nothing by itself; the few questions here are those that
several handlers ask of the image.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tidelog.broker.connections import Connections, PendingRequest
from tidelog.broker.control_link import ControlLink
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.held_questions import HeldQuestions
from tidelog.broker.producer_ids import ProducerIds
from tidelog.config import NodeConfig
from tidelog.controller.controller import Controller
from tidelog.controller.messages import CreateTopics, NewTopic
from tidelog.env.disk import Disk
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.kraft.quorum import Quorum
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from tidelog.model import INTERNAL_TOPICS, NO_EPOCH, NO_LEADER, Endpoint
from tidelog.replication.replicas import Replicas
from tidelog.wire import codec
from tidelog.wire.entities import Entity
from tidelog.wire.fetch import FetchedPartition, LeaderHint
from tidelog.wire.produce import ProducedPartition

Answer = TypeVar("Answer", FetchedPartition, ProducedPartition)


@dataclass(frozen=True, slots=True)
class AutoCreate:
    """Token of a topic creation that a Metadata request caused."""

    names: tuple[str, ...]


@dataclass(slots=True)
class Broker:
    """One broker, as its handlers see it."""

    config: NodeConfig
    cluster_id: str
    connections: Connections
    replicas: Replicas
    quorum: Quorum
    # None on a node that is only a broker.
    controller: Controller | None
    control: ControlLink
    fetch_sessions: FetchSessions
    trace: Trace
    # The log directory, for operators who ask how full it is.
    disk: Disk
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    # The newest committed image that the replicas have applied.
    image: MetadataImage = EMPTY_IMAGE
    # Nodes that may have died a moment ago (`FailureDetector.in_doubt`).
    unreachable: frozenset[int] = frozenset()
    # Wall time minus monotonic time, from the driver.
    wall_offset_ms: int = 0
    held_questions: HeldQuestions = field(default_factory=HeldQuestions)
    # Topics whose automatic creation is under way.
    creating: set[str] = field(default_factory=set)

    def wall_ms(self, now: Instant) -> int:
        """Wall time at `now`, for record timestamps."""
        return now + self.wall_offset_ms

    def answer(self, pending: PendingRequest, entity: Entity) -> None:
        """Sends a response entity."""
        if pending.connection.open:
            self.connections.fill(pending, [codec.encode_response(pending.header, entity)])

    # Questions to the image ----------------------------------------------------------------

    def is_alive(self, node_id: int) -> bool:
        """Whether a broker is registered and unfenced (it may be about to leave)."""
        broker = self.image.brokers.get(node_id)
        return broker is not None and not broker.fenced

    def endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        """Where a broker is reached on the listener that the question came in by."""
        broker = self.image.brokers.get(node_id)
        return None if broker is None else broker.endpoint(listener)

    def alive_brokers(self, listener: str) -> list[tuple[int, Endpoint, str | None]]:
        """(node id, endpoint, rack) of the unfenced brokers with this listener, by id."""
        found = []
        for node_id in sorted(self.image.brokers):
            broker = self.image.brokers[node_id]
            endpoint = broker.endpoint(listener)
            if endpoint is not None and not broker.fenced:
                found.append((node_id, endpoint, broker.rack))
        return found

    def brokers_to_name(self, listener: str) -> list[tuple[int, Endpoint, str | None]]:
        """(node id, endpoint, rack) of the alive brokers; if there are none, of this one."""
        node_id = self.config.node_id
        alive, end = self.alive_brokers(listener), self.endpoint(node_id, listener)
        if alive or end is None:
            return alive
        return [(node_id, end, self.image.brokers[node_id].rack)]

    def any_alive_broker(self) -> int:
        """Some alive broker, which clients take for the controller: this one if it is."""
        if self.is_alive(self.config.node_id):
            return self.config.node_id
        return next(
            (node_id for node_id in sorted(self.image.brokers) if self.is_alive(node_id)), -1
        )

    def offline_replicas(self, partition: PartitionImage) -> tuple[int, ...]:
        """Replicas on brokers that are fenced or gone."""
        return tuple(node_id for node_id in partition.replicas if not self.is_alive(node_id))

    def leader_hint(self, topic: str, partition: int) -> LeaderHint:
        """Who leads a partition according to the image."""
        found = self.image.topics_by_name.get(topic)
        image = None if found is None else found.partitions.get(partition)
        if image is None:
            return LeaderHint(NO_LEADER, NO_EPOCH)
        return LeaderHint(image.leader, image.leader_epoch)

    def with_leaders(
        self, answers: Sequence[Answer], stale: Container[ErrorCode]
    ) -> tuple[list[Answer], set[int]]:
        """The answers, and the leaders that they name: one that says the asker was wrong about the
        leader tells who leads, if anybody does (KIP-951)."""
        named: set[int] = set()
        found: list[Answer] = []
        for answer in answers:
            if answer.error_code in stale:
                hint = self.leader_hint(answer.topic, answer.partition)
                if hint.leader_id != NO_LEADER:
                    named.add(hint.leader_id)
                    answer = answer._replace(current_leader=hint)
            found.append(answer)
        return found, named

    def node_endpoints(
        self, node_ids: set[int], listener: str
    ) -> list[tuple[int, Endpoint, str | None]]:
        """(node id, endpoint, rack) of those brokers that have this listener."""
        return [row for row in self.alive_brokers(listener) if row[0] in node_ids]

    # Automatic topics ----------------------------------------------------------------------

    def auto_create_topics(self, names: list[str], now: Instant) -> None:
        """Asks the controller for topics that a client wants and nobody made."""
        if not self.config.broker.auto_create_topics_enable:
            return
        wanted = tuple(sorted(set(names) - self.creating - INTERNAL_TOPICS))
        if wanted:
            self.creating.update(wanted)
            message = CreateTopics(tuple(NewTopic(name) for name in wanted))
            self.control.call(message, AutoCreate(wanted), now)

    def on_auto_created(self, token: AutoCreate) -> None:
        """The creation is over, well or not: the client asks again and will see."""
        self.creating.difference_update(token.names)
