"""Goal: a transaction hangs where a leader has it and no coordinator; it is ended like theirs."""

import time

import pytest

from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.client.admin import AdminClient, AdminError
from tidelog.client.transactions import TransactionListing
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.values import millis, timestamp

LATE_MS = int(time.time() * 1000)
OLD_MS = LATE_MS - 3_600_000


class Cluster:
    """One broker: partition 0 of `orders`, with the producers and the ids of a test."""

    def __init__(self):
        # Producer id -> where its transaction begins, and the time of its last record.
        self.producers = {}
        # Transactional id -> producer id, and the partitions of its transaction.
        self.ids = {}
        self.marker_codes = [ErrorCode.NONE]
        self.brokers = ScriptedBrokers(
            {
                ApiKey.METADATA: lambda _: self._metadata(),
                ApiKey.FIND_COORDINATOR: lambda asked: {
                    "coordinators": [{"key": asked.coordinator_keys[0]} | self._broker()]
                },
                ApiKey.DESCRIBE_PRODUCERS: lambda _: self._producers(),
                ApiKey.LIST_TRANSACTIONS: self._listed,
                ApiKey.DESCRIBE_TRANSACTIONS: self._described,
                ApiKey.WRITE_TXN_MARKERS: self._marked,
            }
        )

    def _broker(self):
        return {"node_id": 1, "host": "127.0.0.1", "port": self.brokers.port}

    def _metadata(self):
        row = {"partition_index": 0, "leader_id": 1, "leader_epoch": 0}
        row |= {"replica_nodes": [1], "isr_nodes": [1], "offline_replicas": []}
        topics = [{"name": "orders", "topic_id": None, "partitions": [row]}]
        found = {"brokers": [self._broker()], "cluster_id": "c", "controller_id": 1}
        return {**found, "topics": topics}

    def _producers(self):
        rows = [
            {
                "producer_id": producer_id,
                "producer_epoch": 3,
                "last_sequence": 0,
                "last_timestamp": at,
                "coordinator_epoch": -1,
                "current_txn_start_offset": start,
            }
            for producer_id, (start, at) in self.producers.items()
        ]
        partition = {"partition_index": 0, "active_producers": rows}
        return {"topics": [{"name": "orders", "partitions": [partition]}]}

    def _listed(self, asked):
        wanted = set(asked.producer_id_filters)
        rows = [
            {"transactional_id": name, "producer_id": found, "transaction_state": "Ongoing"}
            for name, (found, _) in self.ids.items()
            if not wanted or found in wanted
        ]
        return {"unknown_state_filters": [], "transaction_states": rows}

    def _described(self, asked):
        name = asked.transactional_ids[0]
        producer_id, numbers = self.ids.get(name, (-1, ()))
        code = ErrorCode.NONE if name in self.ids else ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        row = {
            "error_code": code,
            "transactional_id": name,
            "transaction_state": "Ongoing",
            "transaction_timeout": millis(60_000),
            "transaction_start_time": timestamp(OLD_MS),
            "producer_id": producer_id,
            "producer_epoch": 3,
            "topics": [{"topic": "orders", "partitions": list(numbers)}],
        }
        return {"transaction_states": [row]}

    def _marked(self, asked):
        (marker,) = asked.markers
        code = self.marker_codes.pop(0)
        if code is ErrorCode.NONE:
            del self.producers[marker.producer_id]
        partition = {"partition_index": 0, "error_code": code}
        topics = [{"name": "orders", "partitions": [partition]}]
        return {"markers": [{"producer_id": marker.producer_id, "topics": topics}]}


@pytest.fixture
def cluster():
    found = Cluster()
    with found.brokers:
        yield found


@pytest.fixture
def transactions(cluster):
    with AdminClient([cluster.brokers.bootstrap_servers], timeout_s=2.0) as admin:
        yield admin.transactions


def test_all_ids(cluster, transactions):
    cluster.ids = {"b": (2, [0]), "a": (1, [])}
    assert transactions.list() == [
        TransactionListing("a", "Ongoing", 1, 1),
        TransactionListing("b", "Ongoing", 2, 1),
    ]


def test_one_id(cluster, transactions):
    cluster.ids = {"a": (1, [0])}
    found = transactions.describe("a")
    assert (found.producer_id, found.timeout_ms, found.start_ms) == (1, 60_000, OLD_MS)
    assert found.partitions == (TopicPartition("orders", 0),)
    with pytest.raises(AdminError, match="TRANSACTIONAL_ID_NOT_FOUND"):
        transactions.describe("b")


def test_which_transactions_hang(cluster, transactions):
    """1 is known to its coordinator with this partition, 2 without it, 3 not at all; 4 has none
    open, and 5 is young."""
    cluster.ids = {"a": (1, [0]), "b": (2, [])}
    cluster.producers = {n: (10 * n, OLD_MS) for n in (1, 2, 3)}
    cluster.producers |= {4: (-1, OLD_MS), 5: (50, LATE_MS)}
    found = transactions.hanging(["orders"], 900_000)
    assert [(each.producer_id, each.start_offset) for each in found] == [(2, 20), (3, 30)]


def test_one_is_aborted(cluster, transactions):
    cluster.producers = {3: (30, OLD_MS)}
    cluster.marker_codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
    assert transactions.abort("orders", 0, 30).producer_id == 3
    asked = [r for r in cluster.brokers.requests if hasattr(r, "markers")]
    marker = asked[-1].markers[0]
    assert (marker.producer_epoch, marker.coordinator_epoch) == (3, 0)
    assert not marker.transaction_result
    with pytest.raises(AdminError, match="no open transaction begins there"):
        transactions.abort("orders", 0, 30)
