"""Goal: the numbers of access control entries are Kafka's."""

from tidelog.wire.acl_values import Operation, PatternType, Permission, ResourceType


def test_numbers_are_kafkas() -> None:
    assert [each.name for each in ResourceType][:4] == ["ANY", "TOPIC", "GROUP", "CLUSTER"]
    assert (ResourceType.USER, Operation.READ, Operation.TWO_PHASE_COMMIT) == (7, 3, 15)
    assert (PatternType.LITERAL, PatternType.PREFIXED) == (3, 4)
    assert (Permission.DENY, Permission.ALLOW) == (2, 3)
