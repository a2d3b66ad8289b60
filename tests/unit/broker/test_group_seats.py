"""Goal: what waits for replicas waits for a limited time, all groups of a node are listed, and what
was committed is there behind restarts and compaction."""

import pytest

from tests.unit.broker.api.group_client import SETTINGS, commit, fetch, one_node
from tests.unit.broker.coordinator_orders import Order
from tests.unit.broker.one_node import OneNode
from tidelog.errors import ErrorCode
from tidelog.model import OFFSETS_TOPIC


def test_the_groups_of_all_partitions_are_listed():
    node = one_node()
    wire = node.client()
    names = [f"g{number}" for number in range(20)]
    for name in names:
        commit(wire, 9, {"t": {0: 7}}, group_id=name)
    listed = node.broker.groups.list_groups()
    assert listed is not None and sorted(each.group_id for each in listed) == sorted(names)


def test_replicas_that_do_not_follow_let_a_commit_time_out():
    node = OneNode(**SETTINGS, offsets_commit_timeout_ms="400")
    node.add_broker(2)
    wire = node.client()
    wire.create_topic("t")
    wire.create_topic(OFFSETS_TOPIC, replicas=(1, 2))
    started = node.now
    codes = commit(wire, 9, {"t": {0: 7}})
    assert codes == {("t", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert node.now - started >= 400
    # Its outcome is open; until it is decided, there is no offset.
    assert fetch(wire, 9, {"t": [0]})[1] == {("t", 0): (-1, ErrorCode.NONE)}
    # The broker that does not follow is fenced; with it gone the commit comes into force.
    node.run_until(lambda: fetch(wire, 9, {"t": [0]})[1]["t", 0][0] == 7)


@pytest.mark.parametrize("seed", range(20))
def test_offsets_outlive_restarts_and_compaction(seed):
    """Plain ones, those of transactions, and deletions, while the cleaner goes over the log."""
    order = Order(seed)
    for _ in range(40):
        order.step()
