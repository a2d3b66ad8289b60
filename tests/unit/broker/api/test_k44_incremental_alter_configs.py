"""IncrementalAlterConfigs between wire and controller, in both versions."""

import pytest

from tests.unit.broker.api.wire_turns import answered, request, versions
from tidelog.broker.api import k44_incremental_alter_configs as module
from tidelog.controller.messages import (
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    ConfigResourceResult,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsResult,
    Refused,
)
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS
VALUES = {
    "resources": (
        {
            "resource_type": 2,
            "resource_name": "t",
            "configs": (
                {"name": "retention.ms", "config_operation": 0, "value": "5"},
                {"name": "cleanup.policy", "config_operation": 1, "value": None},
            ),
        },
        {"resource_type": 4, "resource_name": "", "configs": ()},
    ),
    "validate_only": False,
}


@pytest.mark.parametrize("version", versions(KEY))
def test_a_request(version):
    message = module.API.message_of(request(KEY, version, **VALUES))
    assert message == IncrementalAlterConfigs(
        (
            ConfigResourceChange(
                2,
                "t",
                (
                    ConfigChange("retention.ms", ConfigOperation.SET, "5"),
                    ConfigChange("cleanup.policy", ConfigOperation.DELETE, None),
                ),
            ),
            ConfigResourceChange(4, "", ()),
        )
    )


@pytest.mark.parametrize("version", versions(KEY))
def test_results_and_refusals(broker, version):
    asked = request(KEY, version, **VALUES)
    result = IncrementalAlterConfigsResult(
        (
            ConfigResourceResult(2, "t", ErrorCode.NONE),
            ConfigResourceResult(4, "", ErrorCode.INVALID_CONFIG, "bad"),
        )
    )
    fine, bad = answered(KEY, version, module.API.answer(broker, version, asked, result)).responses
    assert (fine.resource_type, fine.resource_name, error_of(fine.error_code)) == (
        2,
        "t",
        ErrorCode.NONE,
    )
    assert (bad.resource_type, bad.resource_name, bad.error_message) == (4, "", "bad")
    refused = module.API.answer(broker, version, asked, Refused(ErrorCode.NOT_CONTROLLER, "not me"))
    responses = answered(KEY, version, refused).responses
    assert {error_of(item.error_code) for item in responses} == {ErrorCode.NOT_CONTROLLER}
    assert len(responses) == 2


@pytest.mark.parametrize("version", versions(KEY))
def test_end_to_end(node, wire, version):
    wire.call(KEY, version, **VALUES)
    assert node.broker.image.topic_configs("t") == {"retention.ms": "5"}
