"""ListOffsets (2), versions 1-11: the offset of a timestamp, or of an end of the log.

Special timestamps are -1 latest, -2 earliest, -3 of the largest timestamp (version 7 and up), -4
earliest local (version 8 and up). -5 latest tiered (version 9 and up) and -6 earliest that is to be
uploaded (version 11) ask for tiers that do not exist here: their offset is -1, as in Kafka without
tiers. Others answer UNSUPPORTED_VERSION. A partition that is asked for twice answers
INVALID_REQUEST.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasReplicas
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH
from tidelog.replication.messages import ListOffsetsQuery, ListOffsetsResult
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.shapes import Rows, Shape

SENT_VERSION: Final = 9
"""What followers send."""
_FIRST_VERSION_OF = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}

_QUERY: Final = Shape(ListOffsetsQuery, topic="name", absent={"current_leader_epoch": NO_EPOCH})
QUERIES: Final = Rows("topics.partitions", _QUERY, by=["name"])
_RESULT: Final = Shape(ListOffsetsResult, topic="name")
RESULTS: Final = Rows("topics.partitions", _RESULT, by=["name"])


def handle(node: HasReplicas, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers from the logs hosted here."""
    version = context.header.api_version
    queries = QUERIES.read(request)
    refused = _refused(queries, version)
    results = node.replicas.list_offsets(
        [query for query in queries if query[:2] not in refused],
        replica_id=request.replica_id,
        isolation_level=field(request, "isolation_level", 0),
    )
    by_partition = {(result.topic, result.partition): result for result in results}
    for (topic, partition), code in refused.items():
        by_partition[topic, partition] = ListOffsetsResult(topic, partition, code)
    context.answer(_response(context.response_type, version, request, by_partition))


def _refused(queries: Sequence[ListOffsetsQuery], version: int) -> dict[tuple[str, int], ErrorCode]:
    refused = {}
    asked = Counter(query[:2] for query in queries)
    for query in queries:
        if asked[query[:2]] > 1:
            refused[query[:2]] = ErrorCode.INVALID_REQUEST
        elif query.timestamp < 0 and version < _FIRST_VERSION_OF.get(query.timestamp, 99):
            refused[query[:2]] = ErrorCode.UNSUPPORTED_VERSION
    return refused


def _response(
    response_type: type,
    version: int,
    request: Entity,
    results: dict[tuple[str, int], ListOffsetsResult],
) -> Entity:
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            result = results[topic.name, partition.partition_index]
            if result.error_code is ErrorCode.OFFSET_NOT_AVAILABLE and version < 5:
                result = result._replace(error_code=ErrorCode.LEADER_NOT_AVAILABLE)
            partitions.append(_RESULT.write(result))
        topics.append({"name": topic.name, "partitions": partitions})
    return reply(response_type, topics=topics)


API: Final = LocalApi(
    key=ApiKey.LIST_OFFSETS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 11),
    sent_version=SENT_VERSION,
    requires=(on(Operation.DESCRIBE, ResourceType.TOPIC),),
    handle=handle,
)
