"""ListPartitionReassignments between wire and controller."""

from tests.unit.broker.api.wire_turns import answered, request
from tidelog.broker.api import k46_list_partition_reassignments as module
from tidelog.controller.messages import (
    ListReassignments,
    ListReassignmentsResult,
    ReassignmentInProgress,
    Refused,
)
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

KEY = ApiKey.LIST_PARTITION_REASSIGNMENTS
ALTER = ApiKey.ALTER_PARTITION_REASSIGNMENTS


def asking(topics):
    return request(KEY, 0, timeout=millis(1000), topics=topics)


def rows(response):
    return [
        (topic.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in response.topics
        for p in topic.partitions
    ]


def test_a_request():
    named = ({"name": "t", "partition_indexes": (0, 2)},)
    assert module.API.message_of(asking(named)) == ListReassignments((("t", (0, 2)),))
    assert module.API.message_of(asking(None)) == ListReassignments(None)


def test_results_and_refusals(broker):
    result = ListReassignmentsResult(
        (
            ReassignmentInProgress("t", 0, (2, 1), (2,), (1,)),
            ReassignmentInProgress("t", 1, (2, 1), (2,), ()),
        )
    )
    entity = module.API.answer(broker, 0, asking(None), result)
    assert rows(answered(KEY, 0, entity)) == [
        ("t", 0, (2, 1), (2,), (1,)),
        ("t", 1, (2, 1), (2,), ()),
    ]
    refused = Refused(ErrorCode.NOT_CONTROLLER, "not me")
    response = answered(KEY, 0, module.API.answer(broker, 0, asking(None), refused))
    assert error_of(response.error_code) is ErrorCode.NOT_CONTROLLER
    assert response.topics == ()


def test_end_to_end(node, wire, controller_wire):
    node.add_broker(2, fenced=True)
    assert rows(wire.call(KEY, 0, timeout=millis(1000), topics=None)) == []
    wish = {"partition_index": 1, "replicas": (2,)}
    wire.call(
        ALTER,
        1,
        timeout=millis(1000),
        allow_replication_factor_change=True,
        topics=({"name": "t", "partitions": (wish,)},),
    )
    for client in (wire, controller_wire):
        response = client.call(KEY, 0, timeout=millis(1000), topics=None)
        assert rows(response) == [("t", 1, (2, 1), (2,), (1,))]
