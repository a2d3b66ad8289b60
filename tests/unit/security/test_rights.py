"""Rights and their alternatives."""

from tidelog.security.rights import Operation, ResourceType, Right, on


def test_a_requirement_lists_alternatives():
    requirement = on(Operation.CREATE, ResourceType.CLUSTER, ResourceType.TOPIC)
    assert [str(right) for right in requirement] == ["CREATE CLUSTER", "CREATE TOPIC"]


def test_a_condition_is_shown():
    right = Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional records")
    assert str(right) == "WRITE TRANSACTIONAL_ID (transactional records)"
