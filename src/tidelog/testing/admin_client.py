"""A blocking administrator's client over plain sockets: for the command line and for tests.

It needs nothing but the bootstrap addresses. A request that any broker can answer goes to the
first that does; one that a broker refuses for a passing reason (no controller yet, a leader that
has just moved) is tried again until the deadline. Errors that stay are `AdminError`, with Kafka's
code; no answer at all is `Unreachable`.

Not for several threads.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tidelog.errors import ErrorCode
from tidelog.kraft.messages import Voter
from tidelog.model import METADATA_TOPIC, Uuid, uuid_to_text
from tidelog.testing.asking import (
    PASSING,
    Address,
    AdminError,
    Asking,
    check,
    request,
    request_type,
)
from tidelog.testing.descriptions import (
    ClusterDescription,
    NodeDescription,
    PartitionDescription,
    QuorumDescription,
    ReplicaDescription,
    TopicDescription,
    VoterDescription,
)
from tidelog.testing.replica_logs import ask_replica_logs
from tidelog.testing.waiting import POLL_S, Deadline
from tidelog.testing.wire_client import Unreachable
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make, nested
from tidelog.wire.values import bytes_of, error_of, millis, uuid_of

__all__ = ["AdminClient", "AdminError", "Unreachable"]

_TOPIC_RESOURCE: Final = 2
_SET: Final = 0
_DELETE: Final = 1
_DYNAMIC_TOPIC: Final = 1
_PAGE_PARTITIONS: Final = 2000
VOTER_CHANGE_MS: Final = 30_000
"""How long the quorum's leader may take to commit a new voter set."""


class AdminClient:
    """See the module's words. A context manager; closing it ends its connections."""

    def __init__(self, bootstrap: Sequence[str], *, timeout_s: float = 10.0) -> None:
        """`bootstrap` holds `host:port`; nothing is connected until the first question."""
        self._asking = Asking(bootstrap, timeout_s)

    def __enter__(self) -> "AdminClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all connections."""
        self._asking.close()

    # Cluster ----------------------------------------------------------------------------------

    def describe_cluster(self, address: Address | None = None) -> ClusterDescription:
        """All registered brokers, as some broker or the one at `address` sees them."""
        question = request(
            ApiKey.DESCRIBE_CLUSTER,
            include_cluster_authorized_operations=False,
            endpoint_type=1,
            include_fenced_brokers=True,
        )
        if address is None:
            response = self._asking.any(question)
        else:
            response = self._asking.node(address, question)
        check(error_of(response.error_code), response.error_message, "describe the cluster")
        nodes = [
            NodeDescription(int(b.broker_id), b.host, int(b.port), b.rack, bool(b.is_fenced))
            for b in response.brokers
        ]
        nodes.sort(key=lambda node: node.node_id)
        return ClusterDescription(response.cluster_id, tuple(nodes))

    def describe_quorum(self) -> QuorumDescription:
        """The metadata quorum, as its leader sees it."""
        key = ApiKey.DESCRIBE_QUORUM
        topic_type = nested(request_type(key), "topics")
        partition = make(nested(topic_type, "partitions"), partition_index=0)
        topic = make(topic_type, topic_name=METADATA_TOPIC, partitions=(partition,))
        response = self._asking.any(request(key, topics=(topic,)))
        check(error_of(response.error_code), response.error_message, "describe the quorum")
        found = response.topics[0].partitions[0]
        check(error_of(found.error_code), found.error_message, "describe the quorum")
        ends = {int(v.replica_id): int(v.log_end_offset) for v in found.current_voters}
        leader_end = ends.get(int(found.leader_id), int(found.high_watermark))

        def described(replicas: Iterable[Any]) -> tuple[VoterDescription, ...]:
            return tuple(
                VoterDescription(
                    int(row.replica_id),
                    int(row.log_end_offset),
                    max(0, leader_end - int(row.log_end_offset)),
                    uuid_to_text(bytes_of(row.replica_directory_id)),
                    int(row.last_fetch_timestamp),
                    int(row.last_caught_up_timestamp),
                )
                for row in replicas
            )

        return QuorumDescription(
            leader_id=int(found.leader_id),
            leader_epoch=int(found.leader_epoch),
            high_watermark=int(found.high_watermark),
            voters=described(found.current_voters),
            observers=described(found.observers),
        )

    def add_voter(self, voter: Voter) -> None:
        """Makes a controller that follows the quorum a voter (`kraft.version` 1)."""
        key = ApiKey.ADD_RAFT_VOTER
        listener_type = nested(request_type(key), "listeners")
        listeners = tuple(
            make(listener_type, name=end.listener, host=end.host, port=end.port)
            for end in voter.endpoints
        )
        question = request(
            key,
            cluster_id=None,
            timeout=millis(VOTER_CHANGE_MS),
            voter_id=voter.node_id,
            voter_directory_id=uuid_of(voter.directory_id),
            listeners=listeners,
            ack_when_committed=True,
        )
        self._asking.until_done(question, lambda it: it, f"add controller {voter.node_id}")

    def remove_voter(self, node_id: int, directory_id: Uuid) -> None:
        """Takes a voter out of the quorum (`kraft.version` 1)."""
        question = request(
            ApiKey.REMOVE_RAFT_VOTER,
            cluster_id=None,
            voter_id=node_id,
            voter_directory_id=uuid_of(directory_id),
        )
        self._asking.until_done(question, lambda it: it, f"remove controller {node_id}")

    def unregister_broker(self, node_id: int) -> None:
        """Has the cluster forget a broker; one that runs registers again."""
        question = request(ApiKey.UNREGISTER_BROKER, broker_id=node_id)
        self._asking.until_done(
            question,
            lambda it: it,
            f"unregister broker {node_id}",
            done_before=ErrorCode.BROKER_ID_NOT_REGISTERED,
        )

    # Topics -----------------------------------------------------------------------------------

    def list_topics(self) -> list[str]:
        """The names of all topics, sorted."""
        question = request(
            ApiKey.METADATA,
            topics=None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        return sorted(str(topic.name) for topic in self._asking.any(question).topics)

    def describe_topics(
        self,
        names: Sequence[str],
        *,
        replica_logs: bool = False,
        configs: bool = False,
        moves: bool = False,
    ) -> list[TopicDescription]:
        """Topics by name. `replica_logs` asks every replica for its offsets, `configs` adds the
        topics' overrides, `moves` the replicas that come and go. Raises `AdminError` for a topic
        that does not exist."""
        described = [_described_topic(*found) for found in self._topic_pages(names)]
        if moves:
            described = self._with_moves(described)
        if configs:
            overrides = self.topic_overrides([topic.name for topic in described])
            described = [replace(topic, configs=overrides[topic.name]) for topic in described]
        if replica_logs:
            described = self._with_replica_logs(described)
        return described

    def describe_topic(self, name: str, *, replica_logs: bool = False) -> TopicDescription:
        """One topic."""
        return self.describe_topics([name], replica_logs=replica_logs)[0]

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] = (),
    ) -> None:
        """Creates a topic; -1 is the cluster's default. `assignment` lists the replicas of each
        partition in place of both numbers."""
        key = ApiKey.CREATE_TOPICS
        topic_type = nested(request_type(key), "topics")
        assigned = nested(topic_type, "assignments")
        config_type = nested(topic_type, "configs")
        topic = make(
            topic_type,
            name=name,
            num_partitions=-1 if assignment else partitions,
            replication_factor=-1 if assignment else replication_factor,
            assignments=tuple(
                make(assigned, partition_index=index, broker_ids=tuple(replicas))
                for index, replicas in enumerate(assignment)
            ),
            configs=tuple(make(config_type, name=n, value=v) for n, v in (configs or {}).items()),
        )
        question = request(
            key,
            topics=(topic,),
            timeout=millis(int(self._asking.timeout_s * 1000)),
            validate_only=False,
        )
        self._asking.until_done(
            question,
            lambda r: r.topics[0],
            f"create topic `{name}`",
            done_before=ErrorCode.TOPIC_ALREADY_EXISTS,
        )

    def delete_topic(self, name: str) -> None:
        """Deletes a topic."""
        key = ApiKey.DELETE_TOPICS
        topic = make(nested(request_type(key), "topics"), name=name, topic_id=None)
        question = request(key, topics=(topic,), timeout=millis(int(self._asking.timeout_s * 1000)))
        self._asking.until_done(
            question,
            lambda r: r.responses[0],
            f"delete topic `{name}`",
            done_before=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )

    def delete_records(self, name: str, partition: int, before_offset: int) -> int:
        """Deletes what is below an offset (-1: all that is committed) on every alive replica;
        returns the lowest log start of these. Raises `AdminError`."""
        what = f"delete records of `{name}-{partition}` below {before_offset}"
        deadline = Deadline(self._asking.timeout_s)
        while True:
            code, low_watermark = ErrorCode.LEADER_NOT_AVAILABLE, -1
            leader = self._leader_of(name, partition, what)
            if leader is not None:
                question = _deletion(name, partition, before_offset, deadline.left_s())
                try:
                    response = self._asking.node((leader.host, leader.port), question)
                except Unreachable:
                    code = ErrorCode.NETWORK_EXCEPTION
                else:
                    row = response.topics[0].partitions[0]
                    code, low_watermark = error_of(row.error_code), int(row.low_watermark)
            if code not in PASSING or deadline.passed():
                check(code, None, what)
                return low_watermark
            time.sleep(POLL_S)

    def _leader_of(self, name: str, partition: int, what: str) -> NodeDescription | None:
        found = [p for p in self.describe_topic(name).partitions if p.partition == partition]
        if not found:
            check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition", what)
        return self.describe_cluster().node(found[0].leader)

    def create_partitions(self, name: str, count: int) -> None:
        """Grows a topic to this many partitions."""
        key = ApiKey.CREATE_PARTITIONS
        topic = make(nested(request_type(key), "topics"), name=name, count=count, assignments=None)
        question = request(
            key,
            topics=(topic,),
            timeout=millis(int(self._asking.timeout_s * 1000)),
            validate_only=False,
        )
        self._asking.until_done(question, lambda r: r.results[0], f"add partitions to `{name}`")

    def alter_topic_configs(
        self, name: str, set_: Mapping[str, str], delete: Sequence[str] = ()
    ) -> None:
        """Sets and deletes overrides of a topic."""
        key = ApiKey.INCREMENTAL_ALTER_CONFIGS
        resource_type = nested(request_type(key), "resources")
        config_type = nested(resource_type, "configs")
        changes = [
            make(config_type, name=n, config_operation=_SET, value=v) for n, v in set_.items()
        ]
        changes += [make(config_type, name=n, config_operation=_DELETE, value=None) for n in delete]
        resource = make(
            resource_type,
            resource_type=_TOPIC_RESOURCE,
            resource_name=name,
            configs=tuple(changes),
        )
        question = request(key, resources=(resource,), validate_only=False)
        self._asking.until_done(question, lambda r: r.responses[0], f"configure `{name}`")

    def topic_overrides(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """The topics' own configurations, without the defaults."""
        return {
            name: {
                str(config.name): str(config.value)
                for config in configs
                if int(config.config_source) == _DYNAMIC_TOPIC
            }
            for name, configs in self._topic_configs(names).items()
        }

    def topic_config_names(self, name: str) -> list[str]:
        """The configurations that the cluster knows for a topic, set or not."""
        return [str(config.name) for config in self._topic_configs([name])[name]]

    def _topic_configs(self, names: Sequence[str]) -> dict[str, Sequence[Any]]:
        key = ApiKey.DESCRIBE_CONFIGS
        resource_type = nested(request_type(key), "resources")
        resources = tuple(
            make(
                resource_type,
                resource_type=_TOPIC_RESOURCE,
                resource_name=name,
                configuration_keys=None,
            )
            for name in names
        )
        question = request(
            key, resources=resources, include_synonyms=False, include_documentation=False
        )
        described: dict[str, Sequence[Any]] = {}
        for found in self._asking.any(question).results:
            name = str(found.resource_name)
            check(error_of(found.error_code), found.error_message, f"describe `{name}`")
            described[name] = found.configs
        return described

    def _topic_pages(self, names: Sequence[str]) -> list[tuple[Any, list[Any]]]:
        """Each topic's entity and the partitions from all pages."""
        key = ApiKey.DESCRIBE_TOPIC_PARTITIONS
        topic_type = nested(request_type(key), "topics")
        cursor_type = nested(request_type(key), "cursor")
        topics = tuple(make(topic_type, name=name) for name in sorted(set(names)))
        found: dict[str, tuple[Any, list[Any]]] = {}
        cursor = None
        while True:
            question = request(
                key, topics=topics, response_partition_limit=_PAGE_PARTITIONS, cursor=cursor
            )
            response = self._asking.any(question)
            for topic in response.topics:
                check(error_of(topic.error_code), None, f"describe topic `{topic.name}`")
                found.setdefault(str(topic.name), (topic, []))[1].extend(topic.partitions)
            behind = response.next_cursor
            if behind is None:
                return list(found.values())
            cursor = make(
                cursor_type, topic_name=behind.topic_name, partition_index=behind.partition_index
            )

    def _with_moves(self, topics: list[TopicDescription]) -> list[TopicDescription]:
        # While a partition moves, some replica of it is not in sync.
        unsettled = {
            topic.name: tuple(p.partition for p in topic.partitions if {*p.replicas} - {*p.isr})
            for topic in topics
        }
        key = ApiKey.LIST_PARTITION_REASSIGNMENTS
        topic_type = nested(request_type(key), "topics")
        wanted = tuple(
            make(topic_type, name=name, partition_indexes=numbers)
            for name, numbers in unsettled.items()
            if numbers
        )
        timeout = millis(int(self._asking.timeout_s * 1000))
        asked = request(key, topics=wanted, timeout=timeout)
        answer = self._asking.perhaps(asked) if wanted else None
        if answer is None:
            return topics
        moves = {
            (str(topic.name), int(row.partition_index)): row
            for topic in answer.topics
            for row in topic.partitions
        }

        def with_move(name: str, partition: PartitionDescription) -> PartitionDescription:
            row = moves.get((name, partition.partition))
            if row is None:
                return partition
            adding, removing = _ids(row.adding_replicas), _ids(row.removing_replicas)
            return replace(partition, adding=adding, removing=removing)

        return [
            replace(topic, partitions=tuple(with_move(topic.name, p) for p in topic.partitions))
            for topic in topics
        ]

    def _with_replica_logs(self, topics: list[TopicDescription]) -> list[TopicDescription]:
        cluster = self.describe_cluster()
        hosted: dict[int, list[tuple[str, int]]] = {}
        for topic in topics:
            for partition in topic.partitions:
                for node_id in partition.replicas:
                    hosted.setdefault(node_id, []).append((topic.name, partition.partition))
        logs: dict[tuple[int, str, int], ReplicaDescription] = {}
        for node_id, partitions in hosted.items():
            node = cluster.node(node_id)
            if node is not None and not node.fenced:
                answers = ask_replica_logs(self._asking, node, partitions)
                logs |= {(node_id, *key): described for key, described in answers.items()}

        def with_logs(name: str, partition: PartitionDescription) -> PartitionDescription:
            return replace(
                partition,
                replica_logs=tuple(
                    logs.get((i, name, partition.partition), ReplicaDescription(i))
                    for i in partition.replicas
                ),
            )

        return [
            replace(topic, partitions=tuple(with_logs(topic.name, p) for p in topic.partitions))
            for topic in topics
        ]


def _deletion(name: str, partition: int, before_offset: int, timeout_s: float) -> Any:
    key = ApiKey.DELETE_RECORDS
    topic_type = nested(request_type(key), "topics")
    wish = make(nested(topic_type, "partitions"), partition_index=partition, offset=before_offset)
    topic = make(topic_type, name=name, partitions=(wish,))
    # The answer of a leader that waits in vain must still arrive.
    timeout = millis(int(timeout_s * 1000 * 3 / 4))
    return request(key, topics=(topic,), timeout=timeout)


def _ids(nodes: Iterable[int] | None) -> tuple[int, ...]:
    return tuple(int(node) for node in nodes or ())


def _described_partition(row: Any) -> PartitionDescription:
    return PartitionDescription(
        partition=int(row.partition_index),
        leader=int(row.leader_id),
        leader_epoch=int(row.leader_epoch),
        replicas=_ids(row.replica_nodes),
        isr=_ids(row.isr_nodes),
        eligible_leaders=_ids(row.eligible_leader_replicas),
        offline=_ids(row.offline_replicas),
    )


def _described_topic(topic: Any, rows: Iterable[Any]) -> TopicDescription:
    partitions = sorted(map(_described_partition, rows), key=lambda p: p.partition)
    return TopicDescription(
        name=str(topic.name),
        topic_id=uuid_to_text(bytes_of(topic.topic_id)),
        internal=bool(topic.is_internal),
        partitions=tuple(partitions),
    )
