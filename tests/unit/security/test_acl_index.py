"""The index of access control entries."""

from tests.unit.security.test_authorizer import ADA, HOST, LITERAL, PREFIXED, the_authorizer, topic
from tidelog.security.acl_index import canonical_host
from tidelog.security.authorizer import Access
from tidelog.security.rights import Operation, ResourceType


def _forget(*_: object) -> None:
    """Denials that a test does not look at."""


def test_addresses_are_compared_and_not_their_texts() -> None:
    assert canonical_host("0:0:0:0:0:0:0:1") == canonical_host("::1")
    assert canonical_host("::ffff:10.0.0.1") == "10.0.0.1"
    assert canonical_host("a host") == "a host"
    authorizer = the_authorizer(topic("a", 3, host="::ffff:10.0.0.1"), topic("b", 3, host="::1"))
    assert Access(authorizer, ADA, "10.0.0.1", _forget).allows(
        Operation.READ, ResourceType.TOPIC, "a"
    )
    assert Access(authorizer, ADA, "0:0:0:0:0:0:0:1", _forget).allows(
        Operation.READ, ResourceType.TOPIC, "b"
    )


def test_the_cost_of_a_decision_does_not_depend_on_the_number_of_entries() -> None:
    """Goal: places that are looked at, of one entry and of ten thousand."""
    entries = [
        topic(f"t{n:05}", 3, pattern=LITERAL if n % 2 else PREFIXED, principal=f"User:u{n}")
        for n in range(10_000)
    ]
    large = the_authorizer(topic("orders", 3), *entries)
    assert large.decide(ADA, HOST, 3, 2, "orders").allowed
    assert len(list(large.index.protecting(2, "t00001"))) == 1
    assert len(list(large.index.protecting(2, "t00002"))) == 1
    of_type = large.index._types[2]
    assert len(of_type.lengths) == 1
    assert large.decide_any(ADA, HOST, 3, 2).allowed
    assert len(list(large.index.of_principals(2, (str(ADA), "User:*")))) == 1
