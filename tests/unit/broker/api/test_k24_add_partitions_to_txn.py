"""AddPartitionsToTxn: all partitions or none, from producers and from brokers."""

import pytest

from tests.unit.broker.api.transaction_client import Producer, add, begin, codes_of, end, one_node
from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.ADD_PARTITIONS_TO_TXN)
BATCHED = [version for version in VERSIONS if version >= 4]
SINGLE = [version for version in VERSIONS if version < 4]


def ask_as_broker(wire, version, *asked, verify_only=False):
    """The codes of each transaction, by its id."""
    response = wire.call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        transactions=[
            {
                **producer._asdict(),
                "verify_only": verify_only,
                "topics": [{"name": name, "partitions": each} for name, each in topics.items()],
            }
            for producer, topics in asked
        ],
    )
    assert error_of(response.error_code) is ErrorCode.NONE
    return {
        each.transactional_id: codes_of(each.topic_results)
        for each in response.results_by_transaction
    }


@pytest.mark.parametrize("version", SINGLE)
def test_a_producer_adds_partitions(version):
    wire = one_node().client()
    producer = begin(wire)
    expected = {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}
    assert add(wire, version, producer, t=[0, 1]) == expected
    assert add(wire, version, producer, t=[1, 0]) == expected


@pytest.mark.parametrize("version", SINGLE)
def test_if_one_does_not_exist_none_is_added(version):
    wire = one_node().client()
    producer = begin(wire)
    assert add(wire, version, producer, t=[0, 9], u=[0]) == {
        ("t", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    verified = ask_as_broker(wire, 5, (producer, {"t": [0]}), verify_only=True)
    assert verified == {"x": {("t", 0): ErrorCode.TRANSACTION_ABORTABLE}}


@pytest.mark.parametrize("version", SINGLE)
def test_older_clients_know_no_fence(version):
    wire = one_node().client()
    old = begin(wire)
    begin(wire)
    code = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert add(wire, version, old, t=[0]) == {("t", 0): code}
    unnamed = add(wire, version, old._replace(transactional_id=""), t=[0])
    assert unnamed == {("t", 0): ErrorCode.INVALID_REQUEST}
    unnamed = add(wire, version, old._replace(transactional_id=""), u=[0])
    assert unnamed == {("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", BATCHED)
def test_a_broker_adds_and_verifies_for_several_producers(version):
    wire = one_node().client()
    one, two = begin(wire, "x"), begin(wire, "y")
    both = ((one, {"t": [0]}), (two._replace(producer_id=99), {"t": [1]}))
    expected = {
        "x": {("t", 0): ErrorCode.NONE},
        "y": {("t", 1): ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    }
    assert ask_as_broker(wire, version, *both) == expected
    assert ask_as_broker(wire, version, *both, verify_only=True) == expected
    # It was an add of version 2: the end has the next epoch.
    assert end(wire, 5, one).producer_epoch == one.producer_epoch + 1


@pytest.mark.parametrize("version", BATCHED)
def test_nothing_is_asked_about_no_transaction(version):
    assert ask_as_broker(one_node().client(), version) == {}


def test_without_a_coordinator_the_client_looks_for_it(wire):
    assert add(wire, 3, Producer("x", 1, 0), t=[0]) == {("t", 0): ErrorCode.NOT_COORDINATOR}
