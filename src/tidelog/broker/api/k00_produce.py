"""Produce (0), versions 3-13: records for the partitions led here.

A request with transactional records and no transactional id is refused as a whole, with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED. With an authorizer the client needs WRITE on the
transactional id of transactional records, and on each topic. Refused before the log is asked, in
this order: a topic id that is unknown (version 13 and up), a topic or partition that the metadata
does not have, zstd before version 7, internal topics from clients. Transactional records of more
than one producer are INVALID_PRODUCER_ID_MAPPING as a whole. `replication/` checks everything else:
leadership, min ISR, batches, sequences, and with the transaction coordinator whether a transaction
may begin in a partition (KIP-890). From version 12 on clients leave it to the leader to add the
partition.

With acks=0 there is no response at all; when a partition failed, the connection is closed, because
that is the only way for the client to notice. On NOT_LEADER_OR_FOLLOWER the answer names the
leader that the metadata knows, with its endpoint (KIP-951, version 10 and up). Without a leader it
names none, where Kafka names -1: no client can use that, and librdkafka warns about it.

Batches that take long to look into are validated first, beside the loop (`broker/inspections.py`).

A request whose batches are at fault leaves one log line, whatever its acks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from tidelog.broker.api import transaction_errors
from tidelog.broker.api.checks import InHandler
from tidelog.broker.api.declaration import BROKERS, HotApi, VersionRange
from tidelog.broker.api.leader_hints import node_endpoints, with_leaders
from tidelog.broker.api.needs import (
    HasClock,
    HasImage,
    HasInspections,
    HasReplicas,
    HasThrottling,
    HasTrace,
)
from tidelog.broker.connections import RequestContext
from tidelog.broker.events import BatchesRefused
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.log.validation import Judged
from tidelog.model import INTERNAL_TOPICS
from tidelog.records.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_BYTES,
    TRANSACTIONAL_FLAG,
    read_header,
)
from tidelog.records.compression import Codec
from tidelog.replication.produce_path import NOTHING_JUDGED
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire import produce as wire
from tidelog.wire.api import ApiKey
from tidelog.wire.produce import ProducedPartition, ProducePartition, ProduceRequest

ADMIN_CLIENT_ID: Final = "__admin_client"
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
FIRST_VERSION_WITH_LEADER_HINTS: Final = 10
FIRST_VERSION_WITH_ZSTD: Final = 7

_BAD_BATCH: Final = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    )
)
"""What only the sender of a batch can fix."""

_WRITE: Final = on(Operation.WRITE, ResourceType.TOPIC)
_WRITE_TRANSACTION: Final = on(
    Operation.WRITE, ResourceType.TRANSACTIONAL_ID, condition="transactional records"
)

_FLAGS_AT: Final = CRC_START + 1
"""The low byte of a batch's attributes: codec and flags."""


class Node(HasClock, HasImage, HasInspections, HasReplicas, HasThrottling, HasTrace, Protocol):
    """What Produce needs."""


@dataclass(slots=True, eq=False)
class ProduceCall:
    """A produce under way: the request to answer, and what was refused already."""

    context: RequestContext
    # A request with 0 gets no response.
    acks: int
    # Partitions that the log was never asked for.
    refused: list[ProducedPartition]


def handle(
    node: Node, context: RequestContext, frame: memoryview, offset: int, now: Instant
) -> None:
    """Hands the records to the replicas; the reply comes through `on_reply`."""
    version = context.header.api_version
    request = wire.parse_request(version, frame, offset)
    partitions: list[ProducePartition] = []
    refused: list[ProducedPartition] = []
    if _is_denied_transaction(context, request):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        refused = [_failed(partition, code) for partition in request.partitions]
        on_reply(node, ProduceCall(context, request.acks, refused), wire.ProduceResponse([]))
        return
    if request.transactional_id is not None and _has_many_producers(request):
        code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        refused = [_failed(partition, code) for partition in request.partitions]
        on_reply(node, ProduceCall(context, request.acks, refused), wire.ProduceResponse([]))
        return
    request = _without_denied(node, context, request, refused)
    for partition in request.partitions:
        found, code = _resolve(node, context, request, partition, version)
        if code is ErrorCode.NONE:
            partitions.append(found)
        else:
            refused.append(_failed(found, code))
    call = ProduceCall(context, request.acks, refused)
    accepted = request._replace(partitions=partitions)
    bumps_epoch = version >= transaction_errors.FIRST_PRODUCE_THAT_ADDS
    if any(map(node.inspections.may_be_long, partitions)):
        append = partial(_append, node, call, bumps_epoch)
        wall_ms = node.wall_ms(now)
        node.inspections.look(accepted, context.connection, append, now=now, wall_ms=wall_ms)
    else:
        _append(node, call, bumps_epoch, accepted, NOTHING_JUDGED, now)


def _append(
    node: Node,
    call: ProduceCall,
    bumps_epoch: bool,
    request: ProduceRequest,
    judged: Mapping[int, Judged],
    now: Instant,
) -> None:
    """What has to be known of the batches before is known."""
    pause_ms = node.replicas.produce(
        request, call, now, node.wall_ms(now), bumps_epoch=bumps_epoch, judged=judged
    )
    if pause_ms:
        node.throttling.on_ahead_of_followers(call.context, pause_ms, now)


def _is_denied_transaction(context: RequestContext, request: ProduceRequest) -> bool:
    """Whether there are transactional records, of no transactional id or of one that the client may
    not use. What counts is the flag of a batch and not the request's word (CVE-2018-17196)."""
    access, transactional_id = context.access, request.transactional_id
    if transactional_id is not None and access.is_unlimited:
        return False
    return any(_flags(each) & TRANSACTIONAL_FLAG for each in request.partitions) and (
        transactional_id is None or not access.meets(_WRITE_TRANSACTION, transactional_id)
    )


def _without_denied(
    node: Node, context: RequestContext, request: ProduceRequest, refused: list[ProducedPartition]
) -> ProduceRequest:
    """The request without the partitions that the client may not write to, which are refused. The
    name of a topic is a secret and its id is not."""
    access = context.access
    if access.is_unlimited:
        return request
    allowed: list[ProducePartition] = []
    for partition in request.partitions:
        name: str | None = partition.topic
        if context.header.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
            topic = node.image.topics_by_id.get(partition.topic_id)
            name = None if topic is None else topic.name
        if name is None or access.meets(_WRITE, name):
            allowed.append(partition)
        else:
            refused.append(_failed(partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return request._replace(partitions=allowed)


def _has_many_producers(request: ProduceRequest) -> bool:
    """Whether the transactional batches are of more than one producer."""
    headers = [
        read_header(partition.records)
        for partition in request.partitions
        if partition.records is not None and len(partition.records) >= HEADER_BYTES
    ]
    producers = [
        (each.producer_id, each.producer_epoch) for each in headers if each.is_transactional
    ]
    return len(set(producers)) > 1


def _flags(partition: ProducePartition) -> int:
    records = partition.records
    return records[_FLAGS_AT] if records is not None and len(records) > _FLAGS_AT else 0


def _resolve(
    node: Node,
    context: RequestContext,
    request: ProduceRequest,
    partition: ProducePartition,
    version: int,
) -> tuple[ProducePartition, ErrorCode]:
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        topic = node.image.topics_by_id.get(partition.topic_id)
        if topic is None:
            return partition, ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = node.image.topics_by_name.get(partition.topic)
    if topic is None or partition.partition not in topic.partitions:
        return partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = partition._replace(topic=topic.name, topic_id=topic.topic_id)
    if version < FIRST_VERSION_WITH_ZSTD and _flags(found) & CODEC_MASK == Codec.ZSTD:
        return found, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if topic.name in INTERNAL_TOPICS and context.header.client_id != ADMIN_CLIENT_ID:
        return found, ErrorCode.INVALID_TOPIC_EXCEPTION
    return found, ErrorCode.NONE


def _failed(partition: ProducePartition, code: ErrorCode) -> ProducedPartition:
    return ProducedPartition(
        partition.topic, partition.topic_id, partition.partition, code, -1, -1, -1
    )


def on_reply(node: Node, call: ProduceCall, response: wire.ProduceResponse) -> None:
    """The replicas are done with every partition."""
    if call.refused:
        response = response._replace(partitions=[*response.partitions, *call.refused])
    context = call.context
    failed = [p for p in response.partitions if p.error_code is not ErrorCode.NONE]
    if failed:
        _log_bad_batches(node, context, failed)
    if call.acks == 0:
        if failed:
            context.fill_and_close()
        else:
            context.fill([])
        return
    version = context.header.api_version
    if context.throttle_ms:
        response = response._replace(throttle_ms=context.throttle_ms)
    if failed:
        response = _with_known_errors(response, version)
    if version >= FIRST_VERSION_WITH_LEADER_HINTS and any(
        answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER for answer in failed
    ):
        response = _with_leaders(node, context, response)
    packed = wire.pack_response(version, context.header.correlation_id, response)
    context.fill([packed])


def _with_known_errors(response: wire.ProduceResponse, version: int) -> wire.ProduceResponse:
    """What the coordinator of transactions said, in the client's words."""
    partitions = [
        answer._replace(error_code=transaction_errors.of_produce(answer.error_code, version))
        for answer in response.partitions
    ]
    return response._replace(partitions=partitions)


def _log_bad_batches(node: Node, context: RequestContext, failed: list[ProducedPartition]) -> None:
    bad = [partition for partition in failed if partition.error_code in _BAD_BATCH]
    if bad:
        first = bad[0]
        node.trace.event(
            BatchesRefused(
                connection_id=context.connection.connection_id,
                error_code=first.error_code,
                message=first.error_message or "",
                partition=f"{first.topic}-{first.partition}",
                batches=len(bad),
                peer=context.connection.peer_host,
            )
        )


def _with_leaders(
    node: Node, context: RequestContext, response: wire.ProduceResponse
) -> wire.ProduceResponse:
    stale = (ErrorCode.NOT_LEADER_OR_FOLLOWER,)
    answers, leaders = with_leaders(node.image, response.partitions, stale)
    endpoints = node_endpoints(node.image, leaders, context.listener)
    return response._replace(partitions=answers, node_endpoints=endpoints)


# Listed from 0 although versions 0 to 2 are refused, as Kafka does: librdkafka takes a missing 0
# for a broker without message format 2 (KAFKA-18659).
API: Final = HotApi(
    key=ApiKey.PRODUCE,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(3, 13),
    advertised_from=0,
    requires=(InHandler(rights=_WRITE), InHandler(rights=_WRITE_TRANSACTION)),
    handle=handle,
)
