"""CreatePartitions between wire and controller, in every version."""

import pytest

from tests.unit.broker.api.wire_turns import answered, request, versions
from tidelog.broker.api import k37_create_partitions as module
from tidelog.controller.messages import Refused
from tidelog.controller.topic_messages import (
    CreatePartitions,
    CreatePartitionsResult,
    MorePartitions,
    MorePartitionsResult,
)
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

KEY = ApiKey.CREATE_PARTITIONS


def values(validate_only=False):
    placed = ({"broker_ids": (1, 2)}, {"broker_ids": (2, 3)})
    return {
        "topics": (
            {"name": "t", "count": 5, "assignments": None},
            {"name": "u", "count": 3, "assignments": placed},
        ),
        "timeout": millis(1),
        "validate_only": validate_only,
    }


@pytest.mark.parametrize("version", versions(KEY))
def test_a_request(version):
    entity = request(KEY, version, **values(validate_only=True))
    assert module.API.message_of(entity) == CreatePartitions(
        (MorePartitions("t", 5), MorePartitions("u", 3, ((1, 2), (2, 3)))), validate_only=True
    )


@pytest.mark.parametrize("version", versions(KEY))
def test_results_and_refusals(broker, version):
    asked = request(KEY, version, **values())
    result = CreatePartitionsResult(
        (
            MorePartitionsResult("t", ErrorCode.NONE),
            MorePartitionsResult("u", ErrorCode.INVALID_PARTITIONS, "fewer"),
        )
    )
    made, failed = answered(KEY, version, module.API.answer(broker, version, asked, result)).results
    assert (made.name, error_of(made.error_code), made.error_message) == ("t", ErrorCode.NONE, None)
    assert (failed.name, error_of(failed.error_code), failed.error_message) == (
        "u",
        ErrorCode.INVALID_PARTITIONS,
        "fewer",
    )
    refused = module.API.answer(broker, version, asked, Refused(ErrorCode.NOT_CONTROLLER, "not me"))
    results = answered(KEY, version, refused).results
    assert [(item.name, error_of(item.error_code)) for item in results] == [
        ("t", ErrorCode.NOT_CONTROLLER),
        ("u", ErrorCode.NOT_CONTROLLER),
    ]


@pytest.mark.parametrize("version", versions(KEY))
def test_end_to_end(node, wire, version):
    results = wire.call(KEY, version, **values()).results
    assert [error_of(item.error_code) for item in results] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert sorted(node.broker.image.topics_by_name["t"].partitions) == [0, 1, 2, 3, 4]
