"""DeleteRecords (21), versions 0-2: deletes everything below an offset, on all replicas (KIP-107).

Clients send it to the leaders. Refused here: topics and partitions that the metadata does not have
(UNKNOWN_TOPIC_OR_PARTITION) and internal topics (INVALID_TOPIC_EXCEPTION). The leader decides the
rest, see `replication/delete_path.py`. The answer comes when all alive replicas have deleted the
records, or at the deadline of the request.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import topics
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasImage, HasReplicas
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import INTERNAL_TOPICS
from tidelog.replication.messages import DeletedRecords, DeleteRecordsResult, RecordsToDelete
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Rows, Shape
from tidelog.wire.values import to_millis

_WANTED: Final = Rows("topics.partitions", Shape(RecordsToDelete, topic="name"), by=["name"])
_DELETED: Final = Rows("topics.partitions", Shape(DeletedRecords, topic="name"), by=["name"])


class Node(HasImage, HasReplicas, Protocol):
    """What DeleteRecords needs."""


@dataclass(slots=True, eq=False)
class DeleteCall:
    """A deletion under way: the request to answer, and what was refused already."""

    context: RequestContext
    # Partitions whose logs are left alone.
    refused: list[DeletedRecords]


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the offsets to the replicas; the reply comes through `on_reply`."""
    wanted: list[RecordsToDelete] = []
    refused: list[DeletedRecords] = []
    for want in _WANTED.read(request):
        code = _refusal(node, want)
        if code is ErrorCode.NONE:
            wanted.append(want)
        else:
            refused.append(DeletedRecords(want.topic, want.partition, code))
    call = DeleteCall(context, refused)
    node.replicas.delete_records(wanted, call, now, timeout_ms=to_millis(request.timeout))


def _refusal(node: Node, want: RecordsToDelete) -> ErrorCode:
    topic = node.image.topics_by_name.get(want.topic)
    if topic is None or want.partition not in topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if want.topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.NONE


def on_reply(call: DeleteCall, response: DeleteRecordsResult) -> None:
    """The replicas are done with every partition."""
    context, results = call.context, (*response.partitions, *call.refused)
    context.answer(reply(context.response_type, **_DELETED.write(results)))


API: Final = LocalApi(
    key=ApiKey.DELETE_RECORDS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 2),
    requires=(topics(Operation.DELETE),),
    handle=handle,
)
