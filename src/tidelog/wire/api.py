"""The API keys and the request header.

Which header a request has follows from its API key and version alone: version 2 (with tagged
fields) from the first flexible version of the API on, version 1 before. The client id keeps its
old form in both. Responses correspond, except that ApiVersions always has the old response
header: a client that does not know what the broker speaks must be able to read it (KIP-511).

Which APIs and versions a node serves is declared in `broker/api/`.
"""

from collections.abc import Mapping
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from tidelog.env.disk import Buffer
from tidelog.errors import MalformedFrame
from tidelog.wire.notation import INT32, MALFORMED, NO_TAGS, skip_tags


class ApiKey(IntEnum):
    """Every API that a Kafka 4 broker or controller may be asked for."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class VersionRange(NamedTuple):
    """Versions of one API, both ends included."""

    min_version: int
    max_version: int


_NEVER: Final = 2**15
_FLEXIBLE_FROM: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.METADATA: 9,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 6,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.JOIN_GROUP: 6,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 4,
    ApiKey.SYNC_GROUP: 4,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 3,
    ApiKey.SASL_HANDSHAKE: _NEVER,
    ApiKey.API_VERSIONS: 3,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 4,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 2,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 3,
    ApiKey.DESCRIBE_ACLS: 2,
    ApiKey.CREATE_ACLS: 2,
    ApiKey.DELETE_ACLS: 2,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 2,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.CREATE_PARTITIONS: 2,
    ApiKey.CREATE_DELEGATION_TOKEN: 2,
    ApiKey.RENEW_DELEGATION_TOKEN: 2,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 2,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 2,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.OFFSET_DELETE: _NEVER,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.BEGIN_QUORUM_EPOCH: 1,
    ApiKey.END_QUORUM_EPOCH: 1,
}
"""The first flexible version, where that is not the first version of all."""


_API_KEYS: Final = {int(key): key for key in ApiKey}
_FIRST_FLEXIBLE: Final = tuple(
    _FLEXIBLE_FROM.get(ApiKey(key), 0) if key in _API_KEYS else _NEVER
    for key in range(max(ApiKey) + 1)
)
"""The same, indexed by API key: hashing an enum member would cost more than the rest of parsing a
header."""


def is_flexible(api_key: ApiKey, api_version: int) -> bool:
    """Whether this version has tagged fields and compact lengths (KIP-482)."""
    return api_version >= _FIRST_FLEXIBLE[api_key]


def has_flexible_response_header(api_key: ApiKey, api_version: int) -> bool:
    """Whether the response header has tagged fields. That of ApiVersions never has."""
    return api_version >= _FIRST_FLEXIBLE[api_key] and api_key != ApiKey.API_VERSIONS


class RequestHeader(NamedTuple):
    """What precedes every request."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None


_HEADER: Final = Struct(">hhih")
_CLASSIC_RESPONSE: Final = Struct(">ii")
_FLEXIBLE_RESPONSE: Final = Struct(">iiB")


def parse_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Reads a request's header; returns it and where the body begins.

    The version is not checked against any table. Raises `MalformedFrame`, also for a key that
    is not an API: its header is unknown.
    """
    try:
        key, version, correlation_id, client_id_bytes = _HEADER.unpack_from(frame)
        api_key = _API_KEYS.get(key)
        if api_key is None or version < 0:
            raise MalformedFrame(f"no API has key `{key}` and version `{version}`")
        position = _HEADER.size
        client_id = None
        if client_id_bytes >= 0:
            end = position + client_id_bytes
            if end > len(frame):
                raise MalformedFrame(f"a client id of `{client_id_bytes}` bytes")
            client_id = str(frame[position:end], "utf-8")
            position = end
        if version >= _FIRST_FLEXIBLE[key]:
            position = skip_tags(frame, position)
    except MALFORMED as cause:
        raise MalformedFrame(f"no request header: {cause}") from cause
    return RequestHeader(api_key, version, correlation_id, client_id), position


def pack_header(
    api_key: ApiKey, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """The header of a request of ours, without the length prefix."""
    encoded = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(encoded)
    tags = b"\x00" if is_flexible(api_key, api_version) else b""
    return _HEADER.pack(api_key, api_version, correlation_id, length) + encoded + tags


def parse_response_header(api_key: ApiKey, api_version: int, frame: Buffer) -> tuple[int, int]:
    """The correlation id of a response and where its body begins. Raises `MalformedFrame`."""
    try:
        correlation_id: int = INT32.unpack_from(frame)[0]
        position = INT32.size
        if has_flexible_response_header(api_key, api_version):
            position = skip_tags(frame, position)
    except MALFORMED as cause:
        raise MalformedFrame(f"no response header: {cause}") from cause
    return correlation_id, position


def length_and_response_header(flexible: bool, correlation_id: int) -> bytes:
    """Four bytes for the length prefix, which `with_length` sets, and the header of a response."""
    if flexible:
        return _FLEXIBLE_RESPONSE.pack(0, correlation_id, NO_TAGS)
    return _CLASSIC_RESPONSE.pack(0, correlation_id)


def with_length(out: bytearray) -> bytes:
    """Sets the length prefix of a message, its first four bytes; returns the whole message."""
    INT32.pack_into(out, 0, len(out) - INT32.size)
    return bytes(out)
