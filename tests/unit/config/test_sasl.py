"""What a file says of logins: mechanisms, prefixes, times, and what is refused."""

import pytest

from tidelog.config import parse_node_config
from tidelog.config.sasl import shown_in_the_clear
from tidelog.errors import UsageError
from tidelog.model import HIDDEN, Mechanism

PLAIN = Mechanism.PLAIN
BASE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "log.dirs": "data",
    "listeners": "CLIENTS://host:9092,CONTROLLER://host:9093",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "CLIENTS",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "controller.quorum.voters": "1@host:9093",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.clients.scram-sha-512.sasl.jaas.config": "marker 1",
    "listener.name.controller.plain.sasl.jaas.config": "marker 2",
}


def test_each_listener_with_logins_has_its_own_settings():
    found = parse_node_config(
        BASE
        | {
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "connections.max.reauth.ms": "3000",
            "listener.name.clients.connections.max.reauth.ms": "2000",
            "listener.name.clients.plain.connections.max.reauth.ms": "1000",
        }
    ).sasl
    clients, controller = found["CLIENTS"], found["CONTROLLER"]
    assert clients.mechanisms == (PLAIN, Mechanism.SCRAM_SHA_512)
    assert clients.own_mechanism is Mechanism.SCRAM_SHA_512
    assert clients.session_ms == {PLAIN: 1000, Mechanism.SCRAM_SHA_512: 2000}
    assert controller.mechanisms == (PLAIN,)
    assert controller.own_mechanism is PLAIN
    assert controller.session_ms == {PLAIN: 3000}
    assert controller.jaas[PLAIN].text.reveal() == "marker 2"


def test_passwords_that_cross_the_network_as_they_are_are_named():
    """Of clients and of the node itself; TLS hides them, and SCRAM does not send them."""
    assert shown_in_the_clear(parse_node_config(BASE)) == ("CLIENTS:PLAIN", "CONTROLLER:PLAIN")
    scram = {"listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    assert shown_in_the_clear(parse_node_config(BASE | scram)) == ("CONTROLLER:PLAIN",)


def test_a_plain_node_has_no_logins():
    settings = {name: text for name, text in BASE.items() if "sasl" not in name}
    settings["listener.security.protocol.map"] = "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT"
    assert parse_node_config(settings).sasl == {}


def test_a_broker_alone_logs_in_at_the_controllers():
    settings = BASE | {"node.id": "2", "process.roles": "broker"}
    settings["listeners"] = "CLIENTS://host:9092"
    controller = parse_node_config(settings).sasl["CONTROLLER"]
    assert controller.mechanisms == ()
    assert controller.own_mechanism is PLAIN


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}, "`sasl.enabled.mechanisms` is `GSSAPI`"),
        ({"sasl.enabled.mechanisms": None}, "`sasl.enabled.mechanisms` is `GSSAPI`"),
        ({"sasl.enabled.mechanisms": "plain"}, "`plain`, not a SASL"),
        ({"sasl.enabled.mechanisms": " "}, "is empty"),
        ({"sasl.mechanism.controller.protocol": None}, "controller.protocol` is `GSSAPI`"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "does not accept"),
        ({"listener.name.clients.connections.max.reauth.ms": "soon"}, "not a number of"),
    ],
)
def test_what_lets_no_client_in_is_refused_by_name(changes: dict[str, str | None], problem: str):
    settings = {name: text for name, text in (BASE | changes).items() if text is not None}
    with pytest.raises(UsageError, match=problem) as refused:
        parse_node_config(settings)
    assert refused.value.hint


def test_no_secret_is_shown():
    config = parse_node_config(BASE | {"sasl.jaas.config": "marker 3"})
    assert config.settings["sasl.jaas.config"] == HIDDEN
    assert "marker" not in repr(config)
