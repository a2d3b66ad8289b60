"""What the requests to share coordinators have in common: a group, topics, and their partitions.

Each share partition has a coordinator of its own, so each is asked for itself and has its own error
in the answer. A request without a group gets an answer without partitions, as from Kafka.
"""

from collections.abc import Callable
from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.gathering import Gathering
from tidelog.broker.api.needs import HasShares
from tidelog.broker.connections import RequestContext
from tidelog.broker.share_seats import ShareCall
from tidelog.env.instant import Instant
from tidelog.model import TopicId
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import Operation
from tidelog.shares.messages import Request, Response, StateResult
from tidelog.shares.records import SharePartition, Snapshot
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import bytes_of

Row = dict[str, object]
_NOTHING: Final = Snapshot(start_offset=0)
"""The fields of an error, as in Kafka."""


class Node(HasShares, Protocol):
    """What these APIs need."""


def share_state_api(
    key: ApiKey,
    doc: str,
    versions: VersionRange,
    *,
    asked_of: Callable[[SharePartition, Entity], Request],
    row_of: Callable[[Snapshot], Row] = lambda _: {},
) -> LocalApi[Node]:
    """The declaration of an API that asks the coordinator of each share partition. `asked_of` makes
    what is asked, `row_of` the fields of the answer from what is known about the share
    partition."""

    def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
        _ask_each(node, context, request, now, asked_of, row_of)

    return LocalApi(
        key=key,
        doc=doc,
        listeners=BROKERS,
        versions=versions,
        requires=(cluster(Operation.CLUSTER_ACTION, blank=0, renamed={"results": "topics"}),),
        handle=handle,
    )


def _ask_each(
    node: Node,
    context: RequestContext,
    request: Entity,
    now: Instant,
    asked_of: Callable[[SharePartition, Entity], Request],
    row_of: Callable[[Snapshot], Row],
) -> None:
    group_id = request.group_id
    wanted = [
        (TopicId(bytes_of(topic.topic_id)), partition)
        for topic in (request.topics if group_id else ())
        for partition in topic.partitions
    ]

    def finish(rows: list[Row]) -> None:
        results: dict[TopicId, list[Row]] = {}
        for (topic_id, _), row in zip(wanted, rows, strict=True):
            results.setdefault(topic_id, []).append(row)
        topics = [{"topic_id": each, "partitions": it} for each, it in results.items()]
        context.answer(reply(context.response_type, results=topics))

    gathering = Gathering[Row](len(wanted), finish)
    for index, (topic_id, entity) in enumerate(wanted):
        partition = SharePartition(group_id, topic_id, entity.partition)
        answer = _answer(partition.partition, row_of, gathering.part(index))
        node.shares.ask(asked_of(partition, entity), ShareCall(answer), now)


def _answer(
    number: int, row_of: Callable[[Snapshot], Row], take: Callable[[Row], None]
) -> Callable[[Response], None]:
    def answer(response: Response) -> None:
        result = response
        if isinstance(result, Refused):
            result = StateResult(result.error_code)
        known = {"error_code": result.error_code, "error_message": result.error_message}
        take({"partition": number, **known, **row_of(result.state or _NOTHING)})

    return answer
