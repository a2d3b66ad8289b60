"""AlterPartitionReassignments between wire and controller, in both versions."""

import pytest

from tests.unit.broker.api.wire_turns import answered, request, versions
from tidelog.broker.api import k45_alter_partition_reassignments as module
from tidelog.controller.messages import (
    AlterReassignments,
    AlterReassignmentsResult,
    Reassignment,
    ReassignmentResult,
    Refused,
)
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

KEY = ApiKey.ALTER_PARTITION_REASSIGNMENTS


def values(*wishes):
    return {
        "timeout": millis(1000),
        "allow_replication_factor_change": False,
        "topics": tuple(
            {"name": name, "partitions": ({"partition_index": number, "replicas": replicas},)}
            for name, number, replicas in wishes
        ),
    }


def rows(response):
    return [
        (topic.name, partition.partition_index, error_of(partition.error_code))
        for topic in response.responses
        for partition in topic.partitions
    ]


@pytest.mark.parametrize("version", versions(KEY))
def test_a_request(version):
    asked = request(KEY, version, **values(("t", 0, (1, 2)), ("u", 3, None)))
    wishes = (Reassignment("t", 0, (1, 2)), Reassignment("u", 3, None))
    assert module.API.message_of(asked) == AlterReassignments(wishes, version == 0)


@pytest.mark.parametrize("version", versions(KEY))
def test_results_and_refusals(broker, version):
    asked = request(KEY, version, **values(("t", 0, (1, 2))))
    result = AlterReassignmentsResult(
        (
            ReassignmentResult("t", 0, ErrorCode.NONE),
            ReassignmentResult("u", 3, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "none"),
        )
    )
    response = answered(KEY, version, module.API.answer(broker, version, asked, result))
    assert rows(response) == [
        ("t", 0, ErrorCode.NONE),
        ("u", 3, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ]
    refused = module.API.answer(broker, version, asked, Refused(ErrorCode.NOT_CONTROLLER, "not me"))
    response = answered(KEY, version, refused)
    assert (error_of(response.error_code), response.error_message) == (
        ErrorCode.NOT_CONTROLLER,
        "not me",
    )


@pytest.mark.parametrize("version", versions(KEY))
def test_end_to_end(node, wire, controller_wire, version):
    node.add_broker(2, fenced=True)
    asked = values(("t", 0, (2,)), ("t", 1, None), ("none", 0, (1,)))
    expected = [
        ("t", 0, ErrorCode.NONE),
        ("t", 1, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("none", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert rows(wire.call(KEY, version, **asked)) == expected
    partition = node.broker.image.topics_by_name["t"].partitions[0]
    assert (partition.replicas, partition.adding_replicas) == ((2, 1), (2,))
    back = values(("t", 0, None))
    assert rows(controller_wire.call(KEY, version, **back)) == [("t", 0, ErrorCode.NONE)]
    assert node.broker.image.topics_by_name["t"].partitions[0].replicas == (1,)
