"""Packed topics in an answer: the bytes that the generic writer would write."""

from typing import Any

import pytest

from tidelog.model import TopicId
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader
from tidelog.wire.entities import make
from tidelog.wire.metadata import Members, pack_members, pack_partition, pack_topic, with_topics

TOPIC_ID = TopicId(b"0123456789abcdef")
MEMBERS = Members((1, 2, 3), (1, 3), (2,))
OPERATIONS = 3576


def topics(count: int) -> list[dict[str, Any]]:
    """Topics as the generic writer takes them; the second has many partitions."""
    return [
        {
            "error_code": 0,
            "name": f"topic-{number}",
            "topic_id": TOPIC_ID,
            "is_internal": number == 1,
            "partitions": [
                {
                    "error_code": 5 * (index % 2),
                    "partition_index": index,
                    "leader_id": -1 if index % 2 else 1,
                    "leader_epoch": 70_000 + index,
                    "replica_nodes": MEMBERS.replicas,
                    "isr_nodes": MEMBERS.isr,
                    "offline_replicas": MEMBERS.offline,
                }
                for index in range(200 * number)
            ],
            "topic_authorized_operations": OPERATIONS,
        }
        for number in range(count)
    ]


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("count", [0, 1, 3, 130])
def test_an_answer_has_the_bytes_of_the_generic_writer(version: int, count: int) -> None:
    def answer(rows: list[dict[str, Any]]) -> bytes:
        entity = make(
            codec.response_class(ApiKey.METADATA, version),
            throttle_time=0,
            brokers=[{"node_id": 1, "host": "h", "port": 9092, "rack": None}],
            cluster_id="c",
            controller_id=1,
            topics=rows,
            cluster_authorized_operations=OPERATIONS,
            error_code=0,
        )
        return codec.encode_response(RequestHeader(ApiKey.METADATA, version, 7, "x"), entity)

    rows = topics(min(count, 3)) + topics(1) * max(0, count - 3)
    members = pack_members(version, MEMBERS)
    packed = [
        pack_topic(
            version,
            row["name"],
            TOPIC_ID,
            row["is_internal"],
            [
                pack_partition(
                    version,
                    one["error_code"],
                    one["partition_index"],
                    one["leader_id"],
                    one["leader_epoch"],
                    members,
                )
                for one in row["partitions"]
            ],
            OPERATIONS,
        )
        for row in rows
    ]
    assert b"".join(with_topics(version, answer([]), packed)) == answer(rows)
