"""A blocking administrator's client: for the command line and for tests.

It needs nothing but the bootstrap addresses. A request that any broker can answer goes to the
first that does; one that a broker refuses for a passing reason (no controller yet, a leader that
has just moved) is tried again until the deadline. Errors that stay are `AdminError`, with Kafka's
code; no answer at all is `Unreachable`.

Not for several threads.

Source: KIP-195 (CreatePartitions), KIP-339 (IncrementalAlterConfigs), KIP-455 (reassignments),
KIP-853 (voters).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Self

from tidelog.client.acls import Acls
from tidelog.client.blocking import Brokers, now_ms, retrying
from tidelog.client.core.calls import Call, request
from tidelog.client.core.descriptions import (
    ClusterDescription,
    FeatureDescription,
    NodeDescription,
    PartitionDescription,
    QuorumDescription,
    ReplicaDescription,
    TopicDescription,
)
from tidelog.client.core.errors import AdminError, Retry, Unreachable, check, refusal
from tidelog.client.core.partitions import (
    DEBUGGING_CONSUMER,
    high_watermarks,
    list_offsets,
    metadata_request,
    read_offsets,
)
from tidelog.client.core.values import EARLIEST, LATEST, Address, parse_addresses
from tidelog.client.groups import Groups
from tidelog.client.quotas import Quotas
from tidelog.client.security_options import PLAINTEXT, ClientSecurity
from tidelog.client.transactions import Transactions
from tidelog.client.users import Users
from tidelog.errors import ErrorCode
from tidelog.model import METADATA_TOPIC, NO_EPOCH, Endpoint, TopicPartition, Uuid
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis, uuid_of

__all__ = ["AdminClient", "AdminError", "Unreachable"]

_BROKERS: Final = 1
_TOPIC_RESOURCE: Final = 2
_SET: Final = 0
_DELETE: Final = 1
_DYNAMIC_TOPIC: Final = 1
_PAGE_PARTITIONS: Final = 2000
VOTER_CHANGE_MS: Final = 30_000
"""How long the quorum's leader may take to commit a new voter set."""


class AdminClient:
    """See the module's docstring. A context manager; closing it ends its connections."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        *,
        timeout_s: float = 10.0,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """`bootstrap` holds `host:port`; nothing is connected until the first request. Raises
        `UsageError` for a malformed address."""
        addresses = parse_addresses(bootstrap)
        # Whether one broker may be down while another answers.
        self._has_choice = len(addresses) > 1
        # How long a request may take, retries included; and the same in requests.
        self._timeout_s = timeout_s
        self._timeout = millis(int(timeout_s * 1000))
        # The connections.
        self._brokers = Brokers(
            addresses, client_id="tidelog-admin", timeout_s=timeout_s, security=security
        )
        # Consumer groups, which their coordinators answer for.
        self.groups = Groups(self._brokers)
        # Access control entries.
        self.acls = Acls(self._brokers)
        # Quotas of users, client ids and addresses.
        self.quotas = Quotas(self._brokers)
        # Users of SCRAM.
        self.users = Users(self._brokers)
        # Transactions, of which coordinators and leaders know parts.
        self.transactions = Transactions(self._brokers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all connections."""
        self._brokers.close()

    # Cluster ----------------------------------------------------------------------------------

    def describe_cluster(self, address: tuple[str, int] | None = None) -> ClusterDescription:
        """All registered brokers, as some broker or the one at `address` sees them."""
        call = request(
            ApiKey.DESCRIBE_CLUSTER,
            include_cluster_authorized_operations=False,
            endpoint_type=_BROKERS,
            include_fenced_brokers=True,
        )
        if address is None:
            return ClusterDescription.read(self._brokers.any(call))
        return ClusterDescription.read(self._brokers.node(Address(*address), call))

    def describe_features(self, address: tuple[str, int]) -> FeatureDescription:
        """What the broker at `address` can run, and what the cluster runs."""
        call = request(
            ApiKey.API_VERSIONS, client_software_name="tidelog", client_software_version="1"
        )
        return FeatureDescription.read(self._brokers.node(Address(*address), call))

    def describe_quorum(self) -> QuorumDescription:
        """The metadata quorum, as its leader sees it."""
        topic = {"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}
        call = request(ApiKey.DESCRIBE_QUORUM, topics=[topic])
        return QuorumDescription.read(self._brokers.any(call))

    def add_voter(self, node_id: int, directory_id: Uuid, listeners: Sequence[Endpoint]) -> None:
        """Makes a controller that follows the quorum a voter (`kraft.version` 1); `listeners` are
        its controller listeners."""
        call = request(
            ApiKey.ADD_RAFT_VOTER,
            cluster_id=None,
            timeout=millis(VOTER_CHANGE_MS),
            voter_id=node_id,
            voter_directory_id=uuid_of(directory_id),
            listeners=[{"name": e.listener, "host": e.host, "port": e.port} for e in listeners],
            ack_when_committed=True,
        )
        self._change(call, f"add controller {node_id}")

    def remove_voter(self, node_id: int, directory_id: Uuid) -> None:
        """Takes a voter out of the quorum (`kraft.version` 1)."""
        call = request(
            ApiKey.REMOVE_RAFT_VOTER,
            cluster_id=None,
            voter_id=node_id,
            voter_directory_id=uuid_of(directory_id),
        )
        self._change(call, f"remove controller {node_id}")

    def unregister_broker(self, node_id: int) -> None:
        """Removes the registration of a broker; one that runs registers again."""
        self._change(
            request(ApiKey.UNREGISTER_BROKER, broker_id=node_id),
            f"unregister broker {node_id}",
            done_before=ErrorCode.BROKER_ID_NOT_REGISTERED,
        )

    # Topics -----------------------------------------------------------------------------------

    def list_topics(self) -> list[str]:
        """The names of all topics, sorted."""
        return sorted(str(topic.name) for topic in self._brokers.any(metadata_request(None)).topics)

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
        described = self._described(names)
        if moves:
            described = self._with_moves(described)
        if configs:
            rows = self._configs([topic.name for topic in described])
            described = [
                replace(topic, configs=_overrides(rows[topic.name])) for topic in described
            ]
        return self._with_replica_logs(described) if replica_logs else described

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
        topic = {
            "name": name,
            "num_partitions": -1 if assignment else partitions,
            "replication_factor": -1 if assignment else replication_factor,
            "assignments": [
                {"partition_index": index, "broker_ids": list(replicas)}
                for index, replicas in enumerate(assignment)
            ],
            "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
        }
        self._change(
            self._of_topic(ApiKey.CREATE_TOPICS, topic),
            f"create topic `{name}`",
            lambda answer: answer.topics[0],
            done_before=ErrorCode.TOPIC_ALREADY_EXISTS,
        )

    def delete_topic(self, name: str) -> None:
        """Deletes a topic."""
        self._change(
            self._of_topic(ApiKey.DELETE_TOPICS, {"name": name, "topic_id": None}),
            f"delete topic `{name}`",
            lambda answer: answer.responses[0],
            done_before=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )

    def create_partitions(self, name: str, count: int) -> None:
        """Grows a topic to this many partitions."""
        topic = {"name": name, "count": count, "assignments": None}
        call = self._of_topic(ApiKey.CREATE_PARTITIONS, topic)
        self._change(call, f"add partitions to `{name}`", lambda answer: answer.results[0])

    def delete_records(self, name: str, partition: int, before_offset: int) -> int:
        """Deletes what is below an offset (-1: all that is committed) on every alive replica;
        returns the lowest log start of these. Raises `AdminError`."""
        tp = TopicPartition(name, partition)
        what = f"delete records of `{tp}` below {before_offset}"
        row = {"partition_index": partition, "offset": before_offset}
        topics = [{"name": name, "partitions": [row]}]
        retry = Retry(now_ms(), self._timeout_s)

        def attempt() -> int:
            leader = self._leader_of(tp, what)
            # The answer of a leader that waits in vain must still arrive.
            timeout = millis(int(retry.left_s(now_ms()) * 1000 * 3 / 4))
            call = request(ApiKey.DELETE_RECORDS, topics=topics, timeout=timeout)
            try:
                result = self._brokers.node(leader, call).topics[0].partitions[0]
            except Unreachable:
                raise refusal(ErrorCode.NETWORK_EXCEPTION, None, what) from None
            check(error_of(result.error_code), None, what)
            return int(result.low_watermark)

        return retrying(attempt, retry)

    # Configurations ---------------------------------------------------------------------------

    def alter_topic_configs(
        self, name: str, set_: Mapping[str, str], delete: Sequence[str] = ()
    ) -> None:
        """Sets and deletes overrides of a topic."""
        changes: list[tuple[str, int, str | None]] = [(n, _SET, v) for n, v in set_.items()]
        changes += [(n, _DELETE, None) for n in delete]
        configs = [{"name": n, "config_operation": o, "value": v} for n, o, v in changes]
        resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": name, "configs": configs}
        call = request(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[resource], validate_only=False)
        self._change(call, f"configure `{name}`", lambda answer: answer.responses[0])

    def topic_config_names(self, name: str) -> list[str]:
        """The configurations that the cluster knows for a topic, set or not."""
        return [str(row.name) for row in self._configs([name])[name]]

    # Inside -----------------------------------------------------------------------------------

    def _change(
        self,
        call: Call[Any],
        what: str,
        result_of: Callable[[Any], Any] = lambda answer: answer,
        *,
        done_before: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """Asks for a change until its one result is not a passing error. Raises `AdminError` for an
        error that stays. A change may take long, so it goes to a broker that is known to answer.
        A repeated change may have been made before: `done_before` is the code of that."""
        retry = Retry(now_ms(), self._timeout_s)
        if self._has_choice:
            self.describe_cluster()
        fine = {ErrorCode.NONE}

        def attempt() -> None:
            result = result_of(self._brokers.any(call, attempt_s=self._timeout_s))
            code = error_of(result.error_code)
            if code not in fine:
                fine.add(done_before)
                check(code, result.error_message, what)

        retrying(attempt, retry)

    def _of_topic(self, key: ApiKey, topic: Mapping[str, object]) -> Call[Any]:
        return request(key, topics=[topic], timeout=self._timeout, validate_only=False)

    def _described(self, names: Sequence[str]) -> list[TopicDescription]:
        """The topics, joined from all pages."""
        topics = [{"name": name} for name in sorted(set(names))]
        found: dict[str, TopicDescription] = {}
        cursor = None
        while True:
            page = self._brokers.any(
                request(
                    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                    topics=topics,
                    response_partition_limit=_PAGE_PARTITIONS,
                    cursor=cursor,
                )
            )
            for topic in page.topics:
                found[topic.name] = TopicDescription.read(topic, found.get(topic.name))
            after = page.next_cursor
            if after is None:
                return list(found.values())
            cursor = {"topic_name": after.topic_name, "partition_index": after.partition_index}

    def _with_moves(self, described: list[TopicDescription]) -> list[TopicDescription]:
        topics = [{"name": t.name, "partition_indexes": t.unsettled()} for t in described]
        topics = [topic for topic in topics if topic["partition_indexes"]]
        if not topics:
            return described
        call = request(ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=topics, timeout=self._timeout)
        # Good to know, and not worth waiting for.
        with suppress(Unreachable):
            answer = self._brokers.first(call)
            return [topic.with_moves(answer) for topic in described]
        return described

    def _configs(self, names: Sequence[str]) -> dict[str, Sequence[Any]]:
        call = describe_topic_configs(names)
        results = self._brokers.any(call).results
        for found in results:
            what = f"describe `{found.resource_name}`"
            check(error_of(found.error_code), found.error_message, what)
        return {str(found.resource_name): found.configs for found in results}

    def _leader_of(self, tp: TopicPartition, what: str) -> Address:
        partitions = self.describe_topic(tp.topic).partitions
        found = [each for each in partitions if each.partition == tp.partition]
        if not found:
            raise refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition", what)
        leader = self.describe_cluster().node(found[0].leader)
        if leader is None:
            raise refusal(ErrorCode.LEADER_NOT_AVAILABLE, None, what)
        return leader.address

    def _with_replica_logs(self, described: list[TopicDescription]) -> list[TopicDescription]:
        replicas = {
            TopicPartition(topic.name, partition.partition): partition.replicas
            for topic in described
            for partition in topic.partitions
        }
        logs: dict[tuple[int, TopicPartition], ReplicaDescription] = {}
        for node in self.describe_cluster().nodes:
            hosted = [tp for tp, ids in replicas.items() if node.node_id in ids]
            if hosted and not node.fenced:
                logs |= self._replica_logs(node, hosted)

        def with_logs(name: str, partition: PartitionDescription) -> PartitionDescription:
            tp = TopicPartition(name, partition.partition)
            found = (logs.get((i, tp), ReplicaDescription(i)) for i in partition.replicas)
            return replace(partition, replica_logs=tuple(found))

        return [
            replace(topic, partitions=tuple(with_logs(topic.name, p) for p in topic.partitions))
            for topic in described
        ]

    def _replica_logs(
        self, node: NodeDescription, partitions: list[TopicPartition]
    ) -> dict[tuple[int, TopicPartition], ReplicaDescription]:
        """One broker's own offsets of partitions that it hosts; -1 where it does not answer."""

        def offsets(timestamp: int) -> dict[TopicPartition, int]:
            wanted = dict.fromkeys(partitions, (timestamp, NO_EPOCH))
            call = list_offsets(wanted, replica_id=DEBUGGING_CONSUMER)
            found = read_offsets(self._brokers.node(node.address, call)).items()
            return {tp: offset for tp, (code, offset) in found if code is ErrorCode.NONE}

        starts, ends, marks = {}, {}, {}
        # A broker that has just died is not an error of the request.
        with suppress(Unreachable):
            starts, ends = offsets(EARLIEST), offsets(LATEST)
            for row in self._brokers.node(node.address, high_watermarks(ends)).partitions:
                if row.error_code is ErrorCode.NONE:
                    marks[TopicPartition(row.topic, row.partition)] = row.high_watermark
        return {
            (node.node_id, tp): ReplicaDescription(
                node.node_id, starts.get(tp, -1), marks.get(tp, -1), ends.get(tp, -1)
            )
            for tp in partitions
        }


def describe_topic_configs(names: Sequence[str], keys: Sequence[str] | None = None) -> Call[Any]:
    """Configurations of topics: these, or all."""
    wanted = None if keys is None else list(keys)
    resource = {"resource_type": _TOPIC_RESOURCE, "configuration_keys": wanted}
    return request(
        ApiKey.DESCRIBE_CONFIGS,
        resources=[resource | {"resource_name": name} for name in names],
        include_synonyms=False,
        include_documentation=False,
    )


def _overrides(rows: Sequence[Any]) -> dict[str, str]:
    """What is set for the topic itself, not by default."""
    own = [row for row in rows if int(row.config_source) == _DYNAMIC_TOPIC]
    return {str(row.name): str(row.value) for row in own}
