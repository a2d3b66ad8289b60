"""A small reading client: who leads what, and from which offset to which.

What a batch job needs and nothing more: `metadata`, `list_offsets`, `compacted_topics`, and
connections to leaders for `reader.py`, which does the reading.

Leaders change. Whatever a broker answers or fails to answer, a call tries again with fresh metadata
when that may help, and gives up when nothing went forward for `retry_s`, saying what it heard
last. Nothing here is asked of a group coordinator, and nothing is written.

Left out: consumer groups, transactions (`read_uncommitted` only), TLS and SASL, follower fetching.
Source: KIP-207 (OFFSET_NOT_AVAILABLE), KIP-320 (leader epochs), KIP-516 (topic ids).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tidelog.errors import ErrorCode, MalformedFrame, UsageError
from tidelog.model import NO_EPOCH, NO_LEADER, TopicId, TopicPartition
from tidelog.pipeline.connection import BrokerConnection
from tidelog.pipeline.errors import ClusterUnavailable
from tidelog.pipeline.values import Address
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import request_class
from tidelog.wire.entities import field, make, nested
from tidelog.wire.fetch import READ_UNCOMMITTED
from tidelog.wire.values import bytes_of, error_of

T = TypeVar("T")

_BACKOFF_S: Final = 0.1
_FIRST_CONTACT_S: Final = 5.0
"""How long a cluster that never answered is tried: more likely a wrong address than a fault."""
_UNKNOWN_TOPIC_S: Final = 1.0
"""How long an unknown topic is asked for: a new one is not known to all brokers at once."""
_TOPIC_RESOURCE: Final = 2

TRY_AGAIN: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    )
)


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a partition, as the cluster last said."""

    topic_id: TopicId
    node_id: int
    """-1 while there is none."""
    epoch: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """The cluster as one broker described it."""

    brokers: dict[int, Address]
    leaders: dict[TopicPartition, Leader]

    def partitions_of(self, topic: str) -> list[int]:
        """The partition numbers of a topic, ascending."""
        return sorted(tp.partition for tp in self.leaders if tp.topic == topic)


class TryAgain(Exception):
    """Fresh metadata and another attempt may help; the text says what happened."""


class UnknownTopic(TryAgain):
    """A broker does not know the topic: it does not exist, or the broker is not up to date."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic `{topic}` is not known")
        # The name that was asked for.
        self.topic = topic


class Client:
    """Reads from one cluster. Not thread-safe; make one per task."""

    def __init__(
        self, bootstrap: Sequence[Address], *, retry_s: float = 60.0, timeout_s: float = 30.0
    ) -> None:
        # Whom to ask first, and again when nobody else is known.
        self._bootstrap = tuple(bootstrap)
        # How long a call goes on without any progress.
        self._retry_s = retry_s
        # How long one answer may take.
        self._timeout_s = timeout_s
        # What the cluster last said of itself; replaced as a whole.
        self._metadata = Metadata({}, {})
        # Open connections by address; a broken one is closed and dropped.
        self._connections: dict[Address, BrokerConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Metadata ------------------------------------------------------------------------------

    def metadata(self, topics: Sequence[str]) -> Metadata:
        """Who leads the partitions of these topics.

        Raises `UsageError` for a topic that does not exist, `ClusterUnavailable`.
        """
        return self.patiently("metadata", lambda: self.refresh(topics))

    def refresh(self, topics: Sequence[str]) -> Metadata:
        """Asks once. Raises `TryAgain`, `ClusterUnavailable`; `UsageError` for an illegal name."""
        connection = self._any_connection()
        request_type = request_class(ApiKey.METADATA, connection.version_of(ApiKey.METADATA))
        topic_type = nested(request_type, "topics")
        wanted = tuple(make(topic_type, name=name, topic_id=None) for name in topics)
        answer = connection.ask(
            make(
                request_type,
                topics=wanted,
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )
        )
        brokers = {int(b.node_id): Address(b.host, int(b.port)) for b in answer.brokers}
        leaders = {}
        for topic in answer.topics:
            code = error_of(topic.error_code)
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(topic.name)
            if code is ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise UsageError(f"`{topic.name}` is no topic name", "check `subscribe`")
            if code is not ErrorCode.NONE:
                raise TryAgain(f"topic `{topic.name}`: {code.name}")
            topic_id = TopicId(bytes_of(field(topic, "topic_id", None)))
            for partition in topic.partitions:
                leaders[TopicPartition(topic.name, int(partition.partition_index))] = Leader(
                    topic_id, int(partition.leader_id), field(partition, "leader_epoch", NO_EPOCH)
                )
        self._metadata = Metadata(brokers, leaders)
        return self._metadata

    def compacted_topics(self, topics: Sequence[str]) -> frozenset[str]:
        """Those of the topics whose `cleanup.policy` contains `compact`."""
        return self.patiently("topic configs", lambda: self._compacted(topics))

    def _compacted(self, topics: Sequence[str]) -> frozenset[str]:
        connection = self._any_connection()
        version = connection.version_of(ApiKey.DESCRIBE_CONFIGS)
        request_type = request_class(ApiKey.DESCRIBE_CONFIGS, version)
        resource_type = nested(request_type, "resources")
        resources = tuple(
            make(
                resource_type,
                resource_type=_TOPIC_RESOURCE,
                resource_name=topic,
                configuration_keys=("cleanup.policy",),
            )
            for topic in topics
        )
        answer = connection.ask(
            make(
                request_type,
                resources=resources,
                include_synonyms=False,
                include_documentation=False,
            )
        )
        return frozenset(
            result.resource_name
            for result in answer.results
            for config in result.configs or ()
            if config.name == "cleanup.policy" and "compact" in (config.value or "")
        )

    # Offsets -------------------------------------------------------------------------------

    def list_offsets(
        self, partitions: Sequence[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        """The offset of `EARLIEST` or `LATEST` for each partition, from its leader.

        Waits while a new leader does not know its high watermark yet. Raises `UsageError` for a
        missing topic, `ClusterUnavailable`.
        """
        found: dict[TopicPartition, int] = {}
        topics = sorted({tp.topic for tp in partitions})

        def ask_the_rest() -> dict[TopicPartition, int]:
            missing = [tp for tp in partitions if tp not in found]
            self.refresh(topics)
            refused = self._list_offsets_once(missing, timestamp, found)
            if refused:
                raise TryAgain(", ".join(refused))
            return found

        return self.patiently(f"offsets of {', '.join(topics)}", ask_the_rest)

    def _list_offsets_once(
        self,
        partitions: Sequence[TopicPartition],
        timestamp: int,
        found: dict[TopicPartition, int],
    ) -> list[str]:
        """Asks each leader once; fills `found` and returns what the others said."""
        refused = []
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in partitions:
            by_leader.setdefault(self.leader_of(tp).node_id, []).append(tp)
        for node_id, led in by_leader.items():
            connection = self.connection_to(node_id)
            answer = connection.ask(self._list_offsets_request(connection, led, timestamp))
            for topic in answer.topics:
                for partition in topic.partitions:
                    tp = TopicPartition(topic.name, int(partition.partition_index))
                    code = error_of(partition.error_code)
                    if code is ErrorCode.NONE:
                        found[tp] = int(partition.offset)
                    elif code in TRY_AGAIN:
                        refused.append(f"{tp}: {code.name}")
                    else:
                        raise ClusterUnavailable(f"offsets of `{tp}`: {code.name}")
        return refused

    def _list_offsets_request(
        self, connection: BrokerConnection, partitions: Sequence[TopicPartition], timestamp: int
    ) -> Any:
        version = connection.version_of(ApiKey.LIST_OFFSETS)
        request_type = request_class(ApiKey.LIST_OFFSETS, version)
        topic_type = nested(request_type, "topics")
        partition_type = nested(topic_type, "partitions")
        by_topic: dict[str, list[Any]] = {}
        for tp in partitions:
            by_topic.setdefault(tp.topic, []).append(
                make(
                    partition_type,
                    partition_index=tp.partition,
                    current_leader_epoch=self.leader_of(tp).epoch,
                    timestamp=timestamp,
                )
            )
        return make(
            request_type,
            replica_id=-1,
            isolation_level=READ_UNCOMMITTED,
            topics=tuple(
                make(topic_type, name=name, partitions=tuple(items))
                for name, items in by_topic.items()
            ),
        )

    # Connections and patience ----------------------------------------------------------------

    def leader_of(self, tp: TopicPartition) -> Leader:
        """Who leads the partition by the last metadata. Raises `TryAgain` when nobody does."""
        leader = self._metadata.leaders.get(tp)
        if leader is None:
            raise TryAgain(f"`{tp}` is not in the cluster's metadata")
        if leader.node_id == NO_LEADER:
            raise TryAgain(f"`{tp}` has no leader")
        return leader

    def connection_to(self, node_id: int) -> BrokerConnection:
        """An open connection to a broker of the last metadata."""
        address = self._metadata.brokers.get(node_id)
        if address is None:
            raise TryAgain(f"broker {node_id} is not in the cluster's metadata")
        return self._connect(address)

    def drop(self, connection: BrokerConnection) -> None:
        """Closes a connection that is broken or has answers under way that nobody wants."""
        connection.close()
        self._connections.pop(connection.address, None)

    def _connect(self, address: Address) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None:
            connection = BrokerConnection(address, timeout_s=self._timeout_s)
            self._connections[address] = connection
        return connection

    def _any_connection(self) -> BrokerConnection:
        """A connection to any broker that accepts one, known brokers first."""
        known = (*self._metadata.brokers.values(), *self._bootstrap)
        refusals = []
        for address in dict.fromkeys(known):
            try:
                return self._connect(address)
            except ClusterUnavailable as error:
                refusals.append(str(error))
        raise ClusterUnavailable("; ".join(refusals))

    def patiently(self, what: str, attempt: Callable[[], T]) -> T:
        """Repeats `attempt` while it fails in ways that pass.

        Raises `ClusterUnavailable` with the last failure once `retry_s` are over, and `UsageError`
        for a topic that stays unknown.
        """
        deadline = time.monotonic() + self._retry_s
        first_contact = time.monotonic() + min(_FIRST_CONTACT_S, self._retry_s)
        unknown_topic = time.monotonic() + min(_UNKNOWN_TOPIC_S, self._retry_s)
        while True:
            try:
                return attempt()
            except (TryAgain, ClusterUnavailable, MalformedFrame) as error:
                if not isinstance(error, TryAgain):
                    self.close()
                if isinstance(error, UnknownTopic) and time.monotonic() > unknown_topic:
                    raise UsageError(
                        f"topic `{error.topic}` does not exist",
                        f"the brokers asked were {self._asked()}; check the name in `subscribe`",
                    ) from error
                last_chance = deadline if self._metadata.brokers else first_contact
                if time.monotonic() > last_chance:
                    raise ClusterUnavailable(f"no {what} from {self._asked()}: {error}") from error
            time.sleep(_BACKOFF_S)

    def _asked(self) -> str:
        return ", ".join(f"`{address}`" for address in self._bootstrap)
