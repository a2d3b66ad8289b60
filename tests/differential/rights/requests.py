"""The fields of the requests of the matrix, and what in an answer is a whole answer of its own."""

import time
from collections.abc import Mapping
from typing import Any, Final

from tests.differential.rights.cases import BROKER_LOGGER, CLIENT_METRICS, TIMEOUT_MS, Question
from tests.differential.sides import encoded
from tests.differential.steps import Step
from tests.unit.broker.authorization_matrix import PRESENT, filled, values_of
from tests.unit.broker.rights_table import CONTROLLER
from tidelog.model import METADATA_TOPIC, METADATA_TOPIC_ID
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire import codec
from tidelog.wire.api import ApiKey as K
from tidelog.wire.entities import plain

_INNER: Final = Step(
    *(0, 0, int(K.ELECT_LEADERS), 2),
    {"election_type": 0, "timeout": TIMEOUT_MS}
    | {"topic_partitions": [{"topic": PRESENT, "partitions": [0]}]},
)
"""What a broker has in its envelope."""
_USUAL: Final = {
    "validate_only": True,
    "timeout": TIMEOUT_MS,
    "include_authorized_operations": True,
    "include_topic_authorized_operations": True,
    "include_cluster_authorized_operations": True,
    "endpoint_type": 1,
    "producer_id": 1_000_000,
    "producer_id_filters": (),
    "state_filters": (),
    "states_filter": (),
    "types_filter": (),
    "response_partition_limit": 100,
    "max_lifetime": -1,
    "transaction_timeout": 60_000,
    "session_timeout": 30_000,
    "rebalance_timeout": 30_000,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "upgrade_type": 1,
    "max_version_level": 1,
    "feature": "no.such.feature",
    "acks": -1,
    # A registration with the port 0 makes Apache Kafka's controller fail and resign.
    "port": 9092,
    "client_host_address": bytes((127, 0, 0, 1)),
    "request_data": encoded(_INNER, {}, "")[4:],
    "records": build_batch([Record(int(time.time() * 1000), None, b"value")]),
}
"""Values that make an allowed request harmless, and its answer one that both brokers can give."""
_CONFIGS: Final = {
    2: {"name": "retention.ms", "value": "604800000"},
    4: {"name": "log.cleaner.threads", "value": "1"},
    BROKER_LOGGER: {"name": "kafka.server.KafkaApis", "value": "INFO"},
    CLIENT_METRICS: {"name": "interval.ms", "value": "1000"},
    32: {"name": "consumer.session.timeout.ms", "value": "45000"},
}
"""Names that the configurations of each type of resource have."""
_METADATA: Final = {
    "topic": METADATA_TOPIC,
    "topic_name": METADATA_TOPIC,
    "name": METADATA_TOPIC,
    "topic_id": METADATA_TOPIC_ID,
}
_QUORUM: Final = (
    *(K.FETCH, K.FETCH_SNAPSHOT, K.VOTE, K.BEGIN_QUORUM_EPOCH, K.END_QUORUM_EPOCH),
    K.DESCRIBE_QUORUM,
)
"""What is about the one partition of the metadata."""


def values(question: Question, ids: Mapping[str, bytes]) -> dict[str, Any]:
    """The fields of the request."""
    row = question.case.row
    found = _USUAL | values_of(question.case, ids)
    if row.key in (K.ALTER_CONFIGS, K.INCREMENTAL_ALTER_CONFIGS):
        found |= _CONFIGS[row.values["resource_type"]]
    if "hmac" in row.values:
        found["hmac"] = ids[row.values["hmac"]]
    if row.key in _QUORUM and (row.listener == CONTROLLER or row.key is K.DESCRIBE_QUORUM):
        found |= {**_METADATA, **row.values}
    return found


def body(question: Question, ids: Mapping[str, bytes]) -> dict[str, Any]:
    """The request, as plain values."""
    kind = codec.request_class(question.case.row.key, question.case.version)
    whole: dict[str, Any] = plain(filled(kind, values(question, ids)))
    return whole


def opened(question: Question, answer: Any) -> Any:
    """The answer with the one in its envelope, if it has one, decoded."""
    if question.case.row.key is not K.ENVELOPE or not isinstance(answer, dict):
        return answer
    inner = answer["response_data"]
    if inner is not None:
        inner = plain(codec.decode_response(K.ELECT_LEADERS, _INNER.version, inner)[1])
    return {**answer, "response_data": inner}


REMOVALS: Final = frozenset(
    (K.DELETE_TOPICS, K.DELETE_GROUPS, K.OFFSET_DELETE, K.EXPIRE_DELEGATION_TOKEN)
)
"""What may take away what other cases ask about."""
CHANGES: Final = REMOVALS | {K.CREATE_DELEGATION_TOKEN}
"""What is asked after all else: a token is seen by others."""
