"""A client of the group APIs in every version, on a node that coordinates all groups."""

from typing import Any

from tests.unit.broker.one_node import OneNode, Wire
from tidelog.errors import ErrorCode
from tidelog.model import OFFSETS_TOPIC
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import has_field
from tidelog.wire.values import error_of, millis, uuid_of

SETTINGS = {
    "offsets_topic_num_partitions": "3",
    "offsets_topic_replication_factor": "1",
    "group_initial_rebalance_delay_ms": "0",
    "group_min_session_timeout_ms": "100",
}


def one_node(**settings: Any) -> OneNode:
    """A node with topic `t` of two partitions, and the offsets topic."""
    node = OneNode(**{**SETTINGS, **settings})
    wire = node.client()
    wire.create_topic("t", 2)
    find(wire)
    node.run_until(lambda: OFFSETS_TOPIC in node.broker.image.topics_by_name)
    node.settle()
    assert find(wire).node_id == 1
    return node


def find(wire: Wire, group_id: str = "g") -> Any:
    return wire.call(ApiKey.FIND_COORDINATOR, 2, key=group_id, key_type=0)


def topic_id_of(wire: Wire, name: str) -> Any:
    topic = wire.node.broker.image.topics_by_name.get(name)
    return uuid_of(b"u" * 16 if topic is None else topic.topic_id)


def commit(
    wire: Wire,
    version: int,
    offsets: dict[str, dict[int, int]],
    *,
    group_id: str = "g",
    generation_id: int = -1,
    member_id: str = "",
    note: str = "note",
    **values: Any,
) -> dict[tuple[str, int], ErrorCode]:
    """Commits; the error of each partition."""
    topics = [
        {
            "name": name,
            "topic_id": None if version < 10 else topic_id_of(wire, name),
            "partitions": [
                {
                    "partition_index": number,
                    "committed_offset": offset,
                    "committed_leader_epoch": 4,
                    "committed_metadata": note,
                }
                for number, offset in partitions.items()
            ],
        }
        for name, partitions in offsets.items()
    ]
    response = wire.call(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        topics=topics,
        **{"retention_time": millis(-1), **values},
    )
    names = list(offsets)
    return {
        (names[index], row.partition_index): error_of(row.error_code)
        for index, topic in enumerate(response.topics)
        for row in topic.partitions
    }


def fetch(
    wire: Wire,
    version: int,
    wanted: dict[str, list[int]] | None,
    group_id: str = "g",
    *,
    require_stable: bool = False,
) -> tuple[ErrorCode, dict[tuple[str, int], tuple[int, ErrorCode]]]:
    """Up to where a group has read: the error of the whole, offset and error of each partition."""
    topics = None
    if wanted is not None:
        topics = [
            {
                "name": name,
                "topic_id": None if version < 10 else topic_id_of(wire, name),
                "partition_indexes": tuple(numbers),
            }
            for name, numbers in wanted.items()
        ]
    values: dict[str, Any] = {"group_id": group_id, "topics": topics}
    response = wire.call(
        ApiKey.OFFSET_FETCH, version, groups=[values], require_stable=require_stable, **values
    )
    found = response.groups[0] if has_field(type(response), "groups") else response
    code = ErrorCode.NONE
    if has_field(type(found), "error_code"):
        code = error_of(found.error_code)
    names = {topic_id_of(wire, name): name for name in (wanted or {"t": []})}
    return code, {
        (
            topic.name if has_field(type(topic), "name") else names[topic.topic_id],
            row.partition_index,
        ): (row.committed_offset, error_of(row.error_code))
        for topic in found.topics
        for row in topic.partitions
    }


def join(wire: Wire, version: int, member_id: str = "", **values: Any) -> Any:
    """The answer to a JoinGroup; a member id that it demands is taken."""
    asked: dict[str, Any] = {
        "group_id": "g",
        "session_timeout": millis(10_000),
        "rebalance_timeout": millis(20_000),
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"meta"}],
        **values,
    }
    response = wire.call(ApiKey.JOIN_GROUP, version, member_id=member_id, **asked)
    if error_of(response.error_code) is ErrorCode.MEMBER_ID_REQUIRED:
        return join(wire, version, response.member_id, **values)
    return response


def sync(wire: Wire, version: int, joined: Any, assignment: bytes = b"all", **values: Any) -> Any:
    """The answer to the SyncGroup of a group's only member."""
    asked: dict[str, Any] = {
        "group_id": "g",
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": joined.member_id, "assignment": assignment}],
        **values,
    }
    return wire.call(ApiKey.SYNC_GROUP, version, **asked)


def refused_everywhere(wire: Wire) -> set[ErrorCode]:
    """What every group API answers at the moment."""
    codes = {
        *commit(wire, 9, {"t": {0: 1}}).values(),
        fetch(wire, 9, {"t": [0]})[0],
        fetch(wire, 7, None)[0],
        fetch(wire, 1, {"t": [0]})[1]["t", 0][1],
        error_of(join(wire, 9).error_code),
    }
    asked = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    for key, version in ((ApiKey.HEARTBEAT, 4), (ApiKey.SYNC_GROUP, 5)):
        values = {**asked, "assignments": (), "protocol_type": "consumer", "protocol_name": "range"}
        codes.add(error_of(wire.call(key, version, **values).error_code))
    leavers = [{"member_id": "m", "group_instance_id": None, "reason": None}]
    left = wire.call(ApiKey.LEAVE_GROUP, 5, group_id="g", members=leavers)
    deleted = wire.call(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=())
    return codes | {error_of(left.error_code), error_of(deleted.error_code)}
