"""Requests of administrators: topics, configurations, replicas, the cluster."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.differential.drafts import PARTITIONS, Draft
from tests.differential.steps import Name
from tidelog.wire.api import ApiKey as K

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
CONFIGS: Final[tuple[tuple[str, Any], ...]] = (
    # Longer than the records' age: see `known.py`.
    ("retention.ms", "1000000000000"),
    ("retention.ms", "-1"),
    ("retention.ms", "soon"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "burn"),
    ("min.insync.replicas", "1"),
    ("min.insync.replicas", "0"),
    ("segment.bytes", "1048576"),
    ("segment.bytes", "1"),
    ("max.message.bytes", None),
    ("compression.type", "zstd"),
    ("no.such.key", "1"),
    ("", "1"),
)


def create_first(draft: Draft) -> None:
    """The topic of the sequence; the newest version answers with its id."""
    draft.created["t0"] = draft.add(
        K.CREATE_TOPICS,
        draft.admin_slot,
        draft.versions[K.CREATE_TOPICS].max_version,
        topics=[new_topic("t0")],
        timeout=30_000,
        validate_only=False,
    )


def new_topic(name: Any, **values: Any) -> dict[str, Any]:
    return {
        "name": Name(name) if isinstance(name, str) else name,
        "num_partitions": PARTITIONS,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
        **values,
    }


def create(draft: Draft, usual: str) -> None:
    name = draft.topic() if draft.prng.chance(1, 2) else Name("t1")
    by_hand = [{"partition_index": index, "broker_ids": [1]} for index in range(PARTITIONS)]
    wrong: dict[str, Any] = draft.prng.choice(
        (
            {"num_partitions": 0},
            {"num_partitions": -1, "replication_factor": -1},
            {"replication_factor": 3},
            {"replication_factor": 0},
            {"num_partitions": -1, "replication_factor": -1, "assignments": by_hand},
            {"assignments": by_hand},
            {
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 1, "broker_ids": [1]}],
            },
            {
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 0, "broker_ids": [1, 1]}],
            },
            {"configs": [dict(zip(("name", "value"), draft.prng.choice(CONFIGS), strict=True))]},
        )
    )
    topic = new_topic(name, **draft.prng.choice(({}, {}, wrong)))
    version = draft.versions[K.CREATE_TOPICS].max_version
    step = draft.add(
        K.CREATE_TOPICS,
        draft.admin_slot,
        version if name == Name("t1") else None,
        topics=draft.good_or([topic], [topic, topic], []),
        timeout=30_000,
        validate_only=draft.prng.chance(1, 4),
    )
    if name == Name("t1"):
        draft.created.setdefault("t1", step)


def delete(draft: Draft, usual: str) -> None:
    name = draft.prng.choice((Name("t1"), Name("t1"), draft.topic()))
    version = draft.version(K.DELETE_TOPICS)
    by_id = draft.prng.chance(1, 2)
    row = {
        "name": None if by_id else name,
        "topic_id": draft.topic_id(name) if by_id else bytes(16),
    }
    draft.add(
        K.DELETE_TOPICS,
        draft.admin_slot,
        version,
        topics=draft.good_or([row], [{"name": name, "topic_id": bytes(range(16))}]),
        topic_names=[name],
        timeout=30_000,
    )


def more_partitions(draft: Draft, usual: str) -> None:
    draft.add(
        K.CREATE_PARTITIONS,
        draft.admin_slot,
        topics=[
            {
                "name": draft.prng.choice((Name("t1"), draft.topic())),
                "count": draft.prng.choice((PARTITIONS + 1, PARTITIONS, 1, 0, -1, PARTITIONS + 2)),
                "assignments": draft.good_or(
                    None, [{"broker_ids": [1]}], [{"broker_ids": [5]}], []
                ),
            }
        ],
        timeout=30_000,
        validate_only=draft.prng.chance(1, 2),
    )


def delete_records(draft: Draft, usual: str) -> None:
    draft.add(
        K.DELETE_RECORDS,
        draft.admin_slot,
        topics=[
            {
                "name": draft.topic(),
                "partitions": draft.partitions(
                    lambda index: {
                        "partition_index": index,
                        "offset": draft.prng.choice((0, 1, -1, -2, 10**6)),
                    }
                ),
            }
        ],
        timeout=10_000,
    )


def resource(draft: Draft) -> dict[str, Any]:
    """A resource by type and name."""
    kind, name = draft.prng.choice(
        (
            (TOPIC, draft.topic()),
            (TOPIC, draft.topic()),
            (BROKER, "1"),
            (BROKER, ""),
            (BROKER, "77"),
            (BROKER, "one"),
            (CLIENT_METRICS, Name("metrics")),
            (GROUP, Name("consumer")),
            (GROUP, ""),
            (0, "x"),
            (99, "x"),
        )
    )
    return {"resource_type": kind, "resource_name": name}


def describe_configs(draft: Draft, usual: str) -> None:
    keys = sorted({name for name, _ in CONFIGS if name})
    row = resource(draft)
    every = row["resource_type"] == TOPIC and draft.prng.chance(1, 2)
    draft.add(
        K.DESCRIBE_CONFIGS,
        draft.admin_slot,
        resources=[{**row, "configuration_keys": None if every else draft.good_or(keys, [])}],
        include_synonyms=draft.prng.chance(1, 3),
        include_documentation=False,
    )


def only_asks(draft: Draft, row: Mapping[str, Any]) -> bool:
    """What is set on brokers would count in the runs that follow."""
    return row["resource_type"] == BROKER or draft.prng.chance(1, 3)


def alter_configs(draft: Draft, usual: str) -> None:
    name, value = draft.prng.choice(CONFIGS)
    row = {**resource(draft), "configs": [{"name": name, "value": value}]}
    draft.add(
        K.ALTER_CONFIGS,
        draft.admin_slot,
        resources=draft.good_or([row], []),
        validate_only=only_asks(draft, row),
    )


def alter_one_config(draft: Draft, usual: str) -> None:
    name, value = draft.prng.choice(CONFIGS)
    change = {
        "name": name,
        "config_operation": draft.good_or(draft.prng.below(4), 4, -1),
        "value": value,
    }
    row = {**resource(draft), "configs": draft.good_or([change], [change, change], [])}
    draft.add(
        K.INCREMENTAL_ALTER_CONFIGS,
        draft.admin_slot,
        resources=draft.good_or([row], [row, row], []),
        validate_only=only_asks(draft, row),
    )


def elect(draft: Draft, usual: str) -> None:
    rows = [{"topic": draft.topic(), "partitions": [draft.partition()]}]
    draft.add(
        K.ELECT_LEADERS,
        draft.admin_slot,
        election_type=draft.good_or(draft.prng.below(2), 2),
        topic_partitions=draft.good_or(rows, []),
        timeout=10_000,
    )


def reassign(draft: Draft, usual: str) -> None:
    draft.add(
        K.ALTER_PARTITION_REASSIGNMENTS,
        draft.admin_slot,
        timeout=10_000,
        allow_replication_factor_change=draft.good_or(True, False),
        topics=[
            {
                "name": draft.topic(),
                "partitions": [
                    {
                        "partition_index": draft.partition(),
                        "replicas": draft.prng.choice(([1], None, [], [5], [1, 1], [-1])),
                    }
                ],
            }
        ],
    )


def reassignments(draft: Draft, usual: str) -> None:
    rows = [{"name": draft.topic(), "partition_indexes": [draft.partition()]}]
    draft.add(
        K.LIST_PARTITION_REASSIGNMENTS,
        draft.admin_slot,
        timeout=10_000,
        topics=draft.good_or(rows, None, []),
    )


def cluster(draft: Draft, usual: str) -> None:
    draft.add(
        K.DESCRIBE_CLUSTER,
        draft.admin_slot,
        include_cluster_authorized_operations=draft.prng.chance(1, 3),
        endpoint_type=draft.good_or(1, 2, 3),
        include_fenced_brokers=draft.prng.chance(1, 2),
    )


def log_dirs(draft: Draft, usual: str) -> None:
    draft.add(
        K.DESCRIBE_LOG_DIRS,
        draft.admin_slot,
        topics=[{"topic": draft.topic(), "partitions": [draft.partition()]}],
    )


def move_logs(draft: Draft, usual: str) -> None:
    """Only to directories that neither broker has."""
    topics = [{"name": draft.topic(), "partitions": [draft.partition()]}]
    draft.add(
        K.ALTER_REPLICA_LOG_DIRS,
        draft.admin_slot,
        dirs=[{"path": draft.good_or("/no/such/directory", "relative"), "topics": topics}],
    )


def topic_partitions(draft: Draft, usual: str) -> None:
    draft.add(
        K.DESCRIBE_TOPIC_PARTITIONS,
        draft.admin_slot,
        topics=[{"name": draft.topic()}, {"name": Name("t0")}][: draft.prng.between(1, 2)],
        response_partition_limit=draft.good_or(2000, 1, 0, -1),
        cursor=draft.good_or(
            None,
            {"topic_name": Name("t0"), "partition_index": 1},
            {"topic_name": Name("t0"), "partition_index": -1},
        ),
    )


def metadata(draft: Draft, usual: str) -> None:
    topic = draft.topic()
    version = draft.version(K.METADATA)
    by_id = version >= 12 and draft.prng.chance(1, 2)
    draft.add(
        K.METADATA,
        draft.admin_slot,
        version,
        topics=[
            {
                "topic_id": draft.topic_id(topic) if by_id else bytes(16),
                "name": None if by_id else topic,
            }
        ],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=draft.prng.chance(1, 3),
        include_topic_authorized_operations=draft.prng.chance(1, 3),
    )


def config_resources(draft: Draft, usual: str) -> None:
    draft.add(
        K.LIST_CONFIG_RESOURCES,
        draft.admin_slot,
        resource_types=draft.prng.choice(
            ([TOPIC], [BROKER], [BROKER_LOGGER], [CLIENT_METRICS], [99])
        ),
    )


def features(draft: Draft, usual: str) -> None:
    """Only what is refused or changes nothing: the cluster's features stay as they are."""
    draft.add(
        K.UPDATE_FEATURES,
        draft.admin_slot,
        timeout=10_000,
        feature_updates=[
            {
                "feature": draft.prng.choice(("no.such.feature", "", "group.version")),
                "max_version_level": draft.prng.choice((1, -1, 99)),
                "upgrade_type": draft.good_or(1, 0, 4),
                "allow_downgrade": False,
            }
        ],
        validate_only=True,
    )


def unregister(draft: Draft, usual: str) -> None:
    draft.add(K.UNREGISTER_BROKER, draft.admin_slot, broker_id=draft.prng.choice((77, -1)))


def quorum(draft: Draft, usual: str) -> None:
    draft.add(
        K.DESCRIBE_QUORUM,
        draft.admin_slot,
        topics=[
            {
                "topic_name": draft.good_or("__cluster_metadata", Name("t0")),
                "partitions": [{"partition_index": draft.good_or(0, 1)}],
            }
        ],
    )


def add_voter(draft: Draft, usual: str) -> None:
    """Only what is refused."""
    draft.add(
        K.ADD_RAFT_VOTER,
        draft.admin_slot,
        cluster_id="another",
        timeout=1000,
        voter_id=draft.prng.choice((1, 9, -1)),
        voter_directory_id=bytes(range(16)),
        listeners=[{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}],
        ack_when_committed=True,
    )


def remove_voter(draft: Draft, usual: str) -> None:
    """Only what is refused."""
    draft.add(
        K.REMOVE_RAFT_VOTER,
        draft.admin_slot,
        cluster_id="another",
        voter_id=draft.prng.choice((9, -1)),
        voter_directory_id=bytes(range(16)),
    )


def leader_epochs(draft: Draft, usual: str) -> None:
    draft.add(
        K.OFFSET_FOR_LEADER_EPOCH,
        draft.admin_slot,
        replica_id=-1,
        topics=[
            {
                "topic": draft.topic(),
                "partitions": draft.partitions(
                    lambda index: {
                        "partition": index,
                        "current_leader_epoch": draft.good_or(-1, 0, 9),
                        "leader_epoch": draft.prng.choice((0, 1, -1)),
                    }
                ),
            }
        ],
    )


def api_versions(draft: Draft, usual: str) -> None:
    draft.add(
        K.API_VERSIONS,
        draft.admin_slot,
        client_software_name=draft.good_or("differential", "", "bad name"),
        client_software_version=draft.good_or("1", "", "?"),
    )


def late_handshake(draft: Draft, usual: str) -> None:
    """Where no login is asked for."""
    draft.add(K.SASL_HANDSHAKE, draft.admin_slot, mechanism=draft.good_or("PLAIN", "", "?"))


def late_token(draft: Draft, usual: str) -> None:
    """Where no login is asked for."""
    draft.add(K.SASL_AUTHENTICATE, draft.admin_slot, auth_bytes=b"token")


def scram_user(draft: Draft) -> str:
    """A name of few, so that users are found again."""
    return draft.prng.choice(("u0", "u1", ""))


def scram_users(draft: Draft, usual: str) -> None:
    users = [{"name": scram_user(draft)} for _ in range(draft.prng.below(3))]
    draft.add(K.DESCRIBE_USER_SCRAM_CREDENTIALS, draft.admin_slot, users=users)


def alter_scram(draft: Draft, usual: str) -> None:
    deletions = [
        {"name": scram_user(draft), "mechanism": draft.good_or(1, 2, 0)}
        for _ in range(draft.prng.below(2))
    ]
    upsertions = [
        {
            "name": scram_user(draft),
            "mechanism": draft.good_or(2, 1, 3),
            "iterations": draft.good_or(4096, 4095, 16_385),
            "salt": b"salt",
            "salted_password": draft.good_or(bytes(32), b""),
        }
        for _ in range(draft.prng.below(3))
    ]
    draft.add(
        K.ALTER_USER_SCRAM_CREDENTIALS, draft.admin_slot, deletions=deletions, upsertions=upsertions
    )


def quota_entity(draft: Draft) -> list[dict[str, str | None]]:
    """Of few entities, so that quotas are found again."""
    pairs = draft.good_or(
        [("user", "u0")],
        [("user", None)],
        [("user", "u0"), ("client-id", "c0")],
        [("ip", "10.0.0.1")],
        [("ip", "10.0.0.1"), ("user", "u0")],
        [("topic", "t")],
        [("user", "")],
        [],
    )
    return [{"entity_type": kind, "entity_name": name} for kind, name in pairs]


def quotas(draft: Draft, usual: str) -> None:
    kinds = draft.good_or(["user"], [], ["user", "client-id"], ["ip"], ["ip", "user"], ["topic"])
    components = []
    for kind in kinds:
        match_type, match = draft.good_or((2, None), (1, None), (0, "u0"), (0, None), (3, None))
        components.append({"entity_type": kind, "match_type": match_type, "match": match})
    draft.add(
        K.DESCRIBE_CLIENT_QUOTAS,
        draft.admin_slot,
        components=components,
        strict=draft.prng.chance(1, 2),
    )


def alter_quotas(draft: Draft, usual: str) -> None:
    ops = [
        {
            "key": draft.good_or("producer_byte_rate", "connection_creation_rate", "speed"),
            "value": draft.good_or(1e9, 2e9, 0.0, -1.0, 1.5),
            "remove": draft.prng.chance(1, 3),
        }
        for _ in range(1 + draft.prng.below(2))
    ]
    draft.add(
        K.ALTER_CLIENT_QUOTAS,
        draft.admin_slot,
        entries=[{"entity": quota_entity(draft), "ops": ops}],
        validate_only=draft.prng.chance(1, 4),
    )


Draw = Callable[[Draft, str], None]
ADMIN_DRAWS: Final[Mapping[K, Draw]] = {
    K.CREATE_TOPICS: create,
    K.DELETE_TOPICS: delete,
    K.CREATE_PARTITIONS: more_partitions,
    K.DELETE_RECORDS: delete_records,
    K.DESCRIBE_CONFIGS: describe_configs,
    K.ALTER_CONFIGS: alter_configs,
    K.INCREMENTAL_ALTER_CONFIGS: alter_one_config,
    K.ELECT_LEADERS: elect,
    K.ALTER_PARTITION_REASSIGNMENTS: reassign,
    K.LIST_PARTITION_REASSIGNMENTS: reassignments,
    K.DESCRIBE_CLUSTER: cluster,
    K.DESCRIBE_LOG_DIRS: log_dirs,
    K.ALTER_REPLICA_LOG_DIRS: move_logs,
    K.DESCRIBE_TOPIC_PARTITIONS: topic_partitions,
    K.METADATA: metadata,
    K.LIST_CONFIG_RESOURCES: config_resources,
    K.UPDATE_FEATURES: features,
    K.UNREGISTER_BROKER: unregister,
    K.DESCRIBE_QUORUM: quorum,
    K.ADD_RAFT_VOTER: add_voter,
    K.REMOVE_RAFT_VOTER: remove_voter,
    K.OFFSET_FOR_LEADER_EPOCH: leader_epochs,
    K.API_VERSIONS: api_versions,
    K.SASL_HANDSHAKE: late_handshake,
    K.SASL_AUTHENTICATE: late_token,
    K.DESCRIBE_USER_SCRAM_CREDENTIALS: scram_users,
    K.ALTER_USER_SCRAM_CREDENTIALS: alter_scram,
    K.DESCRIBE_CLIENT_QUOTAS: quotas,
    K.ALTER_CLIENT_QUOTAS: alter_quotas,
}
