"""DeleteAcls: what is removed counts for the next request."""

from tests.unit.broker.secured_node import (
    DESCRIBE,
    READ,
    WRITE,
    a_filter,
    add,
    as_user,
    entry,
    metadata,
    topics_of,
)
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of


def test_an_entry_counts_for_the_next_request_of_an_open_connection(secured):
    wire = as_user(secured, "ada")
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert topics_of(metadata(wire, "orders")) == {"orders": denied}
    assert add(secured, entry(DESCRIBE)) == [ErrorCode.NONE]
    assert topics_of(metadata(wire, "orders", "secret")) == {
        "orders": ErrorCode.NONE,
        "secret": denied,
    }
    removed = secured.client().call(ApiKey.DELETE_ACLS, 3, filters=[a_filter()])
    assert len(removed.filter_results[0].matching_acls) == 1
    assert topics_of(metadata(wire, "orders")) == {"orders": denied}


def test_two_filters_may_find_the_same_entry(secured):
    add(secured, entry(READ))
    wire = secured.client()
    filters = [
        a_filter(),
        a_filter(operation=READ),
        a_filter(operation=WRITE),
        a_filter(operation=99),
    ]
    response = wire.call(ApiKey.DELETE_ACLS, 3, filters=filters)
    found = [(len(e.matching_acls), error_of(e.error_code)) for e in response.filter_results]
    assert found == [
        (1, ErrorCode.NONE),
        (1, ErrorCode.NONE),
        (0, ErrorCode.NONE),
        (0, ErrorCode.INVALID_REQUEST),
    ]
    assert not secured.broker.image.acls
