"""A client that learns: requests of every API, with what the node has answered in their fields.

A request whose values are drawn ends at the first check. Here most values of a field are those that
answers, and requests before, had in a field of this name: a member is named with its group, a
producer with its epoch, a session with its number. The others are the ends of what a field can say.
Rows come many times over, and record batches have headers that contradict what is in them.
"""

import struct
import types
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin
from uuid import UUID

from crc32c import crc32c

from tests.served import BROKER_APIS, CONTROLLER_APIS
from tests.unit.broker.one_node import BROKER, CONTROLLER, OneNode, Wire
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.records.batch import CRC_START, HEADER, build_batch
from tidelog.records.compression import Codec
from tidelog.records.record import Record
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error, millis, uuid_of

MOST_BYTES = 1 << 20
"""Of a request."""
KEPT = 12
CLIENT_IDS = ("c", "c", "__admin_client", None, "x" * 32_000)
ENDS_SESSIONS = (ApiKey.BROKER_HEARTBEAT, ApiKey.BROKER_REGISTRATION, ApiKey.UNREGISTER_BROKER)
"""They would end the one node's session."""
"""Values of a field that are remembered."""
LEARNED = ("string", "uuid", "int64", "int32", "int16")
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16}
TABLES = {BROKER: BROKER_APIS, CONTROLLER: CONTROLLER_APIS}
SAME = {
    "generation_id": "epoch",
    "generation_id_or_member_epoch": "epoch",
    "member_epoch": "epoch",
    "leader_epoch": "leader",
    "current_leader_epoch": "leader",
    "topics": "name",
    "topic": "name",
    "topic_name": "name",
    "resource_name": "name",
    "subscribed_topic_names": "name",
    "groups": "group_id",
    "groups_names": "group_id",
    "key": "group_id",
    "coordinator_keys": "group_id",
    "partition": "partition_index",
    "partitions": "partition_index",
    "partition_indexes": "partition_index",
    "committed_offset": "offset",
    "fetch_offset": "offset",
    "base_offset": "offset",
    "first_offset": "offset",
    "last_offset": "offset",
    "start_offset": "offset",
    "session_epoch": "share_session_epoch",
    "v3_and_below_transactional_id": "transactional_id",
    "v3_and_below_producer_id": "producer_id",
    "v3_and_below_producer_epoch": "producer_epoch",
    "replica_id": "broker_id",
    "replica_epoch": "broker_epoch",
    "node_id": "broker_id",
}
"""Fields that mean the same."""
FIRST: dict[str, tuple[Any, ...]] = {
    "name": ("t", "u", "orders", "__consumer_offsets", "__share_group_state", "no-such"),
    "group_id": ("g", "h", "s", "x", "g:AQIDBAUGBwgJCgsMDQ4PEA:0"),
    "transactional_id": ("x", "y", None, ""),
    "member_id": ("", "m", "n"),
    "instance_id": (None, "i", "j"),
    "group_instance_id": (None, "i", "j"),
    "protocol_type": ("consumer", "connect", ""),
    "protocol_name": ("range", "roundrobin", None),
    "assignor": ("range", "uniform", None),
    "server_assignor": ("range", "uniform", None),
    "epoch": (0, -1, -2, 1),
    "partition_index": (0, 1, 2, -1),
    "broker_id": (1, -1, 2, -2),
    "broker_ids": (1, 2),
    "replicas": (1, 2),
    "offset": (0, 1, -1, -2, 5),
    "producer_id": (-1, 0, 1000),
    "producer_epoch": (-1, 0, 1, 32767),
    "acks": (-1, 1, 0),
    "share_session_epoch": (0, 1, -1),
    "session_id": (0,),
    "acquisition_lock_timeout": (0,),
    "acknowledge_types": (0, 1, 2, 3),
    "key_type": (0, 1, 2),
    "resource_type": (2, 4, 8, 16, 32),
    "timestamp": (-1, -2, -3, -4, 0),
    "isolation_level": (0, 1),
    "type": (0, 1),
    "state": (0, 1),
    "configs": ("retention.ms",),
    "feature": ("metadata.version", "group.version", "share.version", "kraft.version"),
    "mechanism": (1, 2),
    "entity_type": ("user", "client-id", "ip"),
    "path": ("data", "host1/data"),
    "replication_factor": (1, -1),
    "num_partitions": (1, 2, -1),
    "cluster_id": ("b25lLW5vZGUtY2x1c3Rlcg", None),
    "max_bytes": (1 << 20, 0, 1),
    "partition_max_bytes": (1 << 20, 0, 1),
    "max_records": (500, 0, 1),
    "producer_id_to_use": (-1,),
}
WORDS = (
    "",
    "t",
    "g",
    "a/b",
    "..",
    "*",
    "[",
    "t.*",
    "x" * 260,
    "x" * 32_767,
    "ünï☃\x00",
    "💥" * 90,
    "1",
    "-1",
    "min.insync.replicas",
    "retention.ms",
    "cleanup.policy",
    "compact",
    "segment.bytes",
    "metadata.version",
    "CONTROLLER",
    "PLAINTEXT",
    "User:ada",
    "User:*",
    "producer_byte_rate",
    "tidelog.x",
    "9" * 40,
)
BLOBS = (
    b"",
    b"\x00",
    b"\xff" * 40,
    b"\x00\x01\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff",
    b"\x00\x00" + b"\x7f\xff\xff\xff" * 3,
)
"""The fourth is what a consumer says when it joins."""
FLOATS = (-1.0, 0.0, 1e-300, 0.5, 1000.0, 1e300, float("nan"), float("inf"), float("-inf"))
NOW_MS = 1_700_000_000_000
KEYS = (b"k", b"l", None, b"\x00\x00\x00\x00", b"\x00\x00\x00\x01")
HEADER_BITS = {0: 64, 2: 32, 3: 8, 5: 16, 6: 32, 7: 64, 8: 64, 9: 64, 10: 16, 11: 32, 12: 32}
"""The fields of a header but its length and checksum, by their places."""
LONG_ROWS = (0, 1, 1, 1, 1, 2, 2, 3)


class Talker:
    """Its memory, and one node that it talks to."""

    def __init__(self, seed: int, node: OneNode) -> None:
        self.prng = Prng(seed)
        self.node = node
        self._known: dict[str, list[Any]] = defaultdict(list)
        self._wires: list[tuple[str, Wire]] = []
        for topic in node.broker.image.topics_by_name.values():
            self.learn("topic_id", uuid_of(topic.topic_id))
        self.last: Any = None
        self.answered = 0

    def talk(self) -> None:
        """One request; an answer must be one of its version."""
        prng = self.prng
        listener = BROKER if prng.chance(7, 8) else CONTROLLER
        key = prng.choice([key for key in TABLES[listener] if key not in ENDS_SESSIONS])
        low, high = TABLES[listener][key]
        version = prng.choice((low, high, high, prng.between(low, high)))
        entity = self.request(codec.request_class(key, version))
        self.last = entity
        self.send(listener, key, version, entity)
        if prng.chance(1, 6):
            self.node.advance(prng.choice((1, 30, 500, 7_000, 70_000)))

    def send(self, listener: str, key: ApiKey, version: int, entity: Any) -> None:
        """Over a new connection, or over one that has been used before."""
        wire = self._wire(listener)
        try:
            frame = codec.encode_request(entity, 1, self.prng.choice(CLIENT_IDS))
        except (ProtocolError, ValueError, OverflowError, struct.error):
            return
        if len(frame) > MOST_BYTES:
            return
        wire.send(frame)
        found = wire.frames()
        for _ in range(self.prng.choice((0, 0, 20))):
            if found or wire.closed:
                break
            self.node.advance(10)
            found = wire.frames()
        for each in found:
            self.answered += 1
            try:
                _, answer = codec.decode_response(key, version, each)
            except (ProtocolError, ValueError):
                continue
            self._learn_of(answer)

    def _wire(self, listener: str) -> Wire:
        self._wires = [each for each in self._wires if not each[1].closed][-20:]
        known = [wire for name, wire in self._wires if name == listener]
        if known and self.prng.chance(2, 3):
            return self.prng.choice(known)
        wire = self.node.client(listener)
        self._wires.append((listener, wire))
        return wire

    # What it knows --------------------------------------------------------------------------

    def learn(self, name: str, value: Any) -> None:
        """Remembers it; the oldest is forgotten."""
        known = self._known[SAME.get(name, name)]
        if value not in known:
            known.append(value)
            del known[:-KEPT]

    def _learn_of(self, entity: Any) -> None:
        for item in fields(type(entity)):
            value = getattr(entity, item.name)
            for each in value if isinstance(value, tuple) else (value,):
                if is_dataclass(each):
                    self._learn_of(each)
                elif item.metadata.get("kafka_type") in LEARNED:
                    self.learn(item.name, each)

    # Requests -------------------------------------------------------------------------------

    def request(self, entity_type: Any) -> Any:
        """An entity of this class."""
        values = {}
        for item in fields(entity_type):
            kind = item.metadata.get("kafka_type", "")
            values[item.name] = self._value(item.name, item.type, kind)
        return entity_type(**values)

    def _value(self, name: str, annotation: Any, kind: str) -> Any:
        prng, options, may_be_none = self.prng, get_args(annotation), False
        if get_origin(annotation) in (Union, types.UnionType):
            may_be_none = type(None) in options
            annotation = next(each for each in options if each is not type(None))
            if may_be_none and prng.chance(1, 5):
                return None
            options = get_args(annotation)
        if get_origin(annotation) is tuple:
            count = prng.choice(LONG_ROWS)
            rows = tuple(self._value(name, options[0], kind) for _ in range(count))
            if prng.chance(1, 12):
                rows *= prng.choice((2, 3, 30 if is_dataclass(options[0]) else 300))
            return rows
        if is_dataclass(annotation):
            return self.request(annotation)
        return self._primitive(name, kind, may_be_none=may_be_none)

    def _primitive(self, name: str, kind: str, *, may_be_none: bool) -> Any:
        prng, same = self.prng, SAME.get(name, name)
        if kind in ("string", "uuid", *BITS):
            known = (*FIRST.get(same, ()), *self._known.get(same, ()))
            known = tuple(each for each in known if _fits(each, kind, may_be_none=may_be_none))
            if known and prng.chance(7, 8):
                return prng.choice(known)
        if kind in BITS:
            return prng.choice(_ends(BITS[kind])) if kind != "uint16" else prng.below(1 << 16)
        match kind:
            case "bool":
                return prng.chance(1, 2)
            case "string":
                return prng.choice(WORDS)
            case "bytes":
                return prng.choice(BLOBS)
            case "records":
                return wild_records(prng, self._known.get("producer_id", ()))
            case "uuid":
                return prng.choice((UUID(bytes=b"\x07" * 16), UUID(int=1), UUID(int=2)))
            case "float64":
                return prng.choice(FLOATS)
            case "timedelta_i32":
                return millis(prng.choice((0, 0, 1, 500, 30_000, 60_000, 2**31 - 1, -1, -(2**31))))
            case "timedelta_i64":
                return millis(prng.choice((0, 0, 1, 500, 30_000, -1, 2**46, -(2**46))))
            case "error_code":
                return error(prng.choice((ErrorCode.NONE, ErrorCode.NOT_CONTROLLER)))
        raise AssertionError(f"no values for `{kind}` {name}")


def _ends(bits: int) -> tuple[int, ...]:
    top = 1 << (bits - 1)
    usual = (0, 0, 1, 2, 3, 4, 5, -1, -2, 100)
    return (*usual, min(2**31, top) - 1, top - 1, -top, top - 2, 1 - top)


def _fits(value: Any, kind: str, *, may_be_none: bool) -> bool:
    if value is None:
        return may_be_none
    if kind == "string":
        return isinstance(value, str)
    if kind == "uuid":
        return isinstance(value, UUID)
    top = 1 << (BITS[kind] - 1)
    return isinstance(value, int) and not isinstance(value, bool) and -top <= value < top


def wild_records(prng: Prng, producers: Sequence[Any]) -> bytes:
    """One batch, or more, whose headers may say anything; their checksums are right mostly."""
    if prng.chance(1, 16):
        return prng.choice((b"", b"\x00" * 61, b"\xff" * 100))
    known = (-1, -1, *(each for each in producers if isinstance(each, int)))
    many = b"".join(_batch(prng, known) for _ in range(prng.choice((1, 1, 1, 1, 2, 3))))
    return many[: prng.below(len(many))] if prng.chance(1, 20) else many


def _batch(prng: Prng, producers: Sequence[int]) -> bytes:
    value = prng.choice((b"v", b"v" * prng.below(90), None, b"\x00" * 100_000))
    record = Record(prng.choice((NOW_MS, NOW_MS, -1, 0)), prng.choice(KEYS), value, ())
    batch = bytearray(
        build_batch(
            [record] * prng.choice((1, 1, 1, 2, 3, 12)),
            codec=prng.choice((Codec.NONE, Codec.NONE, *Codec)),
            producer_id=prng.choice(producers),
            producer_epoch=prng.choice((-1, 0, 1, 32767)),
            base_sequence=prng.choice((-1, 0, 1, 2, 2**31 - 1)),
            is_transactional=prng.chance(1, 4),
            is_control=prng.chance(1, 10),
        )
    )
    if prng.chance(1, 2):
        values = list(HEADER.unpack_from(batch))
        for _ in range(prng.choice((1, 1, 2, 3))):
            place, bits = prng.choice(tuple(HEADER_BITS.items()))
            values[place] = prng.choice((*_ends(bits), *((16, 32, 48, 64, 8) if bits > 8 else ())))
        HEADER.pack_into(batch, 0, *values)
        if prng.chance(1, 10):
            batch[61 + prng.below(len(batch) - 61)] ^= 1 << prng.below(8)
        if prng.chance(9, 10):
            batch[17:21] = crc32c(bytes(batch[CRC_START:])).to_bytes(4, "big")
    return bytes(batch)
