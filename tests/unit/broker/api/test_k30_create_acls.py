"""CreateAcls: entries one by one."""

import pytest

from tests.unit.broker.one_node import OneNode
from tests.unit.broker.secured_node import (
    CLUSTER,
    DESCRIBE,
    READ,
    add,
    as_user,
    entry,
    metadata,
    topics_of,
)
from tidelog.config.values import STANDARD_AUTHORIZER
from tidelog.errors import ErrorCode


def test_an_entry_that_exists_is_a_success_without_a_record(secured):
    assert add(secured, entry(READ), entry(READ)) == [ErrorCode.NONE] * 2
    assert add(secured, entry(READ)) == [ErrorCode.NONE]
    assert len(secured.broker.image.acls) == 1


def test_entries_are_refused_one_by_one(secured):
    wrong = [
        entry(READ, host="a.b.c"),
        entry(READ, ""),
        entry(READ, resource_pattern_type=2),
        entry(READ, principal="ada"),
        entry(READ, resource_type=CLUSTER),
    ]
    codes = add(secured, *wrong, entry(READ))
    assert codes == [ErrorCode.INVALID_REQUEST] * 5 + [ErrorCode.NONE]


@pytest.mark.parametrize("number", [-128, -1, 0, 1, 99, 127])
@pytest.mark.parametrize(
    "field", ["resource_type", "resource_pattern_type", "operation", "permission_type"]
)
def test_a_number_that_names_nothing_is_refused(secured, field, number):
    """ANY (1) is one to ask with, and not one to write. Who has the right to write entries could
    end the controller with such a number: the audit looked for its name."""
    codes = add(secured, entry(READ) | {field: number}, entry(READ))
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert len(secured.broker.image.acls) == 1


def test_entries_survive_a_restart(secured):
    add(secured, entry(DESCRIBE))
    again = OneNode(
        disk=secured.disk,
        seed=8,
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:ANONYMOUS",
    )
    assert topics_of(metadata(as_user(again, "ada"), "orders")) == {"orders": ErrorCode.NONE}
