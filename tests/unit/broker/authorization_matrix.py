"""The cases of the matrix of rights, and a node to ask.

The expectations are written by hand (`rights_table.py`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Final, NamedTuple, get_args

from tests.unit.broker.one_node import OneNode, Wire
from tests.unit.broker.rights_table import (
    CONTROLLER,
    DELEGATION_TOKEN,
    GROUP,
    NEEDS,
    TOPIC,
    TXN,
    USER,
    Need,
    Row,
)
from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.declaration import Listener
from tidelog.broker.events import AccessDenied
from tidelog.config.values import STANDARD_AUTHORIZER
from tidelog.errors import ErrorCode
from tidelog.metadata.acls import AclEntry
from tidelog.metadata.records import AccessControlEntryRecord
from tidelog.model import Principal, Uuid
from tidelog.wire import codec
from tidelog.wire.api import ApiKey as K
from tidelog.wire.entities import make
from tidelog.wire.values import error_of, millis, timestamp, uuid_of

CODES: Final = frozenset((29, 30, 31, 53, 65))
"""What only an authorizer says."""
WITHOUT_ROWS: Final = frozenset(
    (
        *(K.OFFSET_DELETE, K.SHARE_ACKNOWLEDGE),
        *(K.ALTER_SHARE_GROUP_OFFSETS, K.DELETE_SHARE_GROUP_OFFSETS),
    )
)
"""Whose answer has no rows, also none that are denied, where it is an error as a whole: the audit
shows the denial."""
PRESENT, ABSENT, INVALID = "orders", "nothing", "no/topic"
OWNER, TOKEN = "User:owner", "id of the token"
NAMES: Final = {
    TOPIC: (PRESENT, ABSENT, INVALID),
    GROUP: ("g",),
    TXN: ("x",),
    DELEGATION_TOKEN: (TOKEN,),
    USER: (OWNER,),
}
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
HERE = "10.1.2.3"


class Kind(NamedTuple):
    """A kind of principal, as far as one need goes; it has all other rights."""

    allowed: bool
    entries: tuple[tuple[int, str, str, str], ...]
    """Permission, pattern (`name`, `prefix`, `*`), operation (`own`, `all`, `other`), host."""
    principal: str = "own"


KINDS: Final = {
    "none": Kind(False, ()),
    "by name": Kind(True, ((ALLOW, "name", "own", "*"),)),
    "by prefix": Kind(True, ((ALLOW, "prefix", "own", "*"),)),
    "by wildcard": Kind(True, ((ALLOW, "*", "own", "*"),)),
    "all operations": Kind(True, ((ALLOW, "name", "all", "*"),)),
    "everybody": Kind(True, ((ALLOW, "name", "own", "*"),), "User:*"),
    "another user": Kind(False, ((ALLOW, "name", "own", "*"),), "User:bob"),
    "from here": Kind(True, ((ALLOW, "name", "own", HERE),)),
    "from elsewhere": Kind(False, ((ALLOW, "name", "own", "10.9.9.9"),)),
    "another operation": Kind(False, ((ALLOW, "name", "other", "*"),)),
    "denied by name": Kind(False, ((ALLOW, "*", "all", "*"), (DENY, "name", "own", "*"))),
    "denied by prefix": Kind(False, ((ALLOW, "name", "own", "*"), (DENY, "prefix", "all", "*"))),
    "denied by wildcard": Kind(False, ((ALLOW, "name", "all", "*"), (DENY, "*", "own", HERE))),
    "denied to everybody": Kind(
        False, ((ALLOW, "*", "own", "*"), (DENY, "name", "own", "*")), "User:*"
    ),
    "denied all operations": Kind(
        False, ((ALLOW, "prefix", "all", "*"), (DENY, "name", "all", "*"))
    ),
    "of another type": Kind(False, ((ALLOW, "name", "own", "*"),), "Group:ada"),
    "denied elsewhere": Kind(
        True, ((ALLOW, "name", "own", "*"), (DENY, "name", "own", "10.9.9.9"))
    ),
}


def _other(operation: int) -> int:
    """An operation that does not imply this one."""
    return 12 if operation != 12 else 9


def _entries(need: Need, kind: Kind, who: str) -> Iterator[AclEntry]:
    """What a principal of the kind has of a need: of its first alternative. A denial takes away the
    others too, where they are on the same resource."""
    operation, resource = need.alternatives[0]
    is_whole = all(kind == resource for _, kind in need.alternatives[1:]) and need.alternatives[1:]
    names = NAMES.get(resource, ("kafka-cluster",))
    operations = {"own": operation, "all": 2, "other": _other(operation)}
    for permission, pattern, of, host in kind.entries:
        named = {"name": names, "prefix": tuple(n[:1] for n in names), "*": ("*",)}[pattern]
        for name in named:
            yield AclEntry(
                resource,
                name,
                PREFIXED if pattern == "prefix" else LITERAL,
                who if kind.principal == "own" else kind.principal,
                host,
                2 if permission == DENY and is_whole else operations[of],
                permission,
            )


class Case(NamedTuple):
    """One principal against one API."""

    row: Row
    version: int
    place: int
    """Which need it is about."""
    kind: str
    name: str

    @property
    def need(self) -> Need:
        return self.row.needs[self.place]


def the_cases() -> Iterator[Case]:
    for row in NEEDS:
        api = APIS.table(listener_of(row))[row.key]
        assert api is not None, row
        yield from cases_of(row, api.versions)


def cases_of(row: Row, versions: tuple[int, int]) -> Iterator[Case]:
    """The cases of one row, in the lowest and the highest version."""
    low, high = max(versions[0], row.versions[0]), min(versions[1], row.versions[1])
    named = any(kind == TOPIC for need in row.needs for _, kind in need.alternatives)
    for version in sorted({low, high}):
        for place in range(len(row.needs)):
            for kind in KINDS:
                for name in NAMES[TOPIC] if named else NAMES[TOPIC][:1]:
                    yield Case(row, version, place, kind, name)


def listener_of(row: Row) -> Listener:
    return Listener.CONTROLLER if row.listener == CONTROLLER else Listener.BROKER


class Office:
    """A node with an authorizer, and its clients."""

    def __init__(self) -> None:
        self.node = OneNode(
            authorizer_class_name=STANDARD_AUTHORIZER,
            super_users="User:ANONYMOUS",
            auto_create_topics_enable="false",
        )
        self.admin = self.node.client()
        self.admin.create_topic(PRESENT)
        self.node.settle()
        topic = self.node.broker.image.topics_by_name[PRESENT]
        self.ids = {PRESENT: topic.topic_id, ABSENT: b"n" * 16, INVALID: b"i" * 16}
        self.wires: dict[str, Wire] = {}

    def client(self, listener: str) -> Wire:
        wire = self.wires.get(listener)
        if wire is None or wire.closed:
            wire = self.wires[listener] = self.node.client(listener)
        return wire

    def ask(self, case: Case, entries: list[AclEntry], who: Principal) -> Any:
        """The answer to a principal, with these entries in force; `None` if the node closed."""
        authorizer = self.node.broker.authorization.authorizer
        assert authorizer is not None
        wire = self.client(case.row.listener)
        connection = self.node.broker.connections.get(wire.connection_id)
        assert connection is not None
        connection.principal, connection.peer_host = who, HERE
        records = [
            AccessControlEntryRecord(id=Uuid(number.to_bytes(16, "big")), **each._asdict())
            for number, each in enumerate(entries)
        ]
        acls = {record.id: record for record in records}
        authorizer.follow(acls)
        object.__setattr__(self.node.broker.image, "acls", acls)
        kind = codec.request_class(case.row.key, case.version)
        request = filled(kind, values_of(case, self.ids))
        frame = wire.ask(case.row.key, request)
        if frame is None:
            # It may come later.
            del self.wires[case.row.listener]
            return None
        return codec.decode_response(case.row.key, case.version, frame)[1]


def values_of(case: Case, ids: Mapping[str, bytes]) -> dict[str, Any]:
    """Fields of the request of a case, wherever they stand in it."""
    names = dict.fromkeys(("name", "topic", "topic_name", "topic_names"), case.name)
    names |= dict.fromkeys(("group_id", "groups", "group_ids", "groups_names"), "g")
    names |= {"transactional_ids": "x", "v3_and_below_transactional_id": "x"}
    names |= {"transactional_id": "x", "subscribed_topic_names": case.name}
    key_type = case.row.values.get("key_type", 0)
    key = {0: "g", 1: "x", 2: "g:AAAAAAAAAAAAAAAAAAAAAQ:0"}[key_type]
    kind = case.row.values.get("resource_type", 0)
    resource = {32: "g", 4: "1"}.get(kind, case.name)
    names |= {"key": key, "coordinator_keys": key, "resource_name": resource}
    return {**names, "topic_id": ids[case.name], "cursor": None} | case.row.values


def filled(entity_type: type, values: dict[str, Any]) -> Any:
    """A request with one item in each array, and these values in fields of these names."""
    out: dict[str, Any] = {}
    for item in fields(entity_type):
        nested = _nested(item.type)
        is_array = "tuple" in str(item.type)
        if is_array and values.get(item.name, 0) in ((), None):
            out[item.name] = values[item.name]
        elif item.name in values and not (nested is not None and values[item.name] is not None):
            out[item.name] = (values[item.name],) if is_array else values[item.name]
        elif nested is not None:
            inner = filled(nested, values)
            out[item.name] = (inner,) if is_array else inner
        elif is_array:
            out[item.name] = (_blank(item.metadata.get("kafka_type")),)
        elif item.default is MISSING:
            out[item.name] = _blank(item.metadata.get("kafka_type"))
    return make(entity_type, **out)


def _nested(annotation: Any) -> type | None:
    if is_dataclass(annotation):
        return annotation  # type: ignore[return-value]
    return next((found for each in get_args(annotation) if (found := _nested(each))), None)


def _blank(kind: str | None) -> Any:
    blanks = {
        "string": "s",
        "bytes": b"",
        "bool": False,
        "timedelta_i32": millis(0),
        "timedelta_i64": millis(0),
        "datetime_i64": timestamp(0),
        "uuid": uuid_of(b"u" * 16),
        "records": None,
    }
    return blanks.get(kind or "", 0)


def codes_of(entity: Any) -> set[int]:
    """All error codes in an answer."""
    found: set[int] = set()
    if isinstance(entity, tuple):
        return found.union(*map(codes_of, entity))
    if is_dataclass(entity):
        for item in fields(entity):
            value = getattr(entity, item.name)
            if item.metadata.get("kafka_type") == "error_code":
                found.add(int(error_of(value)))
            else:
                found |= codes_of(value)
    return found


def without(entity: Any, names: tuple[object, ...]) -> Any:
    """An answer with a name or an id taken out."""
    if isinstance(entity, tuple):
        return tuple(without(each, names) for each in entity)
    if is_dataclass(entity):
        values = {item.name: getattr(entity, item.name) for item in fields(entity)}
        return {name: without(value, names) for name, value in values.items()}
    return None if entity in names else entity


@cache
def by_row() -> dict[str, list[Case]]:
    """The cases, by listener and API."""
    found: dict[str, list[Case]] = {}
    for case in the_cases():
        found.setdefault(f"{case.row.listener}-{case.row.key.name}", []).append(case)
    return found


def entries_of(case: Case, who: str) -> list[AclEntry]:
    """What a principal has: all other needs of the API, and the one of the case by its kind."""
    full = KINDS["by wildcard"]
    entries: list[AclEntry] = []
    for place, need in enumerate(case.row.needs):
        kind = KINDS[case.kind] if place == case.place else full
        entries += _entries(need, kind, who)
    return entries


def check_case(office: Office, case: Case, who: Principal) -> tuple[bool, Any]:
    events = office.node.trace.events
    before = len(events)
    answer = office.ask(case, entries_of(case, str(who)), who)
    kind = KINDS[case.kind]
    codes = set() if answer is None else codes_of(answer) & CODES
    by_unknown_id = case.name != PRESENT and 100 in (codes_of(answer) if answer else ())
    unknown = case.name != PRESENT and names_by_id(case)
    failed = case.row.key in WITHOUT_ROWS and error_of(answer.error_code) is not ErrorCode.NONE
    if kind.allowed or (failed and case.place):
        assert not codes, (case, answer)
        is_denied = any(isinstance(each, AccessDenied) for each in events[before:])
        assert kind.allowed or unknown or is_denied, case
    elif not (by_unknown_id or unknown) or case.need.alternatives[0][1] != TOPIC:
        assert codes == {case.need.code}, (case, answer)
    return kind.allowed, answer


def names_by_id(case: Case) -> bool:
    """Whether topics are asked for by id, which an unknown topic does not have."""
    kind = str(codec.request_class(case.row.key, case.version).__annotations__)
    nested = [kind]
    request_type = codec.request_class(case.row.key, case.version)
    for item in fields(request_type):
        inner = _nested(item.type)
        while inner is not None:
            nested += [each.name for each in fields(inner)]
            inner = next((it for each in fields(inner) if (it := _nested(each.type))), None)
    return "topic_id" in nested and case.row.values.get("topic_id", 1) is not None
