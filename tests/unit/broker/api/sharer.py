"""A member of a share group, at the wire of one node that also coordinates its state."""

from collections.abc import Sequence
from typing import Any

from tests.unit.broker.api.share_client import initialize, one_node, set_level, topic_id_of
from tests.unit.broker.one_node import OneNode, Wire
from tidelog.errors import ErrorCode
from tidelog.model import ZERO_TOPIC_ID
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.sharing.values import ShareKey
from tidelog.wire import codec
from tidelog.wire import produce as wire_produce
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.produce import ProducePartition, ProduceRequest
from tidelog.wire.values import error_of, millis

LOCK_MS = 1000
WAIT_MS = 50


def sharing_node(*initialized: int, level: int = 1, **settings: str) -> OneNode:
    """A node whose share coordinator knows these partitions of topic `t`, from offset 0 on."""
    node = one_node(group_share_record_lock_duration_ms=str(LOCK_MS), **settings)
    wire = node.client()
    if not level:
        set_level(node, level)
    if initialized:
        initialize(wire, *initialized)
    return node


def fill(node: OneNode, partition: int, count: int, topic: str = "t") -> None:
    """Writes so many records, one batch each."""
    wire = node.client()
    for index in range(count):
        records = memoryview(build_batch([Record(1000, None, b"%d" % index, ())]))
        parts = [ProducePartition(topic, ZERO_TOPIC_ID, partition, records)]
        wire.send(wire_produce.pack_request(9, index, "c", ProduceRequest(None, -1, 1000, parts)))
        (frame,) = wire.frames()
        _, response = wire_produce.parse_response(9, frame)
        assert response.partitions[0].error_code is ErrorCode.NONE


def filled_node() -> OneNode:
    """A node that shares partitions 0 and 1 of topic `t`; partition 0 has ten records."""
    node = sharing_node(0, 1)
    fill(node, 0, 10)
    return node


def start_of(node: OneNode, number: int = 0) -> int:
    """Where the group's share of a partition of topic `t` begins."""
    topic_id = node.broker.image.topics_by_name["t"].topic_id
    held = node.broker.sharing.held.get(ShareKey("g", topic_id, number))
    assert held is not None and held.share is not None, f"partition {number} is not shared"
    return held.share.start


def code(answer: Any) -> ErrorCode:
    """That of the only partition in an answer."""
    (row,) = rows(answer)
    return error_of(row.error_code)


class Sharer:
    """Member `member_id` of group `g`, with a connection of its own."""

    def __init__(self, node: OneNode, member_id: str = "a", version: int = 2) -> None:
        self.node = node
        self.wire: Wire = node.client()
        self.member_id = member_id
        self.version = version
        self.epoch = 0
        self._asked = 0

    def ask(self, key: ApiKey, *, group_id: str | None = "g", **values: Any) -> None:
        """Sends a request."""
        self._asked += 1
        values = {
            "group_id": group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            **values,
        }
        entity = make(codec.request_class(key, self.version), **values)
        self.wire.send(codec.encode_request(entity, self._asked, "c"))
        self.epoch = self.epoch + 1 if self.epoch >= 0 else -1

    def answers(self, key: ApiKey) -> list[Any]:
        """The answers that have come."""
        return [codec.decode_response(key, self.version, frame)[1] for frame in self.wire.frames()]

    def start_fetch(
        self, *numbers: int, acks: dict[int, Sequence[tuple[Any, ...]]] | None = None, **values: Any
    ) -> None:
        """Fetches; `acks` are (first, last, types) by partition."""
        acks = acks or {}
        partitions = [
            {"partition_index": number, "acknowledgement_batches": rows_of(acks.get(number, ()))}
            for number in dict.fromkeys((*numbers, *acks))
        ]
        topics = [{"topic_id": topic_id_of(self.wire), "partitions": partitions}]
        usual = {
            "max_wait": millis(0),
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "share_acquire_mode": 0,
            "is_renew_ack": False,
            "topics": topics if partitions else (),
            "forgotten_topics_data": (),
        }
        self.ask(ApiKey.SHARE_FETCH, **{**usual, **values})

    def fetch(self, *numbers: int, **values: Any) -> Any:
        """Fetches, and waits a little if there is nothing; the answer."""
        self.start_fetch(*numbers, **{"max_wait": millis(WAIT_MS), **values})
        found = self.answers(ApiKey.SHARE_FETCH)
        if not found:
            self.node.advance(WAIT_MS)
            found = self.answers(ApiKey.SHARE_FETCH)
        (answer,) = found
        return answer

    def fetched(self) -> Any:
        """The one answer to a fetch that has come."""
        (answer,) = self.answers(ApiKey.SHARE_FETCH)
        return answer

    def acknowledge(self, number: int, *acks: tuple[Any, ...], **values: Any) -> Any:
        """Acknowledges (first, last, types) of a partition; the answer."""
        rows = [{"partition_index": number, "acknowledgement_batches": rows_of(acks)}]
        topics = [{"topic_id": topic_id_of(self.wire), "partitions": rows}]
        self.ask(ApiKey.SHARE_ACKNOWLEDGE, **{"is_renew_ack": False, "topics": topics, **values})
        (answer,) = self.answers(ApiKey.SHARE_ACKNOWLEDGE)
        return answer


def rows_of(acks: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [
        {
            "first_offset": first,
            "last_offset": last,
            "acknowledge_types": (kinds,) if isinstance(kinds, int) else tuple(kinds),
        }
        for first, last, kinds in acks
    ]


def acquired(answer: Any, number: int = 0) -> list[tuple[int, int, int]]:
    """What was acquired of a partition."""
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for row in rows(answer)
        if row.partition_index == number
        for each in row.acquired_records
    ]


def rows(answer: Any) -> list[Any]:
    """All partitions of an answer."""
    assert error_of(answer.error_code) is ErrorCode.NONE, answer
    return [row for topic in answer.responses for row in topic.partitions]
