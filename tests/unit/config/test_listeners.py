"""Goal: addresses of a node and its quorum are what Kafka would make of the same text."""

import pytest

from tidelog.config.listeners import resolve_bootstrap_servers, resolve_listeners, resolve_voters
from tidelog.errors import UsageError
from tidelog.model import Endpoint, SecurityProtocol

BASE = {
    "listeners": "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9192",
    "controller.listener.names": "CONTROLLER",
}


def test_every_interface_is_bound_and_the_host_name_advertised() -> None:
    listeners = resolve_listeners(BASE, "box.example")
    assert listeners.bound[0] == Endpoint("PLAINTEXT", "", 9092)
    assert listeners.advertised[0] == Endpoint("PLAINTEXT", "box.example", 9092)
    assert listeners.controller_names == ("CONTROLLER",)
    assert listeners.inter_broker_name == "PLAINTEXT"


def test_names_are_compared_in_upper_case_and_brackets_hold_ipv6() -> None:
    settings = {
        "listeners": "external://[::1]:9092,controller://[::1]:9192",
        "controller.listener.names": "Controller",
        "inter.broker.listener.name": "External",
        "listener.security.protocol.map": "external:plaintext,controller:plaintext",
    }
    listeners = resolve_listeners(settings, "box")
    assert listeners.bound[0] == Endpoint("EXTERNAL", "::1", 9092)
    assert listeners.inter_broker_name == "EXTERNAL"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"listeners": ""}, "is empty"),
        ({"listeners": "localhost:9092"}, "is not a listener"),
        ({"listeners": "PLAINTEXT://localhost"}, "has no host and port"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "has no host and port"),
        ({"listeners": "PLAINTEXT://:0,CONTROLLER://:1"}, "out of range"),
        ({"listeners": "PLAINTEXT://:65536,CONTROLLER://:1"}, "out of range"),
        ({"listeners": "A://:1,A://:2"}, "appears twice"),
        ({"controller.listener.names": ""}, "`controller.listener.names` is missing"),
        ({"controller.listener.names": "X"}, "`X` is not in `listeners`"),
        ({"controller.listener.names": "PLAINTEXT,CONTROLLER"}, "nothing but controller"),
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "does not name `CONTROLLER`"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "has no protocol"),
        ({"listener.security.protocol.map": "PLAINTEXT:SASL,CONTROLLER:SSL"}, "for `SASL`"),
        ({"listeners": "SSL://:9092,CONTROLLER://:9192"}, "does not name `CONTROLLER`"),
        ({"security.inter.broker.protocol": "SSL"}, "no broker listener is called `SSL`"),
        (
            {"security.inter.broker.protocol": "SSL", "inter.broker.listener.name": "PLAINTEXT"},
            "are both set",
        ),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "cannot be advertised"),
        ({"advertised.listeners": "OTHER://a:9092"}, "`OTHER` is not in `listeners`"),
        ({"inter.broker.listener.name": "CONTROLLER"}, "not an advertised broker listener"),
        ({"listeners": "A://:9092,CONTROLLER://:9192"}, "called `PLAINTEXT`"),
    ],
)
def test_bad_listeners_are_refused(changes: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_listeners({**BASE, **changes}, "box")
    assert problem in caught.value.message
    assert caught.value.hint


def test_voters_are_read_by_id() -> None:
    settings = {"controller.quorum.voters": "1@a:9093, 2@[::1]:9094"}
    voters = resolve_voters(settings, "CONTROLLER")
    assert voters == {1: Endpoint("CONTROLLER", "a", 9093), 2: Endpoint("CONTROLLER", "::1", 9094)}


@pytest.mark.parametrize("text", ["", " ", "a:9093", "x@a:9093", "1@a", "1@:9093", "1@a:1,1@b:2"])
def test_bad_voters_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"controller\.quorum\.voters"):
        resolve_voters({"controller.quorum.voters": text}, "CONTROLLER")


def test_a_quorum_may_be_found_through_bootstrap_servers() -> None:
    settings = {"controller.quorum.bootstrap.servers": "a:9093, [::1]:9094"}
    assert resolve_voters(settings, "CONTROLLER") == {}
    assert resolve_bootstrap_servers(settings, "CONTROLLER") == (
        Endpoint("CONTROLLER", "a", 9093),
        Endpoint("CONTROLLER", "::1", 9094),
    )


@pytest.mark.parametrize("text", ["a", ":9093", "a:x", "a:0"])
def test_bad_bootstrap_servers_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"bootstrap\.servers"):
        resolve_bootstrap_servers({"controller.quorum.bootstrap.servers": text}, "CONTROLLER")


def test_a_controller_alone_has_controller_listeners_and_no_other() -> None:
    settings = {"listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}
    listeners = resolve_listeners(settings, "box", ("controller",))
    assert listeners.advertised == (Endpoint("CONTROLLER", "box", 9093),)
    assert listeners.inter_broker_name == ""
    with pytest.raises(UsageError, match="`PLAINTEXT`, which is not a controller listener"):
        resolve_listeners(BASE, "box", ("controller",))


def test_a_broker_alone_binds_no_controller_listener_but_knows_its_name() -> None:
    settings = {"listeners": "PLAINTEXT://:9092", "controller.listener.names": "CONTROLLER"}
    listeners = resolve_listeners(settings, "box", ("broker",))
    assert listeners.controller_names == ("CONTROLLER",)
    assert listeners.advertised == (Endpoint("PLAINTEXT", "box", 9092),)
    with pytest.raises(UsageError, match="`listeners` has `CONTROLLER`"):
        resolve_listeners(BASE, "box", ("broker",))
    assert listeners.protocols["CONTROLLER"] is SecurityProtocol.PLAINTEXT
    secure = {**settings, "controller.listener.names": "SSL"}
    assert resolve_listeners(secure, "box", ("broker",)).protocols["SSL"] is SecurityProtocol.SSL


@pytest.mark.parametrize(
    ("protocol", "number", "uses_tls", "uses_sasl"),
    [
        (SecurityProtocol.PLAINTEXT, 0, False, False),
        (SecurityProtocol.SSL, 1, True, False),
        (SecurityProtocol.SASL_PLAINTEXT, 2, False, True),
        (SecurityProtocol.SASL_SSL, 3, True, True),
    ],
)
def test_a_security_protocol_has_kafkas_number(
    protocol: SecurityProtocol, number: int, uses_tls: bool, uses_sasl: bool
) -> None:
    assert protocol == number
    assert (protocol.uses_tls, protocol.uses_sasl) == (uses_tls, uses_sasl)


def test_an_unknown_protocol_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="asks for `TLS`") as refused:
        resolve_listeners({**BASE, "listener.security.protocol.map": "PLAINTEXT:TLS"}, "here")
    assert "SASL_SSL" in refused.value.hint
