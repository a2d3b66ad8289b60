"""Requests before their version is known, and how their answers are read.

The version of an API is known per connection only, so a call is encoded when it is
sent. Most go through the schemas, and name the values of all versions; a version takes those that
it has. Fetch and Produce, which are hot, are packed by hand.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from tidelog.env.disk import Buffer
from tidelog.wire import codec, fetch, produce
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make

Answer = TypeVar("Answer")

_NEWEST: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 17,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.API_VERSIONS: 4,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.WRITE_TXN_MARKERS: 2,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 1,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 6,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.DESCRIBE_QUORUM: 2,
    ApiKey.DESCRIBE_CLUSTER: 2,
    ApiKey.UNREGISTER_BROKER: 0,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
    ApiKey.ADD_RAFT_VOTER: 1,
    ApiKey.REMOVE_RAFT_VOTER: 0,
    ApiKey.DESCRIBE_ACLS: 3,
    ApiKey.CREATE_ACLS: 3,
    ApiKey.DELETE_ACLS: 3,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
}
"""The newest version that the client uses."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """One request to one broker."""

    key: ApiKey
    newest: int
    """The newest version that its values fit."""
    encode: Callable[[int, int, str], bytes]
    """From version, correlation id and client id to the request with its length prefix."""
    decode: Callable[[int, Buffer], tuple[int, Answer]]
    """From version and frame to correlation id and answer. Raises `MalformedFrame`."""


def request(key: ApiKey, /, **values: object) -> Call[Any]:
    """Any API, by the field names of its schema. A dict is a nested entity, a list an array of
    entities or of plain values."""

    def encode(version: int, correlation_id: int, client_id: str) -> bytes:
        entity = make(codec.request_class(key, version), **values)
        return codec.encode_request(entity, correlation_id, client_id)

    return Call(key, _NEWEST[key], encode, partial(codec.decode_response, key))


def fetch_call(
    wanted: fetch.FetchRequest, newest: int = _NEWEST[ApiKey.FETCH]
) -> Call[fetch.FetchResponse]:
    """Fetch; the answer holds views of its frame."""
    return Call(
        ApiKey.FETCH,
        newest,
        lambda version, number, client: fetch.pack_request(version, number, client, wanted),
        fetch.parse_response,
    )


def produce_call(records: produce.ProduceRequest) -> Call[produce.ProduceResponse]:
    """Produce."""
    return Call(
        ApiKey.PRODUCE,
        _NEWEST[ApiKey.PRODUCE],
        lambda version, number, client: produce.pack_request(version, number, client, records),
        produce.parse_response,
    )
