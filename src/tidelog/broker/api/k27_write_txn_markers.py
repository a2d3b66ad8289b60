"""WriteTxnMarkers (27), versions 1-2: a coordinator ends transactions on the leaders.

Each marker goes into all its partitions, and the answer comes when they are replicated, as for a
Produce with acks=all. A marker of an older coordinator is TRANSACTION_COORDINATOR_FENCED, one of an
older producer INVALID_PRODUCER_EPOCH; a repetition is written again and changes nothing. Version 2
says whether the epoch is that of the next transaction (transaction version 2, KIP-890); then the
transaction that it ends must have a lower one. A marker without a producer would be a batch that no
reader takes: INVALID_REQUEST. An epoch below that of no producer is INVALID_PRODUCER_EPOCH.

A partition of `__consumer_offsets` has its group coordinator write the marker, which then counts
the offsets of the transaction, or drops them. While it is not there, the answer is
NOT_LEADER_OR_FOLLOWER, which the transaction coordinator understands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Whole
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.gathering import Gathering
from tidelog.broker.api.needs import HasConfig, HasGroups, HasImage, HasReplicas
from tidelog.broker.connections import RequestContext
from tidelog.broker.group_seats import GroupCall
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.messages import EndTransaction, EndTransactionResult, Response
from tidelog.log.producer_entry import NO_PRODUCER_EPOCH
from tidelog.model import OFFSETS_TOPIC, TopicPartition
from tidelog.records.control import EndTxnMarker
from tidelog.replication.messages import MarkerToWrite
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import Operation, ResourceType, Right
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.produce import ProduceResponse

SENT_VERSION: Final = 2
FIRST_TRANSACTION_VERSION_THAT_BUMPS: Final = 2

_NO_COORDINATOR: Final = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
)


class Node(HasConfig, HasGroups, HasImage, HasReplicas, Protocol):
    """What WriteTxnMarkers needs."""


class _Row(NamedTuple):
    """A marker for a partition, and the place of the request's marker."""

    position: int
    marker: MarkerToWrite


Take = Callable[[list[ErrorCode]], None]


@dataclass(slots=True, eq=False)
class MarkersCall:
    """Markers under way to the replicas."""

    # Gets their error codes, in the order of the markers.
    take: Take


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the markers to the replicas and the group coordinators."""
    rows = [
        _Row(index, _marker_of(marker, topic.name, number))
        for index, marker in enumerate(request.markers)
        for topic in marker.topics
        for number in topic.partition_indexes
    ]
    valid = [row for row in rows if min(row.marker.producer_id, row.marker.producer_epoch) >= 0]
    plain = [row for row in valid if row.marker.topic != OFFSETS_TOPIC]
    of_groups = [row for row in valid if row.marker.topic == OFFSETS_TOPIC]

    def finish(parts: list[list[ErrorCode]]) -> None:
        codes = {row: _code_without_producer(node, row.marker) for row in rows}
        codes |= zip(plain, parts[0], strict=True)
        codes |= {row: part[0] for row, part in zip(of_groups, parts[1:], strict=True)}
        context.answer(_response(context, request, rows, codes))

    gathering = Gathering[list[ErrorCode]](1 + len(of_groups), finish)
    for index, row in enumerate(of_groups):
        _end_in_group(node, row.marker, gathering.part(1 + index), now)
    node.replicas.transactions.write_markers(
        [row.marker for row in plain],
        MarkersCall(gathering.part(0)),
        now,
        timeout_ms=node.config.broker.request_timeout_ms,
    )


def _code_without_producer(node: Node, marker: MarkerToWrite) -> ErrorCode:
    if not node.image.exists(TopicPartition(marker.topic, marker.partition)):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if marker.producer_id >= 0 and marker.producer_epoch < NO_PRODUCER_EPOCH:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.INVALID_REQUEST


def _marker_of(marker: Entity, topic: str, number: int) -> MarkerToWrite:
    version = field(marker, "transaction_version", 0)
    return MarkerToWrite(
        topic,
        number,
        marker.producer_id,
        marker.producer_epoch,
        EndTxnMarker(marker.transaction_result, marker.coordinator_epoch),
        bumps_epoch=version >= FIRST_TRANSACTION_VERSION_THAT_BUMPS,
    )


def _end_in_group(node: Node, row: MarkerToWrite, take: Take, now: Instant) -> None:
    def answer(response: Response) -> None:
        assert isinstance(response, Refused | EndTransactionResult), f"{response}"
        code = response.error_code
        take([ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NO_COORDINATOR else code])

    _, number, producer_id, producer_epoch, marker, bumps_epoch = row
    ended = EndTransaction(producer_id, producer_epoch, marker, bumps_epoch)
    node.groups.end_transaction(number, ended, GroupCall(answer), now)


def on_reply(call: MarkersCall, response: ProduceResponse) -> None:
    """The replicas are done with every partition."""
    call.take([partition.error_code for partition in response.partitions])


def _response(
    context: RequestContext, request: Entity, rows: list[_Row], codes: dict[_Row, ErrorCode]
) -> Entity:
    markers, left = [], iter(rows)
    for marker in request.markers:
        # The rows are in the order of the request, so those of a topic that it repeats are, too.
        topics: dict[str, list[dict[str, object]]] = {topic.name: [] for topic in marker.topics}
        for row in islice(left, sum(len(topic.partition_indexes) for topic in marker.topics)):
            topics[row.marker.topic].append(
                {"partition_index": row.marker.partition, "error_code": codes[row]}
            )
        named = [{"name": name, "partitions": found} for name, found in topics.items()]
        markers.append({"producer_id": marker.producer_id, "topics": named})
    return reply(context.response_type, markers=markers)


API: Final = LocalApi(
    key=ApiKey.WRITE_TXN_MARKERS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 2),
    sent_version=SENT_VERSION,
    requires=(
        Whole(
            rights=(
                Right(Operation.ALTER, ResourceType.CLUSTER),
                Right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
            ),
            renamed={"partitions": "partition_indexes"},
        ),
    ),
    handle=handle,
)
