"""ListOffsets (2), versions 1-11: the offset of a timestamp, or of an end of the log.

Special timestamps are -1 latest, -2 earliest, -3 of the largest timestamp (version 7 and up), -4
earliest local (version 8 and up). -5 latest tiered (version 9 and up) and -6 earliest that is to be
uploaded (version 11) ask for tiers that do not exist here: their offset is -1, as in Kafka without
tiers. Others answer UNSUPPORTED_VERSION. A partition that is asked for twice answers
INVALID_REQUEST.
"""

from collections import Counter
from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import topics
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasReplicas
from tidelog.broker.connections import RequestContext
from tidelog.broker.long_answers import Pieces
from tidelog.broker.offset_questions import QUERY, RESULT, SENT_VERSION
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import PARTITION_ANSWER_WORK
from tidelog.replication.messages import ListOffsetsQuery, ListOffsetsResult
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import ArrayWriter, Entity, field, nested

_FIRST_VERSION_OF = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}


def handle(node: HasReplicas, context: RequestContext, request: Entity, now: Instant) -> Pieces:
    """Answers from the logs hosted here, one partition after the other."""
    version = context.header.api_version
    isolation_level = field(request, "isolation_level", 0)
    asked = Counter(
        (topic.name, row.partition_index) for topic in request.topics for row in topic.partitions
    )
    topics = ArrayWriter(context.response_type, "topics")
    for topic in request.topics:
        partitions = ArrayWriter(nested(context.response_type, "topics"), "partitions")
        for row in topic.partitions:
            query = QUERY.read(row, {"name": topic.name})
            code = _refusal(query, version, asked[query[:2]])
            if code is None:
                result = node.replicas.list_offset(
                    query, replica_id=request.replica_id, isolation_level=isolation_level
                )
            else:
                result = ListOffsetsResult(*query[:2], code)
            partitions.add(**RESULT.write(_known_to(version, result)))
            yield PARTITION_ANSWER_WORK
        topics.add(name=topic.name, partitions=partitions.array())
    context.answer(reply(context.response_type, topics=topics.array()))


def _refusal(query: ListOffsetsQuery, version: int, times_asked: int) -> ErrorCode | None:
    """Why the log is not asked."""
    if times_asked > 1:
        return ErrorCode.INVALID_REQUEST
    if query.timestamp < 0 and version < _FIRST_VERSION_OF.get(query.timestamp, 99):
        return ErrorCode.UNSUPPORTED_VERSION
    return None


def _known_to(version: int, result: ListOffsetsResult) -> ListOffsetsResult:
    """The same with a code that the client knows."""
    if result.error_code is ErrorCode.OFFSET_NOT_AVAILABLE and version < 5:
        return result._replace(error_code=ErrorCode.LEADER_NOT_AVAILABLE)
    return result


API: Final = LocalApi(
    key=ApiKey.LIST_OFFSETS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 11),
    sent_version=SENT_VERSION,
    requires=(topics(Operation.DESCRIBE, renamed={"timestamp": -1}),),
    handle=handle,
)
