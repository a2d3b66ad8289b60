"""Every version of a client gets errors that it knows how to take."""

import pytest

from tidelog.broker.api.transaction_errors import of_commit, of_produce
from tidelog.errors import ErrorCode


@pytest.mark.parametrize(
    ("code", "by_version"),
    [
        ("NETWORK_EXCEPTION", {3: "NOT_ENOUGH_REPLICAS", 13: "NOT_ENOUGH_REPLICAS"}),
        ("NOT_COORDINATOR", {3: "NOT_ENOUGH_REPLICAS", 13: "NOT_ENOUGH_REPLICAS"}),
        ("CONCURRENT_TRANSACTIONS", {11: "NOT_ENOUGH_REPLICAS", 12: "CONCURRENT_TRANSACTIONS"}),
        ("TRANSACTION_ABORTABLE", {10: "INVALID_TXN_STATE", 11: "TRANSACTION_ABORTABLE"}),
        ("PRODUCER_FENCED", {3: "INVALID_PRODUCER_EPOCH", 13: "INVALID_PRODUCER_EPOCH"}),
        ("NOT_LEADER_OR_FOLLOWER", {3: "NOT_LEADER_OR_FOLLOWER"}),
    ],
)
def test_of_a_produce(code, by_version):
    for version, expected in by_version.items():
        assert of_produce(ErrorCode[code], version) is ErrorCode[expected]


@pytest.mark.parametrize(
    ("code", "by_version"),
    [
        ("NETWORK_EXCEPTION", {1: "COORDINATOR_NOT_AVAILABLE", 2: "COORDINATOR_LOAD_IN_PROGRESS"}),
        ("TRANSACTION_ABORTABLE", {3: "INVALID_TXN_STATE", 4: "TRANSACTION_ABORTABLE"}),
        ("CONCURRENT_TRANSACTIONS", {4: "COORDINATOR_NOT_AVAILABLE", 5: "CONCURRENT_TRANSACTIONS"}),
        ("PRODUCER_FENCED", {0: "INVALID_PRODUCER_EPOCH", 5: "INVALID_PRODUCER_EPOCH"}),
    ],
)
def test_of_a_commit(code, by_version):
    for version, expected in by_version.items():
        assert of_commit(ErrorCode[code], version) is ErrorCode[expected]
