"""Goal: `ssl.*` means what it means to Kafka, on a node's listeners and to a client."""

import pytest

from tidelog.config import parse_node_config
from tidelog.config.tls_properties import of_listener, resolve_listener_tls, resolve_tls
from tidelog.config.values import StoreConfig, TlsConfig
from tidelog.errors import UsageError
from tidelog.model import Secret, SecurityProtocol

FILES = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/etc/node.pem",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/etc/ca.pem",
}


def test_nothing_said_is_kafkas_default() -> None:
    assert resolve_tls({}) == TlsConfig()
    assert TlsConfig().enabled_protocols == ("TLSv1.2", "TLSv1.3")
    assert TlsConfig().keystore.type == "JKS"


def test_a_listeners_own_value_goes_before_the_common_one() -> None:
    settings = {**FILES, "ssl.client.auth": "required"}
    settings |= {"listener.name.external.ssl.client.auth": "none"}
    settings |= {"listener.name.external.ssl.keystore.location": "/etc/out.pem"}
    protocols = dict.fromkeys(("SSL", "EXTERNAL"), SecurityProtocol.SSL)
    found = resolve_listener_tls(settings, {**protocols, "P": SecurityProtocol.PLAINTEXT})
    assert found.keys() == protocols.keys()
    assert (found["SSL"].client_auth, found["EXTERNAL"].client_auth) == ("required", "none")
    assert found["SSL"].keystore == StoreConfig("PEM", "/etc/node.pem")
    assert found["EXTERNAL"].keystore == StoreConfig("PEM", "/etc/out.pem")


def test_where_clients_log_in_only_a_prefixed_client_auth_counts() -> None:
    settings = {"ssl.client.auth": "required"}
    own = {"listener.name.s.ssl.client.auth": "required"}
    sasl = SecurityProtocol.SASL_SSL
    assert resolve_tls(of_listener(settings, "S", sasl)).client_auth == "none"
    assert resolve_tls(of_listener({**settings, **own}, "S", sasl)).client_auth == "required"


def test_stores_may_stand_in_the_configuration_itself() -> None:
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "KEY",
        "ssl.keystore.certificate.chain": "CHAIN",
        "ssl.key.password": "word",
    }
    found = resolve_tls(settings)
    assert found.keystore == StoreConfig("PEM", certificates="CHAIN", key=Secret("KEY"))
    assert found.key_password == Secret("word")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"ssl.keystore.type": "BCFKS"}, "must be one of JKS, PKCS12, PEM"),
        ({"ssl.client.auth": "maybe"}, "must be one of none, requested, required"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "must be a list of TLSv1.2, TLSv1.3"),
        ({"ssl.enabled.protocols": ""}, "leave no version"),
        ({"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"}, "leave no version"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "must be one of https"),
        ({**FILES, "ssl.keystore.password": "x"}, "type PEM, which has none"),
        ({"ssl.keystore.password": "x"}, "without `ssl.keystore.location`"),
        ({"ssl.truststore.certificates": "C"}, "`ssl.truststore.type` is `JKS`"),
        ({**FILES, "ssl.truststore.certificates": "C"}, "each name certificates"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.key": "K"}, "certificate.chain` is missing"),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "C"},
            "`ssl.keystore.key` is missing",
        ),
    ],
)
def test_contradictions_are_refused(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        resolve_tls(settings)


def test_a_typo_behind_a_listeners_prefix_is_refused() -> None:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "log.dirs": "x",
        "listeners": "SSL://:1,C://:2",
        "listener.security.protocol.map": "SSL:SSL,C:PLAINTEXT",
        "inter.broker.listener.name": "SSL",
        "controller.listener.names": "C",
        "controller.quorum.voters": "1@a:2",
    }
    assert parse_node_config({**settings, **FILES}).tls.keys() == {"SSL"}
    with pytest.raises(UsageError, match=r"unknown property `listener.name.ssl.ssl.client.oth`"):
        parse_node_config({**settings, "listener.name.ssl.ssl.client.oth": "none"})
