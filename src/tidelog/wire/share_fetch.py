"""ShareFetch responses, versions 1 and 2, packed by hand: records are not copied.

Requests, and everything else of share groups, are kio entities.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from tidelog.env.effects import Chunk
from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH, NO_LEADER, TopicId
from tidelog.wire.api import length_and_response_header
from tidelog.wire.notation import FLEXIBLE, INT32, NO_TAGS, write_message
from tidelog.wire.topics import LeaderHint, NodeEndpoints, pack_leader, write_endpoints

NO_HINT: Final = LeaderHint(NO_LEADER, NO_EPOCH)

_HEAD: Final = Struct(">ih")
_PARTITION: Final = Struct(">ih")
_CODE: Final = Struct(">h")
_ACQUIRED: Final = Struct(">qqhB")


@dataclass(slots=True)
class ShareFetched:
    """The answer for one partition."""

    topic_id: TopicId
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    acknowledge_error_code: ErrorCode = ErrorCode.NONE
    acknowledge_error_message: str | None = None
    leader: LeaderHint = NO_HINT
    # Whole record batches.
    records: Sequence[Chunk] = ()
    records_bytes: int = 0
    # Of each range that the member has acquired: first and last offset, deliveries.
    acquired: Sequence[tuple[int, int, int]] = ()


@dataclass(slots=True)
class ShareFetchResponse:
    """One ShareFetch response."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    lock_ms: int = 0
    throttle_ms: int = 0
    partitions: list[ShareFetched] = field(default_factory=list)
    node_endpoints: NodeEndpoints = field(default_factory=list)


def pack_response(correlation_id: int, response: ShareFetchResponse) -> list[Chunk]:
    """A whole response with header and length prefix, as chunks to be sent in order."""
    first = out = bytearray(length_and_response_header(True, correlation_id))
    chunks: list[Chunk] = [out]
    total_bytes = 0
    out += _HEAD.pack(response.throttle_ms, response.error_code)
    write_message(FLEXIBLE, out, response.error_message)
    out += INT32.pack(response.lock_ms)
    by_topic: dict[TopicId, list[ShareFetched]] = {}
    for each in response.partitions:
        by_topic.setdefault(each.topic_id, []).append(each)
    FLEXIBLE.write_length(out, len(by_topic))
    for topic_id, partitions in by_topic.items():
        out += topic_id
        FLEXIBLE.write_length(out, len(partitions))
        for each in partitions:
            _write_head(out, each)
            if each.records_bytes:
                chunks += each.records
                total_bytes += each.records_bytes + len(out)
                out = bytearray()
                chunks.append(out)
            FLEXIBLE.write_length(out, len(each.acquired))
            for row in each.acquired:
                out += _ACQUIRED.pack(*row, NO_TAGS)
            out.append(NO_TAGS)
        out.append(NO_TAGS)
    write_endpoints(out, response.node_endpoints)
    out.append(NO_TAGS)
    INT32.pack_into(first, 0, total_bytes + len(out) - 4)
    return chunks


def _write_head(out: bytearray, answer: ShareFetched) -> None:
    """Everything of a partition up to the length of its records."""
    out += _PARTITION.pack(answer.partition, answer.error_code)
    write_message(FLEXIBLE, out, answer.error_message)
    out += _CODE.pack(answer.acknowledge_error_code)
    write_message(FLEXIBLE, out, answer.acknowledge_error_message)
    out += pack_leader(answer.leader)
    FLEXIBLE.write_length(out, answer.records_bytes)
