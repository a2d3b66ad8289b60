"""Reading and writing Fetch responses, versions 4 to 18. See `fetch.py`."""

from struct import Struct
from typing import Final

from tidelog.env.disk import Buffer, FileSlice
from tidelog.env.effects import Chunk
from tidelog.model import NO_OFFSET, EpochEndOffset, TopicId
from tidelog.wire.api import ApiKey, length_and_response_header, parse_response_header
from tidelog.wire.fetch_messages import (
    ENDPOINTS_FROM,
    FLEXIBLE_FROM,
    LOG_START_FROM,
    RACK_FROM,
    SESSIONS_FROM,
    TOPIC_ID_FROM,
    AbortedTransaction,
    FetchedPartition,
    FetchResponse,
    notation_of,
)
from tidelog.wire.notation import (
    INT32,
    NO_TAGS,
    Notation,
    check_tag,
    error_code,
    read_body,
    read_tags,
    skip_tags,
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

_DIVERGING_EPOCH_TAG: Final = 0
_CURRENT_LEADER_TAG: Final = 1
_SNAPSHOT_ID_TAG: Final = 2

_THROTTLE: Final = Struct(">i")
_ANSWER_HEAD: Final = Struct(">ihi")
_ANSWER_4: Final = Struct(">ihqq")
_ANSWER_5: Final = Struct(">ihqqq")
_USUAL_ANSWER: Final = Struct(">ihqqqBi")
"""A flexible answer up to its records, when it has no aborted transactions."""
_NULL_LIST: Final = 0
_EMPTY_LIST: Final = 1
_ABORTED: Final = Struct(">qq")
_EPOCH_END: Final = Struct(">iqB")
_SNAPSHOT: Final = Struct(">qiB")

# No entry of these lists takes fewer bytes, in any version.
_MIN_ANSWER_BYTES: Final = 23
_MIN_ABORTED_BYTES: Final = 16


def pack_response(version: int, correlation_id: int, response: FetchResponse) -> list[Chunk]:
    """A whole Fetch response with header and length prefix, as chunks to be sent in order.

    Record bytes are not copied: their chunks are those of the `FetchedPartition`s. Hints that
    the version cannot carry are left out.
    """
    notation = notation_of(version)
    flexible = notation.flexible
    first = out = bytearray(length_and_response_header(flexible, correlation_id))
    chunks: list[Chunk] = [out]
    total_bytes = 0
    if version >= SESSIONS_FROM:
        out += _ANSWER_HEAD.pack(response.throttle_ms, response.error_code, response.session_id)
    else:
        out += _THROTTLE.pack(response.throttle_ms)
    runs = runs_of_topics(response.partitions)
    notation.write_length(out, len(runs))
    for run in runs:
        write_topic(notation, version >= TOPIC_ID_FROM, out, run)
        for each in run:
            _write_answer(version, notation, out, each)
            if each.records:
                chunks += each.records
                total_bytes += each.records_bytes + len(out)
                out = bytearray()
                chunks.append(out)
            if flexible and (each.diverging_epoch or each.current_leader or each.snapshot_id):
                write_tags(out, _answer_tags(each))
            else:
                notation.write_no_tags(out)
        notation.write_no_tags(out)
    if response.node_endpoints and version >= ENDPOINTS_FROM:
        write_tags(out, endpoint_tags(response.node_endpoints))
    else:
        notation.write_no_tags(out)
    INT32.pack_into(first, 0, total_bytes + len(out) - 4)
    if not out:
        chunks.pop()
    return chunks


def _write_answer(
    version: int, notation: Notation, out: bytearray, answer: FetchedPartition
) -> None:
    """Everything of a partition up to the length of its records."""
    _, _, partition, error, high_watermark, last_stable, log_start = answer[:7]
    aborted = answer.aborted
    if version >= FLEXIBLE_FROM and not aborted:
        out += _USUAL_ANSWER.pack(
            partition,
            error,
            high_watermark,
            last_stable,
            log_start,
            _NULL_LIST if aborted is None else _EMPTY_LIST,
            answer.preferred_read_replica,
        )
    else:
        if version >= LOG_START_FROM:
            out += _ANSWER_5.pack(partition, error, high_watermark, last_stable, log_start)
        else:
            out += _ANSWER_4.pack(partition, error, high_watermark, last_stable)
        _write_aborted(notation, out, aborted)
        if version >= RACK_FROM:
            out += INT32.pack(answer.preferred_read_replica)
    size = answer.records_bytes
    chunks = [each.length if isinstance(each, FileSlice) else len(each) for each in answer.records]
    assert sum(chunks) == size, f"chunks of {chunks} bytes, not {size}"
    notation.write_length(out, size)


def _write_aborted(
    notation: Notation, out: bytearray, aborted: list[AbortedTransaction] | None
) -> None:
    if aborted is None:
        notation.write_length(out, -1)
        return
    notation.write_length(out, len(aborted))
    for each in aborted:
        out += _ABORTED.pack(*each)
        notation.write_no_tags(out)


def _answer_tags(answer: FetchedPartition) -> list[tuple[int, bytes]]:
    tags = []
    if answer.diverging_epoch is not None:
        tags.append((_DIVERGING_EPOCH_TAG, _EPOCH_END.pack(*answer.diverging_epoch, NO_TAGS)))
    if answer.current_leader is not None:
        tags.append((_CURRENT_LEADER_TAG, pack_leader(answer.current_leader)))
    if answer.snapshot_id is not None:
        epoch, end_offset = answer.snapshot_id
        tags.append((_SNAPSHOT_ID_TAG, _SNAPSHOT.pack(end_offset, epoch, NO_TAGS)))
    return tags


def parse_response(version: int, frame: Buffer) -> tuple[int, FetchResponse]:
    """The correlation id and the values of a Fetch response.

    Records are views of the frame. Raises `MalformedFrame`, and
    `ProtocolError(UNSUPPORTED_VERSION)`.
    """
    notation = notation_of(version)
    correlation_id, position = parse_response_header(ApiKey.FETCH, version, frame)
    what = "Fetch response"
    return correlation_id, read_body(what, _read_response, version, notation, frame, position)


def _read_response(
    version: int, notation: Notation, view: memoryview, position: int
) -> tuple[FetchResponse, int]:
    error, session_id = 0, 0
    if version >= SESSIONS_FROM:
        throttle_ms, error, session_id = _ANSWER_HEAD.unpack_from(view, position)
        position += _ANSWER_HEAD.size
    else:
        throttle_ms = _THROTTLE.unpack_from(view, position)[0]
        position += _THROTTLE.size
    partitions: list[FetchedPartition] = []
    topics, position = notation.read_count(view, position, MIN_TOPIC_BYTES)
    for _ in range(topics):
        topic, topic_id, count, position = read_topic(
            notation, version >= TOPIC_ID_FROM, view, position, _MIN_ANSWER_BYTES
        )
        for _ in range(count):
            answer, position = _read_answer(version, notation, view, position, topic, topic_id)
            partitions.append(answer)
        position = notation.skip_tags(view, position)
    endpoints: NodeEndpoints = []
    if notation.flexible:
        endpoints, position = read_endpoint_tags(version >= ENDPOINTS_FROM, view, position)
    response = FetchResponse(throttle_ms, error_code(error), session_id, partitions, endpoints)
    return response, position


def _read_answer(
    version: int, notation: Notation, view: memoryview, position: int, topic: str, topic_id: TopicId
) -> tuple[FetchedPartition, int]:
    fixed, aborted, preferred_read_replica, position = _read_fixed(
        version, notation, view, position
    )
    partition, error, high_watermark, last_stable_offset, log_start_offset = fixed
    records, position = notation.read_blob(view, position)
    diverging_epoch = current_leader = snapshot_id = None
    if notation.flexible:
        if view[position] == NO_TAGS:
            position += 1
        else:
            diverging_epoch, current_leader, snapshot_id, position = _read_answer_tags(
                view, position
            )
    answer = FetchedPartition(
        topic,
        topic_id,
        partition,
        error_code(error),
        high_watermark,
        last_stable_offset,
        log_start_offset,
        [records] if records else [],
        len(records) if records else 0,
        diverging_epoch,
        current_leader,
        snapshot_id,
        aborted,
        preferred_read_replica,
    )
    return answer, position


def _read_fixed(
    version: int, notation: Notation, view: memoryview, position: int
) -> tuple[tuple[int, ...], list[AbortedTransaction] | None, int, int]:
    """An answer up to its records: five numbers, aborted transactions, preferred replica."""
    if version >= FLEXIBLE_FROM:
        *fixed, aborted_length, preferred = _USUAL_ANSWER.unpack_from(view, position)
        end = position + _USUAL_ANSWER.size
        if aborted_length == _NULL_LIST:
            return tuple(fixed), None, preferred, end
        if aborted_length == _EMPTY_LIST:
            return tuple(fixed), [], preferred, end
    if version >= LOG_START_FROM:
        numbers = _ANSWER_5.unpack_from(view, position)
        position += _ANSWER_5.size
    else:
        numbers = (*_ANSWER_4.unpack_from(view, position), NO_OFFSET)
        position += _ANSWER_4.size
    aborted, position = _read_aborted(notation, view, position)
    preferred = -1
    if version >= RACK_FROM:
        preferred = INT32.unpack_from(view, position)[0]
        position += INT32.size
    return numbers, aborted, preferred, position


def _read_aborted(
    notation: Notation, view: memoryview, position: int
) -> tuple[list[AbortedTransaction] | None, int]:
    count, position = notation.read_nullable_count(view, position, _MIN_ABORTED_BYTES)
    if count < 0:
        return None, position
    aborted = []
    for _ in range(count):
        aborted.append(AbortedTransaction(*_ABORTED.unpack_from(view, position)))
        position = notation.skip_tags(view, position + _ABORTED.size)
    return aborted, position


def _read_answer_tags(
    view: memoryview, position: int
) -> tuple[EpochEndOffset | None, LeaderHint | None, EpochEndOffset | None, int]:
    diverging_epoch = current_leader = snapshot_id = None
    tags, position = read_tags(view, position)
    for tag, start, end in tags:
        if tag == _DIVERGING_EPOCH_TAG:
            epoch, end_offset, _ = _EPOCH_END.unpack_from(view, start)
            diverging_epoch = EpochEndOffset(epoch, end_offset)
            check_tag(tag, skip_tags(view, start + _EPOCH_END.size - 1), end)
        elif tag == _CURRENT_LEADER_TAG:
            current_leader = read_leader(tag, view, start, end)
        elif tag == _SNAPSHOT_ID_TAG:
            end_offset, epoch, _ = _SNAPSHOT.unpack_from(view, start)
            snapshot_id = EpochEndOffset(epoch, end_offset)
            check_tag(tag, skip_tags(view, start + _SNAPSHOT.size - 1), end)
    return diverging_epoch, current_leader, snapshot_id, position
