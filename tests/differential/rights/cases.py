"""Who asks what: the cases of the matrix of rights as users, entries and requests.

The rows, the kinds of principals and the requests are those of the unit tests
(`tests/unit/broker/authorization_matrix.py`). There each case has a node with its own entries; here
all cases meet the same two brokers. So each combination of needs and kind has a user of its own,
whose entries are made before the first request. Entries that are for everybody, or for clients
without a login, would change the other cases: those that allow are a phase together, each
combination that denies is a phase of its own, and the entries go when the phase ends.

Under `allow.everyone.if.no.acl.found` a resource that no entry is about is open to all. There
users without entries of their own ask, and each phase has an entry of another user.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tests.unit.broker.authorization_matrix import (
    ALLOW,
    DENY,
    HERE,
    KINDS,
    LITERAL,
    NAMES,
    PREFIXED,
    PRESENT,
    Case,
    Kind,
    cases_of,
    entries_of,
    listener_of,
)
from tests.unit.broker.rights_table import (
    ACTION,
    ALTER_CONFIGS,
    BROKER,
    CLUSTER,
    CONTROLLER,
    CREATE,
    CREATE_TOKENS,
    DELEGATION_TOKEN,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    DESCRIBE_TOKENS,
    GROUP,
    NEEDS,
    READ,
    TOPIC,
    TXN,
    USER,
    WRITE,
    WRITE_TXN,
    Need,
    Row,
    cluster,
    group,
    topic,
)
from tidelog.broker.api.catalogue import APIS
from tidelog.metadata.acls import AclEntry
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.security.acl_index import EVERYBODY
from tidelog.wire.acl_values import CLUSTER_NAME
from tidelog.wire.api import ApiKey as K
from tidelog.wire.api import VersionRange
from tidelog.wire.principal_data import pack

ROOT: Final = "root"
"""The user who is one of `super.users`."""
CLIENTS, ANONYMOUS = "CLIENTS", "PLAINTEXT"
"""The listener with logins, and the one without."""
ADDRESS: Final = "127.0.0.1"
TIMEOUT_MS: Final = 10_000
CONSUMERS, SHARERS = "consumers", "sharers"
"""Groups with a member who reads the topic that is there."""
BROKER_LOGGER, CLIENT_METRICS = 8, 16
STRANGER: Final = "User:ANONYMOUS"
"""Who has not logged in."""


def transactional() -> bytes:
    """A batch of a transaction that was never begun."""
    record = Record(int(time.time() * 1000), None, b"value")
    return build_batch(
        [record], producer_id=1_000_000, producer_epoch=0, base_sequence=0, is_transactional=True
    )


_MORE: Final = (
    Row(K.METADATA, (topic(DESCRIBE),), {"name": None}, versions=(12, 99)),
    Row(K.METADATA, (topic(DESCRIBE),), {"topics": None}, versions=(1, 99)),
    Row(K.DELETE_TOPICS, (topic(DELETE),), {"name": None}, versions=(6, 99)),
    Row(K.DELETE_TOPICS, (topic(DELETE), topic(DESCRIBE)), {"name": None}, versions=(6, 99)),
    Row(K.OFFSET_FETCH, (group(DESCRIBE), topic(DESCRIBE)), {"topics": None}, versions=(2, 99)),
    Row(K.LIST_GROUPS, (group(DESCRIBE),)),
    Row(K.LIST_GROUPS, (cluster(DESCRIBE),)),
    Row(K.LIST_TRANSACTIONS, (Need(0, ((DESCRIBE, TXN),)),)),
    Row(K.DESCRIBE_CLUSTER, (cluster(DESCRIBE),), {"endpoint_type": 1}),
    Row(K.DESCRIBE_TOPIC_PARTITIONS, (topic(DESCRIBE),), {"topics": (), "cursor": None}),
    Row(K.DESCRIBE_TRANSACTIONS, (Need(0, ((DESCRIBE, TXN),)), topic(DESCRIBE))),
    Row(K.DESCRIBE_GROUPS, (group(DESCRIBE), group(READ))),
    Row(K.PRODUCE, (WRITE_TXN, topic(WRITE)), {"records": transactional()}, versions=(3, 99)),
    Row(
        K.CREATE_TOPICS,
        (Need(29, ((CREATE, CLUSTER), (CREATE, TOPIC))), topic(DESCRIBE_CONFIGS)),
        {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()},
        versions=(5, 99),
    ),
    *(
        Row(key, (cluster(operation),), {"resource_type": kind})
        for key, operation in (
            (K.DESCRIBE_CONFIGS, DESCRIBE_CONFIGS),
            (K.ALTER_CONFIGS, ALTER_CONFIGS),
            (K.INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS),
        )
        for kind in (BROKER_LOGGER, CLIENT_METRICS)
    ),
    *(
        Row(key, (group(DESCRIBE), topic(DESCRIBE)), {"group_ids": name})
        for key, name in ((K.CONSUMER_GROUP_DESCRIBE, CONSUMERS), (K.SHARE_GROUP_DESCRIBE, SHARERS))
    ),
)
"""Lists, what is asked for by id, what shows operations or configurations, types of resources that
belong to the cluster, transactions, and members of groups who have topics."""
OWNED, RENEWED, UNKNOWN_TOKEN = "owned", "renewed", "unknown"
"""Tokens of the user `owner`, the second one with the super user as renewer, and a code of none."""
_FOR_OTHERS: Final = Need(65, ((CREATE_TOKENS, USER),))
_SEEN: Final = Need(0, ((DESCRIBE, DELEGATION_TOKEN),)), Need(0, ((DESCRIBE_TOKENS, USER),))
_OF_OWNER: Final = {
    "owner_principal_type": "User",
    "owner_principal_name": "owner",
    "principal_type": "User",
    "principal_name": "owner",
}
_OF_ASKER: Final = dict.fromkeys(("owner_principal_type", "owner_principal_name"))
_RENEWER: Final = {"principal_type": "User", "principal_name": "ada"}
_TOKENS: Final = (
    Row(K.CREATE_DELEGATION_TOKEN, (_FOR_OTHERS,), _OF_OWNER, versions=(3, 99)),
    Row(K.CREATE_DELEGATION_TOKEN, (_FOR_OTHERS,), _OF_ASKER | _RENEWER),
    Row(
        *(K.CREATE_DELEGATION_TOKEN, (_FOR_OTHERS,)),
        _OF_OWNER | {"principal_type": "Group"},
        versions=(3, 99),
    ),
    *(
        Row(key, (need,), {"hmac": token, **period})
        for key, period in (
            (K.RENEW_DELEGATION_TOKEN, {"renew_period": 3_600_000}),
            (K.EXPIRE_DELEGATION_TOKEN, {"expiry_time_period": 3_600_000}),
            (K.EXPIRE_DELEGATION_TOKEN, {"expiry_time_period": -1}),
        )
        for token in (OWNED, RENEWED, UNKNOWN_TOKEN)
        for need in (_FOR_OTHERS, *_SEEN)
    ),
    *(
        Row(K.DESCRIBE_DELEGATION_TOKEN, (need,), owners)
        for owners in ({"owners": None}, {"owners": ()}, _OF_OWNER)
        for need in _SEEN
    ),
)
"""Delegation tokens: who may make one for another user, and see it. No entry lets a user renew or
end one."""
_ON_BOTH: Final = (
    *(K.CREATE_TOPICS, K.DELETE_TOPICS, K.CREATE_PARTITIONS, K.DELETE_ACLS, K.ALTER_CONFIGS),
    *(K.INCREMENTAL_ALTER_CONFIGS, K.ALTER_PARTITION_REASSIGNMENTS, K.UPDATE_FEATURES),
    *(K.LIST_PARTITION_REASSIGNMENTS, K.ALTER_CLIENT_QUOTAS, K.DESCRIBE_QUORUM),
    *(K.ALTER_USER_SCRAM_CREDENTIALS, K.DESCRIBE_CLIENT_QUOTAS),
    K.DESCRIBE_USER_SCRAM_CREDENTIALS,
)
"""What the table has for clients, and a controller's listener serves too."""
_QUORUM_REQUESTS: Final = (K.FETCH, K.VOTE, K.BEGIN_QUORUM_EPOCH, K.END_QUORUM_EPOCH)
_ELSEWHERE: Final = {"topic": PRESENT, "topic_name": PRESENT, "topic_id": b"o" * 16}
_OF_CONTROLLERS: Final = (
    *(
        row._replace(listener=CONTROLLER)
        for row in NEEDS
        if row.key in _ON_BOTH and row.listener == BROKER
    ),
    *(Row(key, (cluster(ACTION),), _ELSEWHERE, CONTROLLER) for key in _QUORUM_REQUESTS),
    *(
        row._replace(listener=CONTROLLER)
        for row in _TOKENS
        if row.key is not K.DESCRIBE_DELEGATION_TOKEN
    ),
    *(
        Row(K.ENVELOPE, (cluster(ACTION),), {"request_principal": who}, CONTROLLER)
        for who in (None, b"", pack("User", ROOT), pack("User", "stranger"))
    ),
)
"""On a controller's listener: what clients send there, what is about another partition than that of
the metadata, and envelopes of brokers."""

IMPLIES: Final = {DESCRIBE: (3, 4, 6, 7), 10: (11,)}
"""Operations that imply this one."""
_FEW: Final = ("by name", "by prefix", "denied by name", "from elsewhere")
"""Kinds for the other ways to a right: an operation that implies it, another alternative."""
_ALL_VERSIONS: Final = ("none", "by name")
"""Kinds for versions between the lowest and the highest."""
_STRANGERS: Final = 12
"""Users without entries, who ask at the same time."""
SUPER, UNKNOWN, KNOWN = "super user", "anonymous", "anonymous by name"


class Question(NamedTuple):
    """A case, asked by one user."""

    case: Case
    kind: str
    user: str
    """Empty for a client without a login."""

    @property
    def listener(self) -> str:
        """Where it is asked."""
        if self.case.row.listener == CONTROLLER:
            return CONTROLLER
        return CLIENTS if self.user else ANONYMOUS


class Phase(NamedTuple):
    """Questions, and the entries that are there while they are asked."""

    entries: tuple[AclEntry, ...]
    questions: tuple[Question, ...]


Versions = Mapping[str, Mapping[int, VersionRange]]
"""What both brokers serve, by listener and API."""


def all_cases(versions: Versions) -> Iterator[Case]:
    """The cases of all rows."""
    for row in (*NEEDS, *_MORE, *_TOKENS, *_OF_CONTROLLERS):
        served = versions[CONTROLLER if row.listener == CONTROLLER else CLIENTS].get(row.key)
        api = APIS.table(listener_of(row))[row.key]
        if served is None or api is None:
            continue
        # Both name versions of Produce that neither serves.
        low, high = max(served.min_version, api.versions[0]), served.max_version
        seen = set()
        for case in cases_of(row, (low, high)):
            seen.add(case.version)
            yield case
            if case.kind in _FEW:
                for other in _other_ways(row, case.place):
                    yield case._replace(row=other)
        between = set(range(min(seen), max(seen))) - seen
        for version in sorted(between):
            for case in cases_of(row, (version, version)):
                if case.kind in _ALL_VERSIONS:
                    yield case


def _other_ways(row: Row, place: int) -> Iterator[Row]:
    """The row with another way to one of its needs in front."""
    code, ways = row.needs[place]
    (operation, resource), more = ways[0], ways[1:]
    others = [*more, *((each, resource) for each in IMPLIES.get(operation, ()))]
    for other in others:
        need = Need(code, (other, *(each for each in ways if each != other)))
        yield row._replace(needs=(*row.needs[:place], need, *row.needs[place + 1 :]))


def plan(cases: Iterable[Case]) -> list[Phase]:
    """The phases; the first has the entries of all users, and they stay."""
    users: dict[Any, str] = {}
    entries: dict[str, list[AclEntry]] = {}
    shared: list[Question] = []
    alone: dict[Any, list[Question]] = {}
    for case in cases:
        profile = case.row.needs, case.place, case.kind
        if profile not in users:
            users[profile] = f"u{len(users)}"
            entries[users[profile]] = _located(entries_of(case, f"User:{users[profile]}"))
        question = Question(case, case.kind, users[profile])
        if _is_for_everybody(KINDS[case.kind]):
            key = case.kind if KINDS[case.kind].allowed else profile
            alone.setdefault(key, []).append(question)
        else:
            shared.append(question)
        if case.kind == "by name":
            shared.append(Question(case, SUPER, ROOT))
            if case.row.listener == BROKER:
                shared.append(Question(case, UNKNOWN, ""))
                alone.setdefault(KNOWN, []).append(Question(case, KNOWN, ""))
    phases = [Phase((), tuple(sorted(shared, key=lambda each: (each.listener, each.user))))]
    first: list[AclEntry] = [entry for each in entries.values() for entry in each]
    first = [entry for entry in first if entry.principal != EVERYBODY]
    phases[0] = phases[0]._replace(entries=tuple(dict.fromkeys(first)))
    for asked in alone.values():
        found: list[AclEntry] = []
        for case, kind, user in asked:
            if kind == KNOWN:
                found += _located(entries_of(case, STRANGER))
            else:
                found += [entry for entry in entries[user] if entry.principal == EVERYBODY]
        phases.append(Phase(tuple(dict.fromkeys(found)), tuple(asked)))
    return phases


def _is_for_everybody(kind: Kind) -> bool:
    return kind.principal == EVERYBODY


def _located(entries: list[AclEntry]) -> list[AclEntry]:
    """The entries for a client of this machine. Apache Kafka takes entries for the cluster only
    under its one name."""
    out = []
    for each in entries:
        if each.host == HERE:
            each = each._replace(host=ADDRESS)
        if each.resource_type == CLUSTER:
            each = each._replace(resource_name=CLUSTER_NAME)
        out.append(each)
    return out


def plan_without_entries(cases: Iterable[Case]) -> list[Phase]:
    """The phases under `allow.everyone.if.no.acl.found`: without entries, and with one of another
    user for each type of resource and pattern. Of the cases those of users without entries are
    asked, whom no row allows by itself."""
    asked = [case for case in cases if case.kind == "none" and case.place == 0]
    phases = [Phase((), tuple(_of_strangers(asked, "no entries")))]
    for resource, pattern, name, permission in _OF_ANOTHER:
        entry = AclEntry(resource, name, pattern, "User:bob", "*", 2, permission)
        about = [case for case in asked if _is_about(case, resource)]
        kind = f"{'denied' if permission == DENY else 'allowed'} to another, {resource} `{name}`"
        kind += " and what begins so" if pattern == PREFIXED else ""
        phases.append(Phase((entry,), tuple(_of_strangers(about, kind))))
    return phases


_OF_ANOTHER: Final = (
    *((TOPIC, LITERAL, name, ALLOW) for name in (PRESENT, "*")),
    (TOPIC, LITERAL, PRESENT, DENY),
    (TOPIC, PREFIXED, PRESENT[:1], ALLOW),
    *((kind, LITERAL, NAMES[kind][0], ALLOW) for kind in (GROUP, TXN)),
    *((kind, PREFIXED, NAMES[kind][0], ALLOW) for kind in (GROUP, TXN)),
    *((kind, LITERAL, "*", ALLOW) for kind in (GROUP, TXN)),
    (CLUSTER, LITERAL, CLUSTER_NAME, ALLOW),
    *((kind, LITERAL, NAMES[kind][0], ALLOW) for kind in (DELEGATION_TOKEN, USER)),
)
"""Type, pattern, name and permission of the one entry of a phase."""


def _is_about(case: Case, resource: int) -> bool:
    return any(kind == resource for need in case.row.needs for _, kind in need.alternatives)


def _of_strangers(cases: list[Case], kind: str) -> Iterator[Question]:
    for number, case in enumerate(cases):
        yield Question(case, kind, f"u{number % _STRANGERS}")
        if case.row.listener == BROKER:
            yield Question(case, f"{kind}, anonymous", "")
