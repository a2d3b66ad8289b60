"""What each API needs, written by hand from Kafka's documentation of its protocol, and not from our
declarations: `NEEDS` is what the matrix holds the broker against.

A need is a list of alternatives, of which one is enough, and the code of a request without any of
them. The first alternative comes first.
"""

from typing import Any, Final, NamedTuple

from tidelog.wire.api import ApiKey as K

TOPIC, GROUP, CLUSTER, TXN, DELEGATION_TOKEN, USER = range(2, 8)
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, ACTION = range(3, 10)
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS = range(10, 15)

BROKER, CONTROLLER = "PLAINTEXT", "CONTROLLER"


class Need(NamedTuple):
    """One right, or one of several."""

    code: int
    alternatives: tuple[tuple[int, int], ...]
    """Pairs of operation and resource type."""


class Row(NamedTuple):
    """An API on a listener."""

    key: K
    needs: tuple[Need, ...]
    values: dict[str, Any] = {}
    """Fields of the request, wherever they stand in it."""
    listener: str = BROKER
    versions: tuple[int, int] = (0, 99)
    """Those to which the row applies."""


def topic(operation: int) -> Need:
    return Need(29, ((operation, TOPIC),))


def group(operation: int) -> Need:
    return Need(30, ((operation, GROUP),))


def cluster(operation: int) -> Need:
    return Need(31, ((operation, CLUSTER),))


WRITE_TXN: Final = Need(53, ((WRITE, TXN),))
_BATCHES: Final = {"replica_id": -1, "session_epoch": -1, "isolation_level": 0}

_OF_CONTROLLERS: Final = (
    *(K.FETCH, K.VOTE, K.BEGIN_QUORUM_EPOCH, K.END_QUORUM_EPOCH, K.ALTER_PARTITION),
    *(K.FETCH_SNAPSHOT, K.BROKER_REGISTRATION, K.BROKER_HEARTBEAT, K.ALLOCATE_PRODUCER_IDS),
    *(K.CONTROLLER_REGISTRATION, K.ASSIGN_REPLICAS_TO_DIRS, K.UPDATE_RAFT_VOTER),
)
_ACLS: Final = {
    "resource_type": TOPIC,
    "resource_type_filter": 1,
    "resource_pattern_type": 3,
    "pattern_type_filter": 1,
    "principal": "User:none",
    "principal_filter": "User:none",
    "host": "*",
    "host_filter": "*",
    "operation": 3,
    "permission_type": 3,
}


def _config(operation: int, key: K) -> tuple[Row, ...]:
    of = {"resource_type": 2}, {"resource_type": 32}, {"resource_type": 4}
    needs = topic(operation), group(operation), cluster(operation)
    return tuple(Row(key, (need,), values) for need, values in zip(needs, of, strict=True))


NEEDS: Final = (
    Row(K.PRODUCE, (topic(WRITE),), {"acks": 1, "transactional_id": None}),
    Row(K.FETCH, (topic(READ),), _BATCHES),
    Row(K.FETCH, (Need(29, ((ACTION, CLUSTER),)),), {"replica_id": 1}, versions=(4, 14)),
    Row(K.LIST_OFFSETS, (topic(DESCRIBE),), _BATCHES),
    Row(K.METADATA, (topic(DESCRIBE),), {"topic_id": None}),
    Row(K.OFFSET_COMMIT, (group(READ), topic(READ))),
    Row(K.OFFSET_FETCH, (group(DESCRIBE), topic(DESCRIBE))),
    Row(K.FIND_COORDINATOR, (group(DESCRIBE),), {"key_type": 0}),
    Row(K.FIND_COORDINATOR, (Need(53, ((DESCRIBE, TXN),)),), {"key_type": 1}, versions=(1, 6)),
    Row(K.FIND_COORDINATOR, (cluster(ACTION),), {"key_type": 2}, versions=(6, 6)),
    *(Row(key, (group(READ),)) for key in (K.JOIN_GROUP, K.HEARTBEAT, K.LEAVE_GROUP, K.SYNC_GROUP)),
    Row(K.DESCRIBE_GROUPS, (group(DESCRIBE),)),
    Row(K.CREATE_TOPICS, (Need(29, ((CREATE, CLUSTER), (CREATE, TOPIC))),)),
    Row(K.DELETE_TOPICS, (Need(29, ((DELETE, CLUSTER), (DELETE, TOPIC))),), {"topic_id": None}),
    Row(K.DELETE_RECORDS, (topic(DELETE),)),
    Row(K.INIT_PRODUCER_ID, (WRITE_TXN,)),
    Row(
        K.INIT_PRODUCER_ID,
        (Need(31, ((IDEMPOTENT_WRITE, CLUSTER), (WRITE, TOPIC))),),
        {"transactional_id": None},
    ),
    Row(
        K.OFFSET_FOR_LEADER_EPOCH,
        (Need(29, ((ACTION, CLUSTER), (DESCRIBE, TOPIC))),),
        {"replica_id": -1},
    ),
    Row(K.ADD_PARTITIONS_TO_TXN, (WRITE_TXN, topic(WRITE)), versions=(0, 3)),
    Row(K.ADD_PARTITIONS_TO_TXN, (cluster(ACTION),), versions=(4, 5)),
    Row(K.ADD_OFFSETS_TO_TXN, (WRITE_TXN, group(READ))),
    Row(K.END_TXN, (WRITE_TXN,)),
    Row(K.WRITE_TXN_MARKERS, (Need(31, ((ALTER, CLUSTER), (ACTION, CLUSTER))),)),
    Row(K.TXN_OFFSET_COMMIT, (WRITE_TXN, group(READ), topic(READ))),
    Row(K.DESCRIBE_ACLS, (cluster(DESCRIBE),), _ACLS),
    Row(K.CREATE_ACLS, (cluster(ALTER),), _ACLS),
    Row(K.DELETE_ACLS, (cluster(ALTER),), _ACLS),
    *_config(DESCRIBE_CONFIGS, K.DESCRIBE_CONFIGS),
    *_config(ALTER_CONFIGS, K.ALTER_CONFIGS),
    *_config(ALTER_CONFIGS, K.INCREMENTAL_ALTER_CONFIGS),
    Row(K.ALTER_REPLICA_LOG_DIRS, (cluster(ALTER),)),
    Row(K.DESCRIBE_LOG_DIRS, (cluster(DESCRIBE),), versions=(3, 5)),
    Row(K.CREATE_PARTITIONS, (topic(ALTER),)),
    Row(K.DELETE_GROUPS, (group(DELETE),)),
    Row(K.OFFSET_DELETE, (group(DELETE), topic(READ))),
    *(
        Row(key, (cluster(ALTER),))
        for key in (
            *(K.ELECT_LEADERS, K.ALTER_PARTITION_REASSIGNMENTS, K.UPDATE_FEATURES),
            *(K.UNREGISTER_BROKER, K.ADD_RAFT_VOTER, K.REMOVE_RAFT_VOTER),
        )
    ),
    Row(K.DESCRIBE_CLIENT_QUOTAS, (cluster(DESCRIBE_CONFIGS),)),
    Row(K.ALTER_CLIENT_QUOTAS, (cluster(ALTER_CONFIGS),)),
    Row(K.DESCRIBE_USER_SCRAM_CREDENTIALS, (cluster(DESCRIBE),)),
    Row(K.ALTER_USER_SCRAM_CREDENTIALS, (cluster(ALTER),), {"iterations": 4096, "mechanism": 1}),
    Row(K.LIST_PARTITION_REASSIGNMENTS, (cluster(DESCRIBE),)),
    Row(K.DESCRIBE_QUORUM, (cluster(DESCRIBE),)),
    Row(K.DESCRIBE_CLUSTER, (cluster(ALTER),), {"endpoint_type": 2}, CONTROLLER),
    Row(K.DESCRIBE_PRODUCERS, (topic(READ),)),
    Row(K.DESCRIBE_TRANSACTIONS, (Need(53, ((DESCRIBE, TXN),)),)),
    Row(K.CONSUMER_GROUP_HEARTBEAT, (group(READ), topic(DESCRIBE))),
    Row(K.CONSUMER_GROUP_DESCRIBE, (group(DESCRIBE),)),
    Row(K.LIST_CONFIG_RESOURCES, (cluster(DESCRIBE_CONFIGS),)),
    Row(K.DESCRIBE_TOPIC_PARTITIONS, (topic(DESCRIBE),), {"cursor": None}),
    Row(K.SHARE_GROUP_HEARTBEAT, (group(READ), topic(DESCRIBE))),
    Row(K.SHARE_GROUP_DESCRIBE, (group(DESCRIBE),)),
    Row(K.SHARE_FETCH, (group(READ), topic(READ)), {"acknowledgement_batches": ()}),
    Row(K.SHARE_ACKNOWLEDGE, (group(READ), topic(READ))),
    Row(K.DESCRIBE_SHARE_GROUP_OFFSETS, (group(DESCRIBE), topic(DESCRIBE))),
    Row(K.ALTER_SHARE_GROUP_OFFSETS, (group(READ), topic(READ))),
    Row(K.DELETE_SHARE_GROUP_OFFSETS, (group(DELETE), topic(READ))),
    *(
        Row(key, (cluster(ACTION),))
        for key in (
            *(K.INITIALIZE_SHARE_GROUP_STATE, K.READ_SHARE_GROUP_STATE),
            *(K.WRITE_SHARE_GROUP_STATE, K.DELETE_SHARE_GROUP_STATE),
            K.READ_SHARE_GROUP_STATE_SUMMARY,
        )
    ),
    *(Row(key, (cluster(ACTION),), listener=CONTROLLER) for key in _OF_CONTROLLERS),
    *(
        Row(key, (cluster(ALTER),), listener=CONTROLLER)
        for key in (K.ELECT_LEADERS, K.UNREGISTER_BROKER, K.ADD_RAFT_VOTER, K.REMOVE_RAFT_VOTER)
    ),
    Row(K.CREATE_ACLS, (cluster(ALTER),), _ACLS, CONTROLLER),
    Row(K.DESCRIBE_ACLS, (cluster(DESCRIBE),), _ACLS, CONTROLLER),
)

FREE: Final = frozenset((K.API_VERSIONS, K.SASL_HANDSHAKE, K.SASL_AUTHENTICATE))
"""What everybody may use."""
BY_ANSWER: Final = frozenset((K.LIST_GROUPS, K.LIST_TRANSACTIONS))
"""What everybody may ask, with an answer that is cut down."""
BY_TOKEN_RULES: Final = frozenset(
    (
        *(K.CREATE_DELEGATION_TOKEN, K.RENEW_DELEGATION_TOKEN),
        *(K.EXPIRE_DELEGATION_TOKEN, K.DESCRIBE_DELEGATION_TOKEN),
    )
)
"""What depends on the owner of a token, and on how the client has logged in."""
