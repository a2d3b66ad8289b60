"""ElectLeaders between wire and controller, in all versions."""

import pytest

from tests.unit.broker.api.wire_turns import answered, request, versions
from tidelog.broker.api import k43_elect_leaders as module
from tidelog.controller.messages import (
    ElectionResult,
    ElectionType,
    ElectLeaders,
    ElectLeadersResult,
    Refused,
)
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

KEY = ApiKey.ELECT_LEADERS
VALUES = {
    "election_type": int(ElectionType.UNCLEAN),
    "topic_partitions": (
        {"topic": "t", "partitions": (0, 1)},
        {"topic": "none", "partitions": (7,)},
    ),
}


def rows(response):
    return [
        (item.topic, result.partition_id, error_of(result.error_code))
        for item in response.replica_election_results
        for result in item.partition_result
    ]


@pytest.mark.parametrize("version", versions(KEY))
def test_a_request(version):
    kind = ElectionType.UNCLEAN if version else ElectionType.PREFERRED
    message = module.API.message_of(request(KEY, version, **VALUES))
    assert message == ElectLeaders(kind, (("t", (0, 1)), ("none", (7,))))


@pytest.mark.parametrize("version", versions(KEY))
def test_no_list_of_partitions_is_all_of_them(version):
    asked = request(KEY, version, election_type=0, topic_partitions=None)
    assert module.API.message_of(asked) == ElectLeaders(ElectionType.PREFERRED, None)


@pytest.mark.parametrize("version", versions(KEY))
def test_results_and_refusals(broker, version):
    asked = request(KEY, version, **VALUES)
    result = ElectLeadersResult(
        (
            ElectionResult("t", 0, ErrorCode.NONE),
            ElectionResult("t", 1, ErrorCode.ELECTION_NOT_NEEDED, "led"),
            ElectionResult("none", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "unknown"),
        )
    )
    response = answered(KEY, version, module.API.answer(broker, version, asked, result))
    assert rows(response) == [
        ("t", 0, ErrorCode.NONE),
        ("t", 1, ErrorCode.ELECTION_NOT_NEEDED),
        ("none", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    refused = module.API.answer(broker, version, asked, Refused(ErrorCode.NOT_CONTROLLER, "not me"))
    response = answered(KEY, version, refused)
    assert rows(response) == [
        ("t", 0, ErrorCode.NOT_CONTROLLER),
        ("t", 1, ErrorCode.NOT_CONTROLLER),
        ("none", 7, ErrorCode.NOT_CONTROLLER),
    ]
    if version:
        assert error_of(response.error_code) is ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("version", versions(KEY))
def test_end_to_end(wire, controller_wire, version):
    asked = {**VALUES, "election_type": 0}
    expected = [
        ("t", 0, ErrorCode.ELECTION_NOT_NEEDED),
        ("t", 1, ErrorCode.ELECTION_NOT_NEEDED),
        ("none", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert rows(wire.call(KEY, version, **asked)) == expected
    assert rows(controller_wire.call(KEY, version, **asked)) == expected


def test_an_unknown_election_type_is_an_invalid_request(wire):
    response = wire.call(KEY, 2, **{**VALUES, "election_type": 5})
    assert error_of(response.error_code) is ErrorCode.INVALID_REQUEST
    assert {code for _, _, code in rows(response)} == {ErrorCode.INVALID_REQUEST}
