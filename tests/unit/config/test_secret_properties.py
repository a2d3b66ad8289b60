"""Goal: what a properties file has of secrets is named, whatever prefix it has."""

import pytest

from tidelog.config.property_types import PropertyType
from tidelog.config.resolve import USED
from tidelog.config.secret_properties import SECRET_NAMES, secrets_in

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.mark.parametrize("prefix", ["", "listener.name.client.", "listener.name.client.plain."])
@pytest.mark.parametrize("name", SECRET_NAMES)
def test_secrets_are_named(prefix: str, name: str) -> None:
    value = f'{MODULE} username="a" password="b";' if "jaas" in name else "s3cret"
    settings = {"node.id": "1", prefix + name: value, "ssl.keystore.location": "/x"}
    assert secrets_in(settings) == (prefix + name,)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.jaas.config", f"{MODULE};"),
        ("ssl.keystore.password", " "),
        ("ssl.truststore.password", "changeit"),
        ("my-ssl.key.password", "s3cret"),
    ],
)
def test_what_is_not_a_secret(name: str, value: str) -> None:
    assert secrets_in({name: value}) == ()


def test_every_password_of_a_node_is_known() -> None:
    passwords = {name for name, prop in USED.items() if prop.type is PropertyType.PASSWORD}
    known = {name for name in passwords if secrets_in({name: "a=b"})}
    assert passwords - known <= {"ssl.truststore.password"}
