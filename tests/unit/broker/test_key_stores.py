"""Goal: a key store that is set is tried first, used when it is committed, and never shown.

Method: the test is the driver that tries stores.
"""

from typing import Any

import pytest

from tests.unit.broker.one_node import CONTROLLER, OneNode, Wire
from tests.unit.broker.secured_node import a_node, as_user
from tidelog.env.effects import CheckStores, StoresChecked, UseStores
from tidelog.errors import ErrorCode
from tidelog.model import Secret
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of

BROKER, SET, DELETE = 4, 0, 1
LOCATION = "listener.name.external.ssl.keystore.location"
PASSWORD = "listener.name.external.ssl.keystore.password"
BOTH = {LOCATION: "/a.p12", PASSWORD: "s3cret"}


def ask(wire: Wire, values: dict[str, str | None], broker: str = "1") -> bytes | None:
    """Sets values, or removes those without one. Returns the answer, if there is one yet."""
    changes = [
        {"name": name, "config_operation": DELETE if value is None else SET, "value": value}
        for name, value in values.items()
    ]
    resource = {"resource_type": BROKER, "resource_name": broker, "configs": changes}
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    request = make(codec.request_class(key, 1), resources=[resource], validate_only=False)
    return wire.ask(key, request)


def tried(node: OneNode) -> CheckStores:
    """What the driver is to try."""
    check = node.stores.pop()
    assert isinstance(check, CheckStores)
    return check


def outcome(frame: bytes | None) -> tuple[ErrorCode, str | None]:
    """What the one resource of a request was answered."""
    assert frame is not None
    _, answer = codec.decode_response(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, frame)
    (result,) = answer.responses
    return error_of(result.error_code), result.error_message


def answer_of(wire: Wire) -> tuple[ErrorCode, str | None]:
    (frame,) = wire.frames()
    return outcome(frame)


def settle(node: OneNode, check: CheckStores, refusal: str = "") -> None:
    node.receive(StoresChecked(check.subject, refusal))


def described(wire: Wire) -> dict[str, Any]:
    """The configuration of the broker, by name."""
    resource = {"resource_type": BROKER, "resource_name": "1", "configuration_keys": None}
    answer = wire.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True)
    return {each.name: each for each in answer.results[0].configs}


def test_a_store_is_tried_then_committed_then_used_and_its_password_hidden() -> None:
    node = OneNode()
    wire = node.client()
    assert ask(wire, dict(BOTH)) is None
    check = tried(node)
    assert check.settings == {name: Secret(value) for name, value in BOTH.items()}
    assert node.broker.image.broker_configs(1) == {}
    settle(node, check)
    assert answer_of(wire) == (ErrorCode.NONE, None)
    assert node.stores == [UseStores(check.settings)]
    shown = described(wire)
    assert (shown[LOCATION].value, shown[LOCATION].read_only) == ("/a.p12", False)
    password = shown[PASSWORD]
    assert (password.value, password.is_sensitive, password.synonyms[0].value) == (None, True, None)
    assert "s3cret" not in f"{node.trace.take_lines()} {node.stores}"


def test_a_store_that_is_bad_is_refused_and_nothing_is_written() -> None:
    node = OneNode()
    wire = node.client()
    ask(wire, dict(BOTH))
    settle(node, tried(node), "its name is other; hint: look")
    text = "Invalid dynamic configuration: its name is other; hint: look"
    assert answer_of(wire) == (ErrorCode.INVALID_REQUEST, text)
    assert node.broker.image.broker_configs(1) == {}
    assert node.stores == []


def test_the_same_place_again_is_used_again_and_its_removal_too() -> None:
    node = OneNode()
    wire = node.client()
    for _ in range(2):
        ask(wire, dict(BOTH))
        settle(node, tried(node))
        assert answer_of(wire) == (ErrorCode.NONE, None)
        assert isinstance(node.stores.pop(), UseStores)
    ask(wire, {LOCATION: None})
    check = tried(node)
    assert check.settings == {PASSWORD: Secret("s3cret")}
    settle(node, check)
    wire.frames()
    assert node.stores.pop() == UseStores(check.settings)
    ask(wire, {PASSWORD: None})
    settle(node, tried(node))
    wire.frames()
    assert node.stores.pop() == UseStores({})
    assert outcome(ask(wire, {"log.retention.ms": "5"}))[0] is ErrorCode.NONE
    assert node.stores == []


@pytest.mark.parametrize("broker", ["", "2"])
def test_only_the_broker_itself_takes_its_stores(broker: str) -> None:
    node = OneNode()
    code, _ = outcome(ask(node.client(), dict(BOTH), broker))
    assert code is ErrorCode.INVALID_REQUEST
    assert node.stores == []


def test_who_may_not_alter_has_no_file_looked_at() -> None:
    node = a_node()
    code, _ = outcome(ask(as_user(node, "ada"), dict(BOTH)))
    assert code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert node.stores == []


def test_a_controllers_listener_tries_nothing_and_the_driver_decides() -> None:
    node = OneNode()
    assert outcome(ask(node.client(CONTROLLER), dict(BOTH)))[0] is ErrorCode.NONE
    assert [type(each) for each in node.stores] == [UseStores]


def test_a_client_that_has_gone_changes_nothing() -> None:
    node = OneNode()
    wire = node.client()
    ask(wire, dict(BOTH))
    connection = node.broker.connections.get(wire.connection_id)
    assert connection is not None
    node.broker.connections.drop(connection)
    settle(node, tried(node))
    assert node.broker.image.broker_configs(1) == {}
