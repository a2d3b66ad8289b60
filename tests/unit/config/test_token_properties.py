"""What a file says of OAUTHBEARER, and what is refused: nothing is believed by default."""

import pytest

from tidelog.config import parse_node_config
from tidelog.config.token_properties import resolve_token_origin, resolve_token_rules
from tidelog.config.token_values import TokenOrigin, TokenRules
from tidelog.errors import UsageError

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
UNSECURED = f"{PACKAGE}internals.unsecured.OAuthBearerUnsecured"
RULES = {
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer.example/keys",
    "sasl.oauthbearer.expected.issuer": "https://issuer.example",
    "sasl.oauthbearer.expected.audience": "tidelog, other",
}
ORIGIN = {"sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token"}
NODE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "log.dirs": "data",
    "listeners": "CLIENTS://host:9092,CONTROLLER://host:9093",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "CLIENTS",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.voters": "1@host:9093",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
}


def test_rules_have_kafkas_defaults():
    found = resolve_token_rules(RULES, "CLIENTS")
    assert found == TokenRules(
        keys_url="https://issuer.example/keys",
        issuer="https://issuer.example",
        audience=("tidelog", "other"),
    )


def test_a_listener_and_its_mechanism_go_before_the_plain_names():
    secret = "sasl.oauthbearer.client.credentials.client.secret"
    config = parse_node_config(
        NODE
        | RULES
        | ORIGIN
        | {
            "listener.name.clients.sasl.oauthbearer.clock.skew.seconds": "7",
            "listener.name.clients.oauthbearer.sasl.oauthbearer.expected.issuer": "own",
            f"listener.name.clients.oauthbearer.{secret}": "client-s3cret",
            "sasl.oauthbearer.client.credentials.client.id": "node",
        }
    )
    clients = config.sasl["CLIENTS"]
    assert clients.tokens is not None
    assert (clients.tokens.clock_skew_ms, clients.tokens.issuer) == (7000, "own")
    assert clients.own_token is not None
    assert clients.own_token.client_secret.reveal() == "client-s3cret"
    assert "s3cret" not in repr(config)


def test_a_plain_secret_is_not_shown():
    secret = {"sasl.oauthbearer.client.credentials.client.secret": "client-s3cret"}
    assert "s3cret" not in repr(parse_node_config(NODE | RULES | ORIGIN | secret))


def test_unsecured_tokens_are_asked_for_by_name():
    rules = {"sasl.server.callback.handler.class": f"{UNSECURED}ValidatorCallbackHandler"}
    assert resolve_token_rules(rules, "CLIENTS") == TokenRules()
    origin = {"sasl.login.callback.handler.class": f"{UNSECURED}LoginCallbackHandler"}
    assert resolve_token_origin(origin) == TokenOrigin()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": None}, "jwks.endpoint.url` is missing"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "/keys.json"}, "not a URL"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://issuer/keys"}, "not a URL"),
        ({"sasl.oauthbearer.expected.issuer": None}, "expected.issuer` is missing"),
        ({"sasl.oauthbearer.expected.audience": None}, "expected.audience` is missing"),
        ({"sasl.oauthbearer.clock.skew.seconds": "-1"}, "clock.skew.seconds` is `-1`"),
        ({"sasl.server.callback.handler.class": "com.example.Mine"}, "does not exist here"),
        ({"sasl.server.callback.handler.class": f"{PACKAGE}OAuthBearerMine"}, "not exist here"),
        (
            {"sasl.server.callback.handler.class": f"x{UNSECURED}ValidatorCallbackHandler"},
            "does not exist here",
        ),
        ({"sasl.oauthbearer.jwt.validator.class": "com.example.Mine"}, "jwt.validator.class` is"),
    ],
)
def test_rules_that_protect_nothing_are_refused(changes: dict[str, str | None], problem: str):
    settings = {name: text for name, text in (RULES | changes).items() if text is not None}
    with pytest.raises(UsageError) as refused:
        resolve_token_rules(settings, "CLIENTS")
    assert problem in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("handler", ["LoginCallbackHandler", "ValidatorCallbackHandler"])
def test_kafkas_own_classes_may_be_named(handler: str):
    names = {
        "LoginCallbackHandler": "sasl.login.callback.handler.class",
        "ValidatorCallbackHandler": "sasl.server.callback.handler.class",
    }
    settings = RULES | ORIGIN | {names[handler]: f"{PACKAGE}OAuthBearer{handler}"}
    assert resolve_token_rules(settings, "CLIENTS").keys_url
    assert resolve_token_origin(settings).url


def test_a_node_without_a_token_is_refused():
    with pytest.raises(UsageError, match="needs a token") as refused:
        parse_node_config(NODE | RULES)
    wanted = "listener.name.clients.oauthbearer.sasl.oauthbearer.token.endpoint.url"
    assert wanted in refused.value.hint
