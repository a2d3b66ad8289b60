"""Texts of every length, in every place for one: a client cannot stop a node with a long name.

A text has 32,767 bytes at most, in either notation of the wire, as in Apache Kafka. The compact
notation could announce more; such a request costs its connection, before anything is decided. The
longest that may come must go wherever the node writes it: into records, into answers, with words
around it.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_origin

import pytest

from tests.long_texts import MARK, encode_long_request
from tests.served import BROKER_APIS, CONTROLLER_APIS
from tests.unit.broker.one_node import BROKER, CONTROLLER, OneNode, Wire
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_TEXT_BYTES
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, is_flexible
from tidelog.wire.entities import make
from tidelog.wire.values import error, error_of, millis, uuid_of

LENGTHS = (MAX_TEXT_BYTES, MAX_TEXT_BYTES + 1, 40_000, 70_000)
COORDINATORS = ((0, "g"), (1, "x"), (2, "g:AQIDBAUGBwgJCgsMDQ4PEA:0"))
INTERNAL = ("offsets_topic", "transaction_state_log", "share_coordinator_state_topic")
SMALL = {
    f"{name}_{of}": "1" for name in INTERNAL for of in ("num_partitions", "replication_factor")
}
SMALL["group_initial_rebalance_delay_ms"] = "0"
TABLES = {BROKER: BROKER_APIS, CONTROLLER: CONTROLLER_APIS}
ENDS_SESSIONS = (ApiKey.BROKER_HEARTBEAT, ApiKey.UNREGISTER_BROKER)
"""They have no texts, and would end the one node's session."""
PLAIN = {
    "bool": False,
    "bytes": b"",
    "records": build_batch([Record(0, b"k", b"v", ())]),
    "float64": 1.0,
    "timedelta_i32": millis(30_000),
    "timedelta_i64": millis(30_000),
    "error_code": error(ErrorCode.NONE),
}
GOOD = {
    "acks": -1,
    "assignments": (),
    "configs": (),
    "coordinator_keys": ("g",),
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "group_id": "g",
    "group_instance_id": None,
    "instance_id": None,
    "key": "g",
    "mechanism": 1,
    "member_id": "",
    "num_partitions": 1,
    "producer_epoch": -1,
    "producer_id": -1,
    "protocol_name": "range",
    "protocol_type": "consumer",
    "replica_id": -1,
    "replication_factor": 1,
    "resource_type": 2,
    "server_assignor": None,
    "topic_partitions": (),
    "transactional_id": "x",
    "v3_and_below_transactional_id": "x",
}
"""Values that requests go far with, by field; other texts are the name of the topic."""


def coordinating_all() -> OneNode:
    """A node with topic `t`, and with every kind of coordinator."""
    node = OneNode(reaches_itself=True, **SMALL)
    wire = node.client()
    wire.create_topic("t", 2)
    for kind, key in COORDINATORS:

        def found(kind: int = kind, key: str = key) -> bool:
            answer = wire.call(
                ApiKey.FIND_COORDINATOR, 6, key_type=kind, coordinator_keys=(key,)
            ).coordinators[0]
            return error_of(answer.error_code) is ErrorCode.NONE

        node.run_until(found)
    broker = node.broker
    for seats in (broker.groups, broker.transactions, broker.shares):
        node.run_until(lambda seats=seats: seats.coordinators() is not None)
    return node


def send(wire: Wire, entity: Any, length: int) -> bytes | None:
    """Sends the request with texts of this length; the answer, or `None` when the node closed."""
    wire.send(encode_long_request(entity, 1, "c", "x" * length))
    found = wire.frames()
    for _ in range(100):
        if found or wire.closed:
            break
        wire.node.advance(10)
        found = wire.frames()
    return found[0] if found else None


def plausible(entity_type: Any, topic_id: Any) -> Any:
    """A request that says what a client might say, with a row in each array."""

    def value(item: Any) -> Any:
        if item.name in GOOD:
            return GOOD[item.name]
        parts = [item.type, *get_args(item.type)]
        array = next((each for each in parts if get_origin(each) is tuple), None)
        nested = [each for each in (*parts, *get_args(array or ())) if is_dataclass(each)]
        if nested:
            row = entity(nested[0])
        elif item.metadata["kafka_type"] == "string":
            row = "t"
        elif item.metadata["kafka_type"] == "uuid":
            row = uuid_of(topic_id)
        else:
            return () if array else PLAIN.get(item.metadata["kafka_type"], 0)
        return (row,) if array else row

    def entity(kind: Any) -> Any:
        return kind(**{item.name: value(item) for item in fields(kind)})

    return entity(entity_type)


def with_mark(entity: Any) -> Iterator[Any]:
    """The entity with `MARK` for each of its texts in turn."""
    for item in fields(type(entity)):
        value = getattr(entity, item.name)
        for changed in _marked(value, item):
            yield replace(entity, **{item.name: changed})


def _marked(value: Any, item: Any) -> Iterator[Any]:
    first = value[0] if isinstance(value, tuple) and value else value
    changed = with_mark(first) if is_dataclass(first) else ()
    if item.metadata.get("kafka_type") == "string":
        changed = (MARK,)
    for each in changed:
        yield (each,) if isinstance(value, tuple) else each


@pytest.mark.parametrize("listener", TABLES)
def test_no_text_of_any_request_stops_a_node(listener: str) -> None:
    """Each text of each version in turn, as long as it may be, and longer."""
    node, asked = coordinating_all(), 0
    topic_id = node.broker.image.topics_by_name["t"].topic_id
    for key, (low, high) in TABLES[listener].items():
        if key in ENDS_SESSIONS:
            continue
        for version in range(low, high + 1):
            entity = plausible(codec.request_class(key, version), topic_id)
            lengths = LENGTHS if is_flexible(key, version) else LENGTHS[:1]
            for changed in with_mark(entity):
                for length in lengths:
                    wire = node.client(listener)
                    frame = send(wire, changed, length)
                    assert node.exits == [], (key.name, version, changed)
                    assert length <= MAX_TEXT_BYTES or frame is None, (key.name, version, changed)
                    asked += 1
    assert asked > (500 if listener == BROKER else 100)


CRASHES: dict[str, tuple[ApiKey, int, dict[str, Any]]] = {
    "transactional id": (
        ApiKey.INIT_PRODUCER_ID,
        5,
        {"transactional_id": MARK, "transaction_timeout": millis(60_000)},
    ),
    "group of a commit": (
        ApiKey.OFFSET_COMMIT,
        9,
        {
            "group_id": MARK,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": (
                {
                    "name": "t",
                    "partitions": (
                        {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""},
                    ),
                },
            ),
        },
    ),
    "member": (
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        {
            "group_id": "new",
            "member_id": MARK,
            "member_epoch": 0,
            "rebalance_timeout": millis(60_000),
            "subscribed_topic_names": ("t",),
            "topic_partitions": (),
        },
    ),
    "regular expression": (
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        {
            "group_id": "new",
            "member_id": "m",
            "member_epoch": 0,
            "rebalance_timeout": millis(60_000),
            "subscribed_topic_regex": MARK,
            "topic_partitions": (),
        },
    ),
    "share group": (
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        {"group_id": MARK, "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ("t",)},
    ),
}


@pytest.mark.parametrize("name", CRASHES)
def test_a_long_text_is_written_or_nothing_is(name: str) -> None:
    """The longest goes into a record and is answered; a longer one leaves nothing."""
    key, version, values = CRASHES[name]
    node = coordinating_all()
    entity = make(codec.request_class(key, version), **values)
    ends = [log.log_end_offset for log in node.node._directories.logs.values()]
    refused = node.client()
    assert send(refused, entity, 65_536) is None and refused.closed
    assert [log.log_end_offset for log in node.node._directories.logs.values()] == ends
    frame = send(node.client(), entity, MAX_TEXT_BYTES)
    assert frame is not None
    answer = codec.decode_response(key, version, frame)[1]
    if hasattr(answer, "error_code"):
        assert error_of(answer.error_code) is ErrorCode.NONE
    assert [log.log_end_offset for log in node.node._directories.logs.values()] != ends


@pytest.mark.parametrize("version", [0, 3, 4, 5, 9])
def test_a_member_with_the_longest_client_id_joins(version: int) -> None:
    """A coordinator makes its id from that of the client, which leaves room for no more."""
    node = coordinating_all()
    wire, client_id = node.client(), "x" * MAX_TEXT_BYTES
    member_id, codes = "", []
    while len(codes) < 3 and ErrorCode.NONE not in codes:
        entity = make(
            codec.request_class(ApiKey.JOIN_GROUP, version),
            group_id="g",
            session_timeout=millis(60_000),
            rebalance_timeout=millis(60_000),
            member_id=member_id,
            protocol_type="consumer",
            protocols=({"name": "range", "metadata": b""},),
        )
        frame = wire.ask(ApiKey.JOIN_GROUP, entity, client_id)
        assert frame is not None
        answer = codec.decode_response(ApiKey.JOIN_GROUP, version, frame)[1]
        member_id = answer.member_id
        codes.append(error_of(answer.error_code))
    assert codes[-1] is ErrorCode.NONE
    sync = wire.call(
        ApiKey.SYNC_GROUP,
        0,
        group_id="g",
        generation_id=answer.generation_id,
        member_id=member_id,
        assignments=(),
    )
    assert error_of(sync.error_code) is ErrorCode.NONE
