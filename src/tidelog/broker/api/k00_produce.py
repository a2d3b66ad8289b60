"""Produce (0), versions 3-13: records for the partitions led here.

A request with transactional records and no transactional id is refused as a whole, with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED. Refused before the log is asked, in this order: a topic id
that is unknown (version 13 and up), a topic or partition that the metadata does not have, zstd
before version 7, internal topics from clients. A produce with a transactional id is refused with
TRANSACTIONAL_ID_NOT_FOUND as long as no transaction coordinator exists: without one nobody could
end the transaction, and its first record would be the last stable offset for ever. Everything else
(leadership, min ISR, batch validation, sequences) is the replication room's.

With acks=0 there is no response at all; when a partition failed, the connection is closed, because
that is the only way the client can notice. On NOT_LEADER_OR_FOLLOWER the answer names the
leader that the metadata knows, with its endpoint (KIP-951, version 10 and up). Without a leader it
names none, where Kafka names -1: nobody can use that, and librdkafka warns about it.

A request whose batches are at fault leaves one log line, whatever its acks.
"""

from typing import Final

from tidelog.broker.connections import PendingRequest
from tidelog.broker.context import Broker
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import INTERNAL_TOPICS
from tidelog.records.batch import CODEC_MASK, CRC_START, TRANSACTIONAL_FLAG
from tidelog.records.compression import Codec
from tidelog.wire import produce as wire
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
"""What only the sender of a batch can mend."""

_FLAGS_AT: Final = CRC_START + 1
"""The low byte of a batch's attributes: codec and flags."""


class ProduceCall:
    """A produce under way: whom to answer, and what was refused already."""

    __slots__ = ("acks", "pending", "refused")

    def __init__(
        self, pending: PendingRequest, acks: int, refused: list[ProducedPartition]
    ) -> None:
        self.pending = pending
        # 0 is answered by silence.
        self.acks = acks
        # Partitions that the log was never asked for.
        self.refused = refused


def handle(
    broker: Broker, pending: PendingRequest, frame: memoryview, offset: int, now: Instant
) -> None:
    """Hands the records to the replicas; the reply comes through `on_reply`."""
    version = pending.header.api_version
    request = wire.parse_request(version, frame, offset)
    partitions: list[ProducePartition] = []
    refused: list[ProducedPartition] = []
    if request.transactional_id is None and _has_transactional_records(request):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        refused = [_failed(partition, code) for partition in request.partitions]
        call = ProduceCall(pending, request.acks, [])
        on_reply(broker, call, wire.ProduceResponse(refused))
        return
    for partition in request.partitions:
        found, code = _resolve(broker, pending, request, partition, version)
        if code is ErrorCode.NONE:
            partitions.append(found)
        else:
            refused.append(_failed(found, code))
    call = ProduceCall(pending, request.acks, refused)
    accepted = request._replace(partitions=partitions)
    broker.replicas.produce(accepted, call, now, broker.wall_ms(now))


def _flags(partition: ProducePartition) -> int:
    records = partition.records
    return records[_FLAGS_AT] if records is not None and len(records) > _FLAGS_AT else 0


def _has_transactional_records(request: ProduceRequest) -> bool:
    return any(_flags(partition) & TRANSACTIONAL_FLAG for partition in request.partitions)


def _resolve(
    broker: Broker,
    pending: PendingRequest,
    request: ProduceRequest,
    partition: ProducePartition,
    version: int,
) -> tuple[ProducePartition, ErrorCode]:
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        topic = broker.image.topics_by_id.get(partition.topic_id)
        if topic is None:
            return partition, ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = broker.image.topics_by_name.get(partition.topic)
    if topic is None or partition.partition not in topic.partitions:
        return partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = partition._replace(topic=topic.name, topic_id=topic.topic_id)
    if request.transactional_id is not None:
        return found, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if version < FIRST_VERSION_WITH_ZSTD and _flags(found) & CODEC_MASK == Codec.ZSTD:
        return found, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if topic.name in INTERNAL_TOPICS and pending.header.client_id != ADMIN_CLIENT_ID:
        return found, ErrorCode.INVALID_TOPIC_EXCEPTION
    return found, ErrorCode.NONE


def _failed(partition: ProducePartition, code: ErrorCode) -> ProducedPartition:
    return ProducedPartition(
        partition.topic, partition.topic_id, partition.partition, code, -1, -1, -1
    )


def on_reply(broker: Broker, call: ProduceCall, response: wire.ProduceResponse) -> None:
    """The replicas are done with every partition."""
    if call.refused:
        response = response._replace(partitions=[*response.partitions, *call.refused])
    pending = call.pending
    failed = [p for p in response.partitions if p.error_code is not ErrorCode.NONE]
    if failed:
        _log_bad_batches(broker, pending, failed)
    if call.acks == 0:
        if failed:
            broker.connections.fill_and_close(pending)
        else:
            broker.connections.fill(pending, [])
        return
    version = pending.header.api_version
    if version >= FIRST_VERSION_WITH_LEADER_HINTS and any(
        answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER for answer in failed
    ):
        response = _with_leaders(broker, pending, response)
    packed = wire.pack_response(version, pending.header.correlation_id, response)
    broker.connections.fill(pending, [packed])


def _log_bad_batches(
    broker: Broker, pending: PendingRequest, failed: list[ProducedPartition]
) -> None:
    bad = [partition for partition in failed if partition.error_code in _BAD_BATCH]
    if bad:
        first = bad[0]
        broker.trace.warn(
            f"connection {pending.connection.connection_id}",
            "produce",
            "refused",
            f"{first.error_code.name}: {first.error_message or 'no record batch'}",
            partition=f"{first.topic}-{first.partition}",
            batches=len(bad),
            peer=pending.connection.peer_host,
        )


def _with_leaders(
    broker: Broker, pending: PendingRequest, response: wire.ProduceResponse
) -> wire.ProduceResponse:
    stale = (ErrorCode.NOT_LEADER_OR_FOLLOWER,)
    answers, leaders = broker.with_leaders(response.partitions, stale)
    endpoints = broker.node_endpoints(leaders, pending.connection.listener)
    return response._replace(partitions=answers, node_endpoints=endpoints)
