"""ListTransactions: all ids of this broker, by state, producer and duration."""

import pytest

from tests.unit.broker.api.transaction_client import SETTINGS, add, begin, one_node
from tests.unit.broker.api.wire_turns import versions
from tests.unit.broker.one_node import OneNode
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.LIST_TRANSACTIONS)


def listed(wire, version, **filters):
    values = {"state_filters": (), "producer_id_filters": (), **filters}
    values = {"duration_filter": -1, "transactional_id_pattern": None, **values}
    response = wire.call(ApiKey.LIST_TRANSACTIONS, version, **values)
    assert error_of(response.error_code) is ErrorCode.NONE
    rows = {each.transactional_id: each.transaction_state for each in response.transaction_states}
    return rows, response.unknown_state_filters


@pytest.mark.parametrize("version", VERSIONS)
def test_ids_by_state_and_producer(version):
    node = one_node()
    wire = node.client()
    producers = {name: begin(wire, name) for name in "abc"}
    add(wire, 3, producers["b"], t=[0])
    everything = {"a": "Empty", "b": "Ongoing", "c": "Empty"}
    assert listed(wire, version) == (everything, ())
    assert listed(wire, version, state_filters=("Ongoing", "Dead"))[0] == {"b": "Ongoing"}
    assert listed(wire, version, state_filters=("Odd",)) == ({}, ("Odd",))
    of_a = (producers["a"].producer_id,)
    assert listed(wire, version, producer_id_filters=of_a)[0] == {"a": "Empty"}


def test_ids_by_regular_expression():
    node = one_node()
    wire = node.client()
    for name in ("orders-1", "orders-2", "bills-1"):
        begin(wire, name)
    for pattern, found in ((None, 3), ("", 3), ("orders-.*", 2), ("orders", 0)):
        assert len(listed(wire, 2, transactional_id_pattern=pattern)[0]) == found
    values = {"state_filters": (), "producer_id_filters": (), "duration_filter": -1}
    values |= {"transactional_id_pattern": "("}
    code = error_of(wire.call(ApiKey.LIST_TRANSACTIONS, 2, **values).error_code)
    assert code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_only_transactions_that_run_for_so_long():
    node = one_node()
    wire = node.client()
    begin(wire, "a")
    add(wire, 3, begin(wire, "b"), t=[0])
    node.advance(1000)
    assert listed(wire, 1, duration_filter=-1)[0].keys() == {"a", "b"}
    assert listed(wire, 1, duration_filter=500)[0].keys() == {"a", "b"}
    assert listed(wire, 1, duration_filter=60_000)[0].keys() == {"a"}


def test_ids_that_an_expression_matches():
    wire = one_node().client()
    for name in ("one-a", "one-b", "two"):
        begin(wire, name)
    assert listed(wire, 2, transactional_id_pattern="one-.*")[0].keys() == {"one-a", "one-b"}
    assert len(listed(wire, 2, transactional_id_pattern="")[0]) == 3
    asked = {"state_filters": (), "producer_id_filters": (), "transactional_id_pattern": "["}
    response = wire.call(ApiKey.LIST_TRANSACTIONS, 2, **asked)
    assert error_of(response.error_code) is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_list_with_gaps_is_not_given():
    """While a coordinator loads, its ids would be missing."""
    before = one_node()
    begin(before.client())
    again = OneNode(disk=before.disk, **SETTINGS)
    response = again.client().call(
        ApiKey.LIST_TRANSACTIONS, 0, state_filters=(), producer_id_filters=()
    )
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert error_of(response.error_code) in (ErrorCode.NONE, loading)
    again.run_until(lambda: again.broker.transactions.coordinators() is not None)
    assert listed(again.client(), 0)[0].keys() == {"x"}
