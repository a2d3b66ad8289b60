"""DescribeTransactions: what the coordinator knows, with the partitions that are still open."""

from tests.unit.broker.api.transaction_client import add, begin, one_node
from tests.unit.broker.one_node import WALL_MS
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, to_millis, to_timestamp_ms


def describe(wire, *ids):
    response = wire.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=ids)
    return response.transaction_states


def test_an_open_transaction():
    wire = one_node().client()
    producer = begin(wire, "x", 5000)
    (empty,) = describe(wire, "x")
    assert (empty.transaction_state, empty.topics) == ("Empty", ())
    assert to_timestamp_ms(empty.transaction_start_time) == -1
    add(wire, 3, producer, t=[1, 0])
    (found,) = describe(wire, "x")
    assert error_of(found.error_code) is ErrorCode.NONE
    assert (found.transactional_id, found.transaction_state) == ("x", "Ongoing")
    assert (found.producer_id, found.producer_epoch) == producer[1:]
    assert to_millis(found.transaction_timeout) == 5000
    assert to_timestamp_ms(found.transaction_start_time) >= WALL_MS
    assert [(each.topic, each.partitions) for each in found.topics] == [("t", (0, 1))]


def test_what_is_not_there():
    wire = one_node().client()
    codes = [error_of(each.error_code) for each in describe(wire, "nothing", "", "nothing")]
    missing = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert codes == [missing, ErrorCode.INVALID_REQUEST, missing]
    assert describe(wire) == ()


def test_without_a_coordinator_the_client_looks_for_it(wire):
    (found,) = describe(wire, "x")
    assert error_of(found.error_code) is ErrorCode.NOT_COORDINATOR
