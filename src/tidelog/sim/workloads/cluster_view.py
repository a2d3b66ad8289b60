"""What a client knows of the cluster, and its connections: a metadata cache over sessions.

`refresh` asks some node for all topics and then runs what waits for it; questions that come while
one is under way share the answer. A client that found its knowledge wrong refreshes and tries
again after a pause, as real clients do.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.model import NO_EPOCH, NO_LEADER, TopicId, TopicPartition
from tidelog.rsm.placement import partition_of
from tidelog.sim.engine.client_machine import CLIENT, Session
from tidelog.sim.engine.world import World
from tidelog.sim.evidence.history import Key
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import bytes_of

Answered = Callable[[Entity | None], None]
"""Gets the response, or `None` without one."""

METADATA_VERSION: Final = 12
TRANSACTIONAL_TOPIC: Final = "x1"
"""The topic of the transactors, which the other clients leave alone."""
KEYED_TOPIC: Final = "k1"
"""Likewise the topic of the client whose records do not stay."""
SOURCE_TOPIC: Final = "y1"
COPY_TOPIC: Final = "y2"
"""Likewise the topic that is copied, and that of the copies."""
REFRESH_PAUSE_MS: Final = 50


class Place(NamedTuple):
    """Where a partition is led, as far as the client knows."""

    name: str
    topic_id: TopicId
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]


def key_of(name: str, topic_id: TopicId, partition: int) -> Key:
    """The history's name of a partition."""
    return Key(f"{name}.{topic_id[:3].hex()}", partition)


def request(key: ApiKey, version: int, /, **values: object) -> Entity:
    """A request by the names of its schema; a dict is a nested entity."""
    return make(codec.request_class(key, version), **values)


def newest_image(world: World) -> MetadataImage:
    """The newest metadata that any node has."""
    images = (each.broker.image for each in world.nodes)
    return max(images, key=lambda image: image.offset, default=EMPTY_IMAGE)


def leads_newest(world: World, node_id: int, topic_name: str, key: str) -> bool:
    """Whether a node leads the partition that a key belongs to, and knows the newest epoch of it. A
    node that has lost the leadership without knowing it answers from what it had."""
    node = world.hosts[node_id].node
    topic = newest_image(world).topics_by_name.get(topic_name)
    if node is None or topic is None:
        return False
    number = partition_of(key, len(topic.partitions))
    replica = node.broker.replicas.partitions.get(TopicPartition(topic_name, number))
    return replica is not None and replica.leader_epoch == topic.partitions[number].leader_epoch


class ClusterView:
    """Metadata and sessions of one client."""

    def __init__(
        self, world: World, name: str, prng: Prng, timeout_ms: int, user: str = CLIENT
    ) -> None:
        self.world = world
        # Who logs in, where that is asked for.
        self.user = user
        self.name = name
        self.prng = prng
        self.places: dict[Key, Place] = {}
        # Of every partition that was ever seen, the place with the highest leader epoch.
        self._newest: dict[Key, Place] = {}
        # The nodes that serve clients.
        self.brokers = [one for one, host in world.hosts.items() if host.config.is_broker]
        # Of the topics with clients of their own, which are never deleted, by partition: the leader
        # of the highest leader epoch, and that epoch.
        self._leaders: dict[str, dict[int, tuple[int, int]]] = {
            topic: {} for topic in (TRANSACTIONAL_TOPIC, KEYED_TOPIC, SOURCE_TOPIC, COPY_TOPIC)
        }
        # Whether any answer has come yet.
        self.known = False
        self._timeout_ms = timeout_ms
        self._sessions: dict[int, Session] = {}
        self._asking_sessions: dict[int, Session] = {}
        # What runs when the answer under way is in.
        self._waiters: list[Callable[[], None]] = []
        self._asking = False

    def session(self, node_id: int) -> Session:
        """The connection to a node, made when there is none."""
        return self._of(self._sessions, node_id)

    def leader_of(self, topic: str, number: int) -> int | None:
        """The leader of a partition of a topic with clients of its own, if it is known."""
        leader, _ = self._leaders[topic].get(number, (NO_LEADER, NO_EPOCH))
        return None if leader == NO_LEADER else leader

    def epoch_of(self, topic: str, number: int) -> int:
        """The leader epoch of the same. A reader names it, so that no other node takes it for a
        reader of its own: one that was the leader, or that has lost its log, knows less (KIP-320).
        """
        return self._leaders[topic].get(number, (NO_LEADER, NO_EPOCH))[1]

    def _of(self, sessions: dict[int, Session], node_id: int) -> Session:
        session = sessions.get(node_id)
        if session is None or session.closed:
            machine, host = self.world.clients, self.world.hosts[node_id]
            session = sessions[node_id] = Session(
                machine, host, timeout_ms=self._timeout_ms, user=self.user
            )
        return session

    def ask(self, wanted: Entity, answered: Answered, node_id: int | None = None) -> None:
        """Asks some node or a certain one, on a connection of its own: a parked request must not
        hold it up."""
        asked = self.prng.choice(self.brokers) if node_id is None else node_id
        session = self._of(self._asking_sessions, asked)
        key, version = wanted.__api_key__, wanted.__version__

        def done(frame: bytes | None) -> None:
            answered(None if frame is None else codec.decode_response(key, version, frame)[1])

        session.request(codec.encode_request(wanted, session.correlation_id, self.name), done)

    def refresh(self, then: Callable[[], None]) -> None:
        """Asks for all topics, then goes on, after a pause that grows by chance."""
        self._waiters.append(then)
        if not self._asking:
            self._asking = True
            self._ask()

    def _ask(self) -> None:
        wanted = request(
            ApiKey.METADATA,
            METADATA_VERSION,
            topics=None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        self.ask(wanted, self._on_metadata)

    def _on_metadata(self, response: Entity | None) -> None:
        pause = self.prng.between(REFRESH_PAUSE_MS // 2, REFRESH_PAUSE_MS * 2)
        if response is None or (not response.topics and self.places):
            # A node that has just started knows nothing yet.
            self.world.at(pause, self._ask)
            return
        self._take(response.topics)
        self.known = True
        self._asking = False
        waiters, self._waiters = self._waiters, []
        for then in waiters:
            self.world.at(pause, then)

    def _take(self, topics: tuple[Entity, ...]) -> None:
        found: dict[Key, Place] = {}
        for topic in topics:
            if topic.error_code.value != ErrorCode.NONE or topic.is_internal:
                continue
            if topic.name in self._leaders:
                known_leaders = self._leaders[topic.name]
                for part in topic.partitions:
                    _, epoch = known_leaders.get(part.partition_index, (NO_LEADER, NO_EPOCH))
                    if part.leader_epoch >= epoch:
                        known_leaders[part.partition_index] = (part.leader_id, part.leader_epoch)
                continue
            topic_id = TopicId(bytes_of(topic.topic_id))
            name: str = topic.name
            for part in topic.partitions:
                key = key_of(name, topic_id, part.partition_index)
                known = self._newest.get(key)
                if known is not None and known.leader_epoch > part.leader_epoch:
                    # From a node that is behind: what is known is newer (KIP-320), though another
                    # may have said meanwhile that the topic is gone.
                    found[key] = known
                    continue
                found[key] = self._newest[key] = Place(
                    name,
                    topic_id,
                    part.partition_index,
                    part.leader_id,
                    part.leader_epoch,
                    tuple(part.replica_nodes),
                )
        self.places = found
