"""Decisions of the authorizer, held against Kafka's rules as a list of entries would say them."""

import pytest

from tidelog.env.prng import Prng
from tidelog.metadata.acls import AclEntry, entry_of
from tidelog.metadata.records import AccessControlEntryRecord
from tidelog.model import Principal, Uuid
from tidelog.security.authorizer import Access, Authorizer, Decision, DefaultRule
from tidelog.security.rights import NOT_ASKED, Operation, ResourceType

ADA, BOB = Principal("User", "ada"), Principal("User", "bob")
HOST = "10.0.0.1"
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL = 2
IMPLIED = {8: (3, 4, 5 + 1, 7), 10: (11,)}
"""DESCRIBE by READ, WRITE, DELETE, ALTER; DESCRIBE_CONFIGS by ALTER_CONFIGS."""


def reference(
    entries: list[AclEntry],
    who: str,
    host: str,
    operation: int,
    kind: int,
    name: str,
    default: bool,
) -> bool:
    """Kafka's rules, entry by entry."""
    protecting = [
        each
        for each in entries
        if each.resource_type == kind
        and (
            name.startswith(each.resource_name)
            if each.pattern_type == PREFIXED
            else each.resource_name in (name, "*")
        )
    ]
    if not protecting:
        return default
    mine = [
        each
        for each in protecting
        if each.principal in (who, "User:*") and each.host in (host, "*")
    ]
    if any(e.permission_type == DENY and e.operation in (operation, ALL) for e in mine):
        return False
    permits = (operation, ALL, *IMPLIED.get(operation, ()))
    return any(e.permission_type == ALLOW and e.operation in permits for e in mine)


def reference_any(entries: list[AclEntry], who: str, host: str, operation: int, kind: int) -> bool:
    """Whether some resource can exist on which it is allowed, as Kafka asks."""
    if reference(entries, who, host, operation, kind, "hardcode", False):
        return True
    mine = [
        each
        for each in entries
        if each.resource_type == kind
        and each.principal in (who, "User:*")
        and each.host in (host, "*")
        and each.operation in (operation, ALL)
    ]
    denied = {(e.pattern_type, e.resource_name) for e in mine if e.permission_type == DENY}
    if (LITERAL, "*") in denied:
        return False

    def survives(entry: AclEntry) -> bool:
        name = entry.resource_name
        if entry.pattern_type == LITERAL and name == "*":
            return True
        if entry.pattern_type == LITERAL and (LITERAL, name) in denied:
            return False
        return not any(kind == PREFIXED and name.startswith(part) for kind, part in denied)

    return any(e.permission_type == ALLOW and survives(e) for e in mine)


def an_entry(prng: Prng) -> AclEntry:
    name = prng.choice(("*", *_names(prng, 1)))
    return AclEntry(
        prng.choice((2, 2, 3)),
        name,
        prng.choice((LITERAL, PREFIXED)),
        prng.choice(("User:ada", "User:bob", "User:*")),
        prng.choice(("*", "*", HOST, "10.0.0.2")),
        prng.choice((ALL, 3, 4, 6, 7, 8, 10, 11)),
        prng.choice((DENY, ALLOW, ALLOW)),
    )


def _names(prng: Prng, least: int) -> list[str]:
    return ["".join(prng.choice("abc") for _ in range(prng.between(least, 3)))]


def record_of(number: int, entry: AclEntry) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(id=Uuid(number.to_bytes(16, "big")), **entry._asdict())


def the_authorizer(*entries: AclEntry, default: bool = False) -> Authorizer:
    authorizer = Authorizer(["User:root"], allow_everyone=default)
    authorizer.follow({each.id: each for each in map(record_of, range(len(entries)), entries)})
    return authorizer


def topic(
    name: str,
    operation: int,
    permission: int = ALLOW,
    *,
    pattern: int = LITERAL,
    host: str = "*",
    principal: str = "User:ada",
) -> AclEntry:
    return AclEntry(2, name, pattern, principal, host, operation, permission)


@pytest.mark.parametrize("default", [False, True])
def test_random_sets_are_decided_as_the_rules_say(default: bool) -> None:
    """Goal: DenyWins and all others, over histories in which entries come and go."""
    prng = Prng(20261123 + default)
    authorizer = Authorizer((), allow_everyone=default)
    acls: dict[Uuid, AccessControlEntryRecord] = {}
    for number in range(1500):
        acls = dict(acls)
        if acls and (len(acls) > 12 or prng.chance(1, 3)):
            del acls[prng.choice(sorted(acls))]
        else:
            entry = record_of(number, an_entry(prng))
            acls[entry.id] = entry
        authorizer.follow(acls)
        authorizer.check()
        entries = [entry_of(each) for each in acls.values()]
        for _ in range(8):
            who, host = prng.choice((ADA, BOB)), prng.choice((HOST, "10.0.0.2"))
            kind, operation = prng.choice((2, 3)), prng.choice((3, 4, 6, 7, 8, 10, 11))
            name = _names(prng, 1)[0]
            asked = (str(who), host, operation, kind)
            assert authorizer.decide(who, host, operation, kind, name).allowed == reference(
                entries, *asked, name, default
            ), (entries, asked, name)
            if not default:
                assert authorizer.decide_any(who, host, operation, kind).allowed == reference_any(
                    entries, *asked
                ), (entries, asked)


def test_super_users_may_do_everything() -> None:
    authorizer = the_authorizer(topic("*", ALL, DENY, principal="User:*"))
    root = Principal("User", "root")
    assert authorizer.decide(root, HOST, 4, 2, "a") == Decision(True, DefaultRule.SUPER_USER)
    assert authorizer.decide_any(root, HOST, 4, 2).allowed
    assert not authorizer.decide(ADA, HOST, 4, 2, "a").allowed


def test_a_denial_says_which_entry_it_was() -> None:
    denial = topic("or", 3, DENY, pattern=PREFIXED, host=HOST)
    authorizer = the_authorizer(topic("orders", ALL), denial)
    assert authorizer.decide(ADA, HOST, 3, 2, "orders") == Decision(False, denial)
    assert authorizer.decide(ADA, HOST, 4, 2, "orders") == Decision(True, topic("orders", ALL))
    assert authorizer.decide(ADA, "10.0.0.2", 3, 2, "orders").allowed
    assert authorizer.decide(BOB, HOST, 3, 2, "x") == Decision(False, DefaultRule.DENY)


def test_a_denial_implies_nothing() -> None:
    """Goal: DENY READ leaves DESCRIBE, and DENY DESCRIBE leaves READ."""
    authorizer = the_authorizer(topic("a", ALL), topic("a", 3, DENY), topic("b", 3))
    assert not authorizer.decide(ADA, HOST, 3, 2, "a").allowed
    assert authorizer.decide(ADA, HOST, 8, 2, "a").allowed
    assert authorizer.decide(ADA, HOST, 8, 2, "b").allowed
    denied = the_authorizer(topic("b", 3), topic("b", 8, DENY))
    assert denied.decide(ADA, HOST, 3, 2, "b").allowed
    assert not denied.decide(ADA, HOST, 8, 2, "b").allowed


def test_a_prefix_of_a_star_is_a_character() -> None:
    authorizer = the_authorizer(topic("*", 3, pattern=PREFIXED))
    assert authorizer.decide(ADA, HOST, 3, 2, "*a").allowed
    assert not authorizer.decide(ADA, HOST, 3, 2, "a").allowed


def _forget(*_: object) -> None:
    """Denials that a test does not look at."""


def test_only_super_users_are_decided_about_before_the_entries_are_known() -> None:
    authorizer = Authorizer(["User:root"], allow_everyone=True)
    assert not Access(authorizer, ADA, HOST, _forget).is_known
    assert Access(authorizer, Principal("User", "root"), HOST, _forget).is_known
    assert not Access(authorizer, ADA, HOST, _forget).allows(
        Operation.READ, ResourceType.TOPIC, "a"
    )
    authorizer.follow({})
    assert Access(authorizer, ADA, HOST, _forget).allows(Operation.READ, ResourceType.TOPIC, "a")


def test_operations_are_a_sum_and_the_cluster_needs_describe() -> None:
    authorizer = the_authorizer(
        topic("a", 3), AclEntry(4, "kafka-cluster", LITERAL, "User:ada", "*", 9, ALLOW)
    )
    access = Access(authorizer, ADA, HOST, _forget)
    assert access.operations(ResourceType.TOPIC, "a", asked=True) == (1 << 3) + (1 << 8)
    assert access.operations(ResourceType.TOPIC, "b", asked=True) == 0
    assert access.operations(ResourceType.TOPIC, "a", asked=False) == NOT_ASKED
    assert access.operations(ResourceType.CLUSTER, "kafka-cluster", asked=True) == 0
