"""Secrets stay secrets at any level of a trace, and texts that look like places stay texts.

CVE-2026-33558: logs of Kafka at DEBUG showed what nine kinds of requests and answers carry.
CVE-2024-31141, 2025-27817: configurations set by clients named files and addresses that were read.
"""

from base64 import b64encode

import pytest

from tests.unit.broker.logged_in import add_user, log_in, token_of
from tests.unit.broker.one_node import OneNode, Wire
from tests.unit.broker.token_holders import (
    create,
    describe,
    expire,
    holder,
    renew,
    token_node,
    user,
)
from tidelog.controller.messages import (
    AlterScramCredentials,
    ConfigChange,
    ConfigOperation,
    ScramUpsertion,
)
from tidelog.controller.token_messages import CreateTokenResult, ExpireToken, RenewToken
from tidelog.env.effects import CheckStores, StoresChecked
from tidelog.env.trace import Level
from tidelog.errors import ErrorCode
from tidelog.metadata.records import ConfigRecord, UserScramCredentialRecord
from tidelog.model import Mechanism, Principal, Secret
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of

MARKER = "m4rker-of-a-s3cret"
BROKER, TOPIC = 4, 2
PREFIX = "listener.name.plaintext."
PROVIDED = "${file:/etc/passwd:root}"
ALICE = Principal("User", "alice")
URL = "http://127.0.0.1:1/keys"


@pytest.fixture
def node() -> OneNode:
    """It says all that it can say."""
    return token_node(trace_level=Level.DEBUG)


def alter(wire: Wire, kind: int, name: str, configs: dict[str, str]) -> ErrorCode:
    """IncrementalAlterConfigs."""
    rows = [{"name": key, "config_operation": 0, "value": value} for key, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    (answer,) = wire.call(key, 1, resources=[resource], validate_only=False).responses
    return error_of(answer.error_code)


def alter_stores(wire: Wire, node: OneNode, configs: dict[str, str]) -> ErrorCode:
    """The same of stores, which the driver finds good."""
    rows = [{"name": key, "config_operation": 0, "value": value} for key, value in configs.items()]
    resource = {"resource_type": BROKER, "resource_name": "1", "configs": rows}
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    request = make(codec.request_class(key, 1), resources=[resource], validate_only=False)
    assert wire.ask(key, request) is None
    check = node.stores.pop()
    assert isinstance(check, CheckStores)
    node.receive(StoresChecked(check.subject, ""))
    (frame,) = wire.frames()
    _, answer = codec.decode_response(key, 1, frame)
    return error_of(answer.responses[0].error_code)


def alter_all(wire: Wire, kind: int, name: str, configs: dict[str, str]) -> ErrorCode:
    """AlterConfigs, the older one."""
    rows = [{"name": key, "value": value} for key, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    key = ApiKey.ALTER_CONFIGS
    (answer,) = wire.call(key, 2, resources=[resource], validate_only=False).responses
    return error_of(answer.error_code)


def described(wire: Wire, kind: int, name: str) -> str:
    """DescribeConfigs with all that it may show."""
    answer = wire.call(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": None}],
        include_synonyms=True,
        include_documentation=True,
    )
    assert error_of(answer.results[0].error_code) is ErrorCode.NONE
    return repr(answer)


def test_nothing_that_a_node_says_has_what_nine_kinds_of_messages_carry(node: OneNode) -> None:
    """A marker goes in by each of them, and out by those answers that may have it."""
    admin = user(node, "node")
    secrets = ("ssl.keystore.password", "ssl.keystore.key", "ssl.key.password")
    stores = {f"{PREFIX}{name}": MARKER for name in secrets}
    assert alter_stores(admin, node, stores) is ErrorCode.NONE
    for change in (alter, alter_all):
        for kind, name, configs in (
            (BROKER, "", {"delegation.token.secret.key": MARKER}),
            (TOPIC, "orders", {"sasl.jaas.config": MARKER}),
        ):
            change(admin, kind, name, configs)
    add_user(node, "bob", MARKER, Mechanism.SCRAM_SHA_512)
    for name in ("bob", "eve"):
        for mechanism in Mechanism:
            if (name, mechanism) != ("bob", Mechanism.SCRAM_SHA_512):
                with pytest.raises(Exception) as refused:
                    log_in(node.client(), mechanism, name, MARKER)
                assert MARKER not in str(refused.value)
    log_in(node.client(), Mechanism.SCRAM_SHA_512, "bob", MARKER)
    token = token_of(node, "bob")
    log_in(node.client(), Mechanism.OAUTHBEARER, "bob", token)
    made = create(user(node, "alice"))
    holder(node, made)
    assert describe(user(node, "alice"), of_all=True).tokens[0].hmac == made.hmac
    for ask in (renew, expire):
        assert error_of(ask(user(node, "alice"), made.hmac).error_code) is ErrorCode.NONE
    said = "\n".join(event.text() for event in node.trace.events)
    said += repr(node.trace.events) + repr(node.node.config) + repr(node.broker.image.tokens())
    said += described(admin, BROKER, "1") + described(admin, BROKER, "")
    credential = node.broker.image.scram_credential("bob", 2)
    assert credential is not None and said.count("\n") > 20
    for secret in (MARKER, token, "the key of all nodes", "wonder-s3cret", "node-s3cret"):
        assert secret not in said
    for raw in (made.hmac, credential.stored_key, credential.server_key):
        for text in (repr(raw)[2:-1], raw.hex(), b64encode(raw).decode()):
            assert text not in said


@pytest.mark.parametrize(
    "value",
    [
        AlterScramCredentials(
            deletions=(), upsertions=(ScramUpsertion("bob", 2, 4096, b"salt", MARKER.encode()),)
        ),
        ConfigChange("ssl.key.password", ConfigOperation.SET, MARKER),
        ConfigRecord(resource_type=BROKER, resource_name="1", name="x.key", value=MARKER),
        RenewToken(MARKER.encode(), 1, ALICE),
        ExpireToken(MARKER.encode(), 1, ALICE),
        CreateTokenResult(ALICE, ALICE, 1, 2, 3, "id", MARKER.encode()),
        UserScramCredentialRecord(
            name="bob",
            mechanism=2,
            salt=b"salt",
            stored_key=MARKER.encode(),
            server_key=MARKER.encode(),
            iterations=4096,
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_carries_a_secret_prints_without_it(value: object) -> None:
    """So no assertion and no traceback has it by accident."""
    assert MARKER not in repr(value)


@pytest.mark.parametrize("change", [alter, alter_all])
@pytest.mark.parametrize(
    ("kind", "name", "configs"),
    [
        (BROKER, "1", {"sasl.oauthbearer.jwks.endpoint.url": URL}),
        (BROKER, "1", {f"{PREFIX}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": URL}),
        (BROKER, "1", {"sasl.oauthbearer.token.endpoint.url": URL}),
        (BROKER, "", {"config.providers": "file"}),
        (BROKER, "", {"config.providers.file.class": "FileConfigProvider"}),
        (BROKER, "", {"log.retention.ms": PROVIDED}),
        (TOPIC, "orders", {"config.providers": "file"}),
        (TOPIC, "orders", {"retention.ms": PROVIDED}),
        (TOPIC, "orders", {"compression.type": PROVIDED}),
    ],
)
def test_places_to_read_from_are_not_set_over_the_wire(
    node: OneNode, change, kind: int, name: str, configs: dict[str, str]
) -> None:
    admin = user(node, "node")
    admin.create_topic("orders")
    asked = len(node.refreshes)
    code = change(admin, kind, name, configs)
    assert code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
    assert "root:" not in described(admin, kind, name)
    assert len(node.refreshes) == asked


def test_a_provider_in_a_text_is_that_text(node: OneNode) -> None:
    """The one kind of place that a client may set is that of a store."""
    admin = user(node, "node")
    name = f"{PREFIX}ssl.keystore.location"
    row = {"name": name, "config_operation": 0, "value": PROVIDED}
    resource = {"resource_type": BROKER, "resource_name": "1", "configs": [row]}
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    request = make(codec.request_class(key, 1), resources=[resource], validate_only=False)
    assert admin.ask(key, request) is None
    (check,) = node.stores
    assert isinstance(check, CheckStores) and check.settings == {name: Secret(PROVIDED)}
