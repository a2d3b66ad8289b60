"""Produce (API 0) as version-free values, and its hand-packed codec for versions 3 to 13.

Record batches are opaque here: they stay views of the frame. What the versions brought, as far as
the bytes differ: 5 log start offset, 8 which record was wrong (KIP-467), 9 tagged fields, 10 who
leads instead (KIP-951), 13 topic ids (KIP-516).
"""

from struct import Struct
from typing import Final, NamedTuple

from tidelog.env.disk import Buffer
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.model import TopicId
from tidelog.wire.api import (
    ApiKey,
    length_and_response_header,
    pack_header,
    parse_response_header,
    with_length,
)
from tidelog.wire.notation import (
    CLASSIC,
    FLEXIBLE,
    INT32,
    NO_TAGS,
    Notation,
    error_code,
    read_body,
    read_tags,
    skip_tags,
    write_message,
    write_tags,
)
from tidelog.wire.topics import (
    MIN_TOPIC_BYTES,
    LeaderHint,
    NodeEndpoints,
    endpoint_tags,
    pack_leader,
    read_endpoint_tags,
    read_leader,
    read_topic,
    runs_of_topics,
    write_topic,
)


class ProducePartition(NamedTuple):
    """Records for one partition."""

    topic: str
    topic_id: TopicId
    partition: int
    records: memoryview | None
    """Record batches as they arrived; valid only while the request is handled."""


class ProduceRequest(NamedTuple):
    """One Produce request of any version."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[ProducePartition]


class RecordError(NamedTuple):
    """Why one record made its batch fail (v8+)."""

    batch_index: int
    message: str | None


class ProducedPartition(NamedTuple):
    """The answer for one partition."""

    topic: str
    topic_id: TopicId
    partition: int
    error_code: ErrorCode
    base_offset: int
    log_append_time_ms: int
    """-1 for CreateTime topics."""
    log_start_offset: int
    record_errors: tuple[RecordError, ...] = ()
    error_message: str | None = None
    current_leader: LeaderHint | None = None


class ProduceResponse(NamedTuple):
    """One Produce response of any version."""

    partitions: list[ProducedPartition]
    throttle_ms: int = 0
    node_endpoints: NodeEndpoints = []


# Versions ----------------------------------------------------------------------------------

MIN_VERSION: Final = 3
MAX_VERSION: Final = 13

_LOG_START_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
_FLEXIBLE_FROM: Final = 9
_HINTS_FROM: Final = 10
_TOPIC_ID_FROM: Final = 13

_CURRENT_LEADER_TAG: Final = 0

_ACKS: Final = Struct(">hi")
_ANSWER_3: Final = Struct(">ihqq")
_ANSWER_5: Final = Struct(">ihqqq")

# No entry of these lists takes fewer bytes, in any version.
_MIN_PARTITION_BYTES: Final = 5
_MIN_ANSWER_BYTES: Final = 22
_MIN_RECORD_ERROR_BYTES: Final = 5

# What follows the offsets in the usual answer: no record errors, no message, no tags.
_NO_ERRORS_CLASSIC: Final = b"\x00\x00\x00\x00\xff\xff"
_NO_ERRORS_FLEXIBLE: Final = b"\x01\x00\x00"


def _notation(version: int) -> Notation:
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, f"Produce version `{version}`")
    return FLEXIBLE if version >= _FLEXIBLE_FROM else CLASSIC


# The request ---------------------------------------------------------------------------------


def parse_request(version: int, frame: Buffer, offset: int) -> ProduceRequest:
    """Reads the body of a Produce request that begins at `offset`.

    The records are views of the frame. Raises `MalformedFrame`, and
    `ProtocolError(UNSUPPORTED_VERSION)`, also for 0 to 2, which are advertised but not served.
    """
    notation = _notation(version)
    return read_body("Produce request", _read_request, version, notation, frame, offset)


def _read_request(
    version: int, notation: Notation, view: memoryview, position: int
) -> tuple[ProduceRequest, int]:
    has_id = version >= _TOPIC_ID_FROM
    flexible = notation.flexible
    read_count, read_blob = notation.read_count, notation.read_blob
    transactional_id, position = notation.read_nullable_text(view, position)
    acks, timeout_ms = _ACKS.unpack_from(view, position)
    topics, position = read_count(view, position + _ACKS.size, MIN_TOPIC_BYTES)
    partitions: list[ProducePartition] = []
    for _ in range(topics):
        topic, topic_id, count, position = read_topic(
            notation, has_id, view, position, _MIN_PARTITION_BYTES
        )
        for _ in range(count):
            partition = INT32.unpack_from(view, position)[0]
            records, position = read_blob(view, position + INT32.size)
            partitions.append(ProducePartition(topic, topic_id, partition, records))
            if flexible:
                position = position + 1 if view[position] == NO_TAGS else skip_tags(view, position)
        if flexible:
            position = position + 1 if view[position] == NO_TAGS else skip_tags(view, position)
    if flexible:
        position = skip_tags(view, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions), position


def pack_request(
    version: int, correlation_id: int, client_id: str | None, request: ProduceRequest
) -> bytes:
    """A whole Produce request with header and length prefix."""
    notation = _notation(version)
    out = bytearray(4)
    out += pack_header(ApiKey.PRODUCE, version, correlation_id, client_id)
    notation.write_text(out, request.transactional_id)
    out += _ACKS.pack(request.acks, request.timeout_ms)
    runs = runs_of_topics(request.partitions)
    notation.write_length(out, len(runs))
    for run in runs:
        write_topic(notation, version >= _TOPIC_ID_FROM, out, run)
        for each in run:
            out += INT32.pack(each.partition)
            if each.records is None:
                notation.write_length(out, -1)
            else:
                notation.write_length(out, len(each.records))
                out += each.records
            notation.write_no_tags(out)
        notation.write_no_tags(out)
    notation.write_no_tags(out)
    return with_length(out)


# The response ----------------------------------------------------------------------------------


def pack_response(version: int, correlation_id: int, response: ProduceResponse) -> bytes:
    """A whole Produce response with header and length prefix.

    Partitions of one topic come together, in the order in which the topics first appear. A
    request with acks 0 has no response at all: do not call this for one.
    """
    notation = _notation(version)
    out = bytearray(length_and_response_header(notation.flexible, correlation_id))
    runs = _by_topic(response.partitions)
    notation.write_length(out, len(runs))
    for run in runs:
        write_topic(notation, version >= _TOPIC_ID_FROM, out, run)
        for each in run:
            _write_answer(version, notation, out, each)
        notation.write_no_tags(out)
    out += INT32.pack(response.throttle_ms)
    if response.node_endpoints and version >= _HINTS_FROM:
        write_tags(out, endpoint_tags(response.node_endpoints))
    else:
        notation.write_no_tags(out)
    return with_length(out)


def _by_topic(partitions: list[ProducedPartition]) -> list[list[ProducedPartition]]:
    if len(partitions) == 1:
        return [partitions]
    topics: dict[tuple[str, TopicId], list[ProducedPartition]] = {}
    for partition in partitions:
        topics.setdefault((partition.topic, partition.topic_id), []).append(partition)
    return list(topics.values())


def _write_answer(
    version: int, notation: Notation, out: bytearray, answer: ProducedPartition
) -> None:
    fixed = (answer.partition, answer.error_code, answer.base_offset, answer.log_append_time_ms)
    if version < _LOG_START_FROM:
        out += _ANSWER_3.pack(*fixed)
        return
    out += _ANSWER_5.pack(*fixed, answer.log_start_offset)
    if version < _RECORD_ERRORS_FROM:
        return
    leader = answer.current_leader if version >= _HINTS_FROM else None
    if not answer.record_errors and answer.error_message is None and leader is None:
        out += _NO_ERRORS_FLEXIBLE if notation.flexible else _NO_ERRORS_CLASSIC
        return
    notation.write_length(out, len(answer.record_errors))
    for record_error in answer.record_errors:
        out += INT32.pack(record_error.batch_index)
        write_message(notation, out, record_error.message)
        notation.write_no_tags(out)
    write_message(notation, out, answer.error_message)
    if leader is not None:
        write_tags(out, [(_CURRENT_LEADER_TAG, pack_leader(leader))])
    else:
        notation.write_no_tags(out)


def parse_response(version: int, frame: Buffer) -> tuple[int, ProduceResponse]:
    """The correlation id and the values of a Produce response.

    Raises `MalformedFrame`, and `ProtocolError(UNSUPPORTED_VERSION)`.
    """
    notation = _notation(version)
    correlation_id, position = parse_response_header(ApiKey.PRODUCE, version, frame)
    what = "Produce response"
    return correlation_id, read_body(what, _read_response, version, notation, frame, position)


def _read_response(
    version: int, notation: Notation, view: memoryview, position: int
) -> tuple[ProduceResponse, int]:
    partitions: list[ProducedPartition] = []
    topics, position = notation.read_count(view, position, MIN_TOPIC_BYTES)
    for _ in range(topics):
        topic, topic_id, count, position = read_topic(
            notation, version >= _TOPIC_ID_FROM, view, position, _MIN_ANSWER_BYTES
        )
        for _ in range(count):
            answer, position = _read_answer(version, notation, view, position, (topic, topic_id))
            partitions.append(answer)
        position = notation.skip_tags(view, position)
    throttle_ms = INT32.unpack_from(view, position)[0]
    position += INT32.size
    endpoints: NodeEndpoints = []
    if notation.flexible:
        endpoints, position = read_endpoint_tags(version >= _HINTS_FROM, view, position)
    return ProduceResponse(partitions, throttle_ms, endpoints), position


def _read_answer(
    version: int, notation: Notation, view: memoryview, position: int, topic: tuple[str, TopicId]
) -> tuple[ProducedPartition, int]:
    log_start_offset = -1
    if version >= _LOG_START_FROM:
        partition, error, base_offset, append_time_ms, log_start_offset = _ANSWER_5.unpack_from(
            view, position
        )
        position += _ANSWER_5.size
    else:
        partition, error, base_offset, append_time_ms = _ANSWER_3.unpack_from(view, position)
        position += _ANSWER_3.size
    errors: list[RecordError] = []
    message = None
    if version >= _RECORD_ERRORS_FROM:
        count, position = notation.read_count(view, position, _MIN_RECORD_ERROR_BYTES)
        for _ in range(count):
            index = INT32.unpack_from(view, position)[0]
            text, position = notation.read_nullable_text(view, position + INT32.size)
            position = notation.skip_tags(view, position)
            errors.append(RecordError(index, text))
        message, position = notation.read_nullable_text(view, position)
    leader = None
    if notation.flexible:
        tags, position = read_tags(view, position)
        for tag, start, end in tags:
            if tag == _CURRENT_LEADER_TAG and version >= _HINTS_FROM:
                leader = read_leader(tag, view, start, end)
    answer = ProducedPartition(
        *topic,
        partition,
        error_code(error),
        base_offset,
        append_time_ms,
        log_start_offset,
        tuple(errors),
        message,
        leader,
    )
    return answer, position
