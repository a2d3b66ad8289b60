"""UpdateFeatures between wire and controller, in all versions, and on a whole node."""

import pytest

from tests.unit.broker.api.wire_turns import answered, request, versions
from tidelog.broker.api import k57_update_features as module
from tidelog.controller.messages import (
    FeatureUpdate,
    Refused,
    UpdateFeatures,
    UpdateFeaturesResult,
    UpgradeType,
)
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import has_field, nested
from tidelog.wire.values import error_of, millis

KEY = ApiKey.UPDATE_FEATURES


LEVELS = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "transaction.version": 2,
}


def values(version, *updates, validate_only=False):
    update_type = nested(codec.request_class(KEY, version), "feature_updates")
    entities = []
    for name, level, upgrade_type in updates:
        how = {"upgrade_type": upgrade_type}
        if has_field(update_type, "allow_downgrade"):
            how = {"allow_downgrade": upgrade_type != UpgradeType.UPGRADE}
        entities.append({"feature": name, "max_version_level": level, **how})
    given = {"timeout": millis(1000), "feature_updates": tuple(entities)}
    return given if version == 0 else given | {"validate_only": validate_only}


@pytest.mark.parametrize("version", versions(KEY))
def test_there_and_back(broker, version):
    down = ("group.version", 0, UpgradeType.SAFE_DOWNGRADE)
    asked = request(KEY, version, **values(version, down, validate_only=True))
    message = module.API.message_of(asked)
    assert message == UpdateFeatures((FeatureUpdate(*down),), version > 0)
    for response, code in (
        (UpdateFeaturesResult(), ErrorCode.NONE),
        (Refused(ErrorCode.INVALID_UPDATE_VERSION, "no"), ErrorCode.INVALID_UPDATE_VERSION),
    ):
        entity = answered(KEY, version, module.API.answer(broker, version, asked, response))
        assert error_of(entity.error_code) is code
        if version < 2:
            assert [(each.feature, error_of(each.error_code)) for each in entity.results] == [
                ("group.version", code)
            ][: code is ErrorCode.NONE]


def finalized(wire) -> dict[str, int]:
    """The levels that clients see."""
    response = wire.call(
        ApiKey.API_VERSIONS, 4, client_software_name="t", client_software_version="1"
    )
    return {each.name: each.max_version_level for each in response.finalized_features}


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_the_voters_move_to_the_log(node, wire, controller_wire, listener):
    """Goal: `kraft.version` 0 to 1 on a whole node, directly and forwarded; clients see it, a
    second time changes nothing, and there is no way back."""
    asked = wire if listener == "broker" else controller_wire
    assert finalized(wire) == LEVELS
    upgrade = ("kraft.version", 1, UpgradeType.UPGRADE)
    dry = asked.call(KEY, 2, **values(2, upgrade, validate_only=True))
    assert error_of(dry.error_code) is ErrorCode.NONE
    assert node.broker.quorum.kraft_version == 0
    for _ in range(2):
        done = asked.call(KEY, 2, **values(2, upgrade))
        assert error_of(done.error_code) is ErrorCode.NONE
    assert finalized(wire)["kraft.version"] == 1
    (voter,) = node.broker.quorum.voters.values()
    assert any(voter.directory_id)
    back = asked.call(KEY, 2, **values(2, ("kraft.version", 0, UpgradeType.SAFE_DOWNGRADE)))
    assert error_of(back.error_code) is ErrorCode.INVALID_UPDATE_VERSION
    assert "cannot become 0" in back.error_message
