"""Requests of a transactional producer to a node that coordinates its id."""

from typing import Any, NamedTuple

from tests.unit.broker.one_node import OneNode, Wire, coordinating
from tidelog.errors import ErrorCode
from tidelog.model import TRANSACTIONS_TOPIC
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

SETTINGS = {
    "transaction_state_log_num_partitions": "3",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "offsets_topic_num_partitions": "3",
    "offsets_topic_replication_factor": "1",
}


class Producer(NamedTuple):
    """Who it is to the coordinator."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def one_node(**settings: str) -> OneNode:
    """A node that coordinates, and has topic `t` with two partitions."""
    node = coordinating(TRANSACTIONS_TOPIC, find, {**SETTINGS, **settings})
    node.run_until(lambda: node.broker.transactions.coordinators() is not None)
    return node


def find(wire: Wire, transactional_id: str = "x") -> Any:
    return wire.call(ApiKey.FIND_COORDINATOR, 3, key=transactional_id, key_type=1)


def begin(wire: Wire, transactional_id: str = "x", timeout_ms: int = 60_000) -> Producer:
    """A new producer."""
    response = wire.call(
        ApiKey.INIT_PRODUCER_ID,
        5,
        transactional_id=transactional_id,
        transaction_timeout=millis(timeout_ms),
    )
    assert error_of(response.error_code) is ErrorCode.NONE, response
    return Producer(transactional_id, response.producer_id, response.producer_epoch)


def add(wire: Wire, version: int, producer: Producer, **topics: list[int]) -> dict[Any, ErrorCode]:
    """Adds partitions as a producer does; the code of each."""
    response = wire.call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[
            {"name": name, "partitions": numbers} for name, numbers in topics.items()
        ],
    )
    return codes_of(response.results_by_topic_v3_and_below)


def codes_of(topics: Any) -> dict[Any, ErrorCode]:
    return {
        (topic.name, each.partition_index): error_of(each.partition_error_code)
        for topic in topics
        for each in topic.results_by_partition
    }


def end(wire: Wire, version: int, producer: Producer, *, commit: bool = True) -> Any:
    """The answer to EndTxn."""
    return wire.call(ApiKey.END_TXN, version, committed=commit, **producer._asdict())
