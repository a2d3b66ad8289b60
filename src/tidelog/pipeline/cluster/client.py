"""A small reading client: who leads what, and from which offset to which.

What a batch job needs and nothing more: `metadata`, `list_offsets`, `compacted_topics`, and
connections to leaders for `reader.py`, which does the reading.

Leaders change. Whatever a broker answers or fails to answer, a call tries again with fresh metadata
when that may help, and gives up when nothing went forward for `retry_s`, saying what it heard
last. Nothing here is asked of a group coordinator, and nothing is written.

Left out: consumer groups beyond a commit (`group_progress.py`), TLS and SASL.
Source: KIP-207 (OFFSET_NOT_AVAILABLE), KIP-320 (leader epochs), KIP-516 (topic ids).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeVar

from tidelog.errors import ErrorCode, MalformedFrame, UsageError
from tidelog.model import NO_EPOCH, NO_LEADER, TopicId, TopicPartition
from tidelog.pipeline.cluster.connection import BrokerConnection
from tidelog.pipeline.cluster.requests import (
    cleanup_policy_request,
    list_offsets_request,
    metadata_request,
)
from tidelog.pipeline.errors import ClusterUnavailable
from tidelog.pipeline.values import EARLIEST, LATEST, Address
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.values import bytes_of, error_of

T = TypeVar("T")

_BACKOFF_S: Final = 0.1
_FIRST_CONTACT_S: Final = 5.0
"""How long a cluster that never answered is tried: more likely a wrong address than a fault."""
_UNKNOWN_TOPIC_S: Final = 1.0
"""How long an unknown topic is asked for: a new one is not known to all brokers at once."""

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

    def metadata(self, topics: Sequence[str] | None) -> Metadata:
        """Who leads the partitions of these topics; `None` for all topics there are.

        Raises `UsageError` for a topic that does not exist, `ClusterUnavailable`.
        """
        return self.patiently("metadata", lambda: self.refresh(topics))

    def knows(self, tp: TopicPartition) -> bool:
        """Whether the last metadata named the partition."""
        return tp in self._metadata.leaders

    def topic_ids(self) -> dict[str, TopicId]:
        """The ids of the topics of the last metadata."""
        return {tp.topic: leader.topic_id for tp, leader in self._metadata.leaders.items()}

    def refresh(self, topics: Sequence[str] | None) -> Metadata:
        """Asks once. Raises `TryAgain`, `ClusterUnavailable`; `UsageError` for an illegal name."""
        connection = self.any_connection()
        answer = connection.ask(metadata_request(connection.version_of(ApiKey.METADATA), topics))
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
        connection = self.any_connection()
        version = connection.version_of(ApiKey.DESCRIBE_CONFIGS)
        answer = connection.ask(cleanup_policy_request(version, topics))
        return frozenset(
            result.resource_name
            for result in answer.results
            for config in result.configs or ()
            if config.name == "cleanup.policy" and "compact" in (config.value or "")
        )

    # Offsets -------------------------------------------------------------------------------

    def list_offsets(
        self, partitions: Sequence[TopicPartition], timestamp: int, *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """As `offsets_for_times`, with the same timestamp for all partitions."""
        timestamps = dict.fromkeys(partitions, timestamp)
        return self.offsets_for_times(timestamps, read_committed=read_committed)

    def earliest_and_latest(
        self, partitions: Sequence[TopicPartition], *, read_committed: bool
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """What each partition has now: its first offset, and its end, exclusive. Raises as
        `offsets_for_times` does."""
        earliest = self.list_offsets(partitions, EARLIEST)
        return earliest, self.list_offsets(partitions, LATEST, read_committed=read_committed)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """For each partition the offset of a timestamp (ms since 1970), of `EARLIEST` or of
        `LATEST`, from its leader; -1 where no record is that late.

        Waits while a new leader does not know its high watermark yet. Raises `UsageError` for a
        missing topic, `ClusterUnavailable`.
        """
        found: dict[TopicPartition, int] = {}
        topics = sorted({tp.topic for tp in timestamps})

        def ask_the_rest() -> dict[TopicPartition, int]:
            missing = {tp: each for tp, each in timestamps.items() if tp not in found}
            if not missing.keys() <= self._metadata.leaders.keys():
                self.refresh(topics)
            refused = self._list_offsets_once(missing, found, read_committed=read_committed)
            if refused:
                raise TryAgain(", ".join(refused))
            return found

        return self.patiently(f"offsets of {', '.join(topics)}", ask_the_rest)

    def _list_offsets_once(
        self,
        wanted: Mapping[TopicPartition, int],
        found: dict[TopicPartition, int],
        *,
        read_committed: bool,
    ) -> list[str]:
        """Asks each leader once; fills `found` and returns what the others said."""
        refused = []
        by_leader: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        for tp, timestamp in wanted.items():
            leader = self.leader_of(tp)
            by_leader.setdefault(leader.node_id, {})[tp] = timestamp, leader.epoch
        for node_id, led in by_leader.items():
            connection = self.connection_to(node_id)
            version = connection.version_of(ApiKey.LIST_OFFSETS)
            answer = connection.ask(
                list_offsets_request(version, led, read_committed=read_committed)
            )
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
        return self.connect(address)

    def drop(self, connection: BrokerConnection) -> None:
        """Closes a connection that is broken or has answers under way that nobody wants."""
        connection.close()
        self._connections.pop(connection.address, None)

    def connect(self, address: Address) -> BrokerConnection:
        """An open connection to a broker. Raises `ClusterUnavailable`."""
        connection = self._connections.get(address)
        if connection is None:
            connection = BrokerConnection(address, timeout_s=self._timeout_s)
            self._connections[address] = connection
        return connection

    def any_connection(self) -> BrokerConnection:
        """A connection to any broker that accepts one, known brokers first."""
        known = (*self._metadata.brokers.values(), *self._bootstrap)
        refusals = []
        for address in dict.fromkeys(known):
            try:
                return self.connect(address)
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
                # Who leads what may be the reason; the addresses stay, to ask again.
                self._metadata = Metadata(self._metadata.brokers, {})
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
