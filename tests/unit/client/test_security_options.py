"""Goal: a client's properties are Kafka's, travel to other processes, and are never printed."""

import pickle

import pytest

from tidelog.client.security_options import PLAINTEXT, ClientSecurity
from tidelog.errors import UsageError
from tidelog.model import SecurityProtocol
from tidelog.testing.certificates import Authority

AUTHORITY = Authority.create()
SETTINGS = {
    "security.protocol": "ssl",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": AUTHORITY.pem,
    "ssl.key.password": "a-marker",
    "acks": "all",
}


def test_without_properties_there_is_no_protection() -> None:
    assert PLAINTEXT.protocol is SecurityProtocol.PLAINTEXT
    assert PLAINTEXT.context is None
    assert ClientSecurity() == PLAINTEXT


def test_tls_is_made_once_for_all_connections() -> None:
    security = ClientSecurity(SETTINGS)
    assert security.context is security.context
    assert security.context is not None
    assert security.context.check_hostname


def test_it_travels_to_another_process() -> None:
    security = ClientSecurity(SETTINGS)
    assert security.context is not None
    assert pickle.loads(pickle.dumps(security)) == security


def test_no_password_is_printed() -> None:
    assert "a-marker" not in f"{ClientSecurity(SETTINGS)} {ClientSecurity(SETTINGS)!r}"


@pytest.mark.parametrize("protocol", ["TLS", ""])
def test_a_protocol_that_is_none_is_refused(protocol: str) -> None:
    with pytest.raises(UsageError, match=r"`security\.protocol` is"):
        ClientSecurity({"security.protocol": protocol})


def test_stores_that_contradict_are_refused_at_once() -> None:
    with pytest.raises(UsageError, match="each name certificates"):
        ClientSecurity({**SETTINGS, "ssl.truststore.location": "/ca.pem"})
