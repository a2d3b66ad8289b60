"""Goal: a context is as strict as its configuration, and never asks a terminal."""

import ssl
from dataclasses import replace

import pytest

from tests.unit.tls.stores import client_tls, key_store, server_tls
from tidelog.config.values import NO_STORE, StoreConfig, TlsConfig
from tidelog.errors import UsageError
from tidelog.model import Secret
from tidelog.testing.certificates import Authority
from tidelog.tls.contexts import client_context, server_context

AUTHORITY = Authority.create()
SERVER = server_tls(AUTHORITY)


def test_a_listener_needs_a_certificate() -> None:
    with pytest.raises(UsageError, match="`EXTERNAL` uses TLS and has no certificate") as caught:
        server_context(replace(SERVER, keystore=NO_STORE), "EXTERNAL")
    assert "listener.name.external.ssl.keystore.location" in caught.value.hint


def test_a_key_of_another_certificate_is_refused() -> None:
    own, other = (key_store(AUTHORITY.issue(name)) for name in ("a", "b"))
    mixed = TlsConfig(replace(own, key=other.key))
    with pytest.raises(UsageError, match="do not belong together"):
        server_context(mixed, "SSL")


def test_a_certificate_that_is_none_is_refused() -> None:
    text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    with pytest.raises(UsageError, match="cannot be used"):
        server_context(replace(SERVER, keystore=replace(SERVER.keystore, certificates=text)), "SSL")
    with pytest.raises(UsageError, match="cannot be read"):
        client_context(TlsConfig(truststore=StoreConfig("PEM", certificates=text)))


def test_clients_certificates_need_an_authority() -> None:
    for client_auth, mode in (("requested", ssl.CERT_OPTIONAL), ("required", ssl.CERT_REQUIRED)):
        tls = replace(SERVER, client_auth=client_auth)
        assert server_context(tls, "SSL").verify_mode is mode
        with pytest.raises(UsageError, match="trusts no authority"):
            server_context(replace(tls, truststore=NO_STORE), "SSL")
    assert server_context(SERVER, "SSL").verify_mode is ssl.CERT_NONE


def test_a_client_checks_the_host_name_unless_it_is_switched_off() -> None:
    tls = client_tls(AUTHORITY)
    assert client_context(tls).check_hostname
    lax = client_context(replace(tls, checks_host_name=False))
    assert (lax.check_hostname, lax.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_without_a_trust_store_the_machines_authorities_are_trusted() -> None:
    """And the one of the test is not."""
    context = client_context(TlsConfig())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert AUTHORITY.pem not in map(ssl.DER_cert_to_PEM_cert, context.get_ca_certs(True))


@pytest.mark.parametrize(
    ("suites", "low", "high"),
    [
        ((), ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        (("TLS_AES_256_GCM_SHA384",), ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3),
        (
            ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",),
            ssl.TLSVersion.TLSv1_2,
            ssl.TLSVersion.TLSv1_2,
        ),
        (
            ("TLS_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
            ssl.TLSVersion.TLSv1_2,
            ssl.TLSVersion.TLSv1_3,
        ),
    ],
)
def test_cipher_suites_have_their_versions(
    suites: tuple[str, ...], low: ssl.TLSVersion, high: ssl.TLSVersion
) -> None:
    context = server_context(replace(SERVER, cipher_suites=suites), "SSL")
    assert (context.minimum_version, context.maximum_version) == (low, high)


def test_versions_are_limited() -> None:
    tls = replace(SERVER, enabled_protocols=("TLSv1.3",))
    assert server_context(tls, "SSL").minimum_version is ssl.TLSVersion.TLSv1_3


def test_no_secret_is_printed() -> None:
    tls = TlsConfig(StoreConfig("PEM", key=Secret("marker-1"), password=Secret("marker-2")))
    assert "marker" not in f"{tls} {tls!r}"
    assert "[hidden]" in str(tls)
