"""DescribeAcls: the entries that a filter finds."""

from tests.unit.broker.one_node import OneNode
from tests.unit.broker.secured_node import READ, WRITE, a_filter, add, entry
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of


def test_entries_are_listed_by_resource_and_found_by_filters(secured):
    prefix = entry(READ, "or", resource_pattern_type=4)
    assert add(secured, entry(READ), entry(WRITE), prefix) == [ErrorCode.NONE] * 3
    wire = secured.client()
    listed = wire.call(ApiKey.DESCRIBE_ACLS, 3, **a_filter())
    shown = {(r.resource_name, r.pattern_type): len(r.acls) for r in listed.resources}
    assert shown == {("orders", 3): 2, ("or", 4): 1}
    found = a_filter(resource_name_filter="orders", pattern_type_filter=2, operation=READ)
    assert len(wire.call(ApiKey.DESCRIBE_ACLS, 3, **found).resources) == 2
    wrong = wire.call(ApiKey.DESCRIBE_ACLS, 3, **a_filter(operation=99))
    assert error_of(wrong.error_code) is ErrorCode.INVALID_REQUEST


def test_without_an_authorizer_there_are_no_entries():
    disabled, node = ErrorCode.SECURITY_DISABLED, OneNode()
    wire = node.client()
    assert add(node, entry(READ)) == [disabled]
    listed = wire.call(ApiKey.DESCRIBE_ACLS, 3, **a_filter())
    assert error_of(listed.error_code) is disabled
    removed = wire.call(ApiKey.DELETE_ACLS, 3, filters=[a_filter()])
    assert error_of(removed.filter_results[0].error_code) is disabled
