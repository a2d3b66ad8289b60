"""Goal: what Kafka's users have on disk is read, and what cannot work is refused with a hint."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate

from tests.unit.tls.stores import key_store
from tidelog.config.values import NO_STORE, StoreConfig, TlsConfig
from tidelog.errors import UsageError
from tidelog.limits import MAX_STORE_BYTES
from tidelog.model import Secret
from tidelog.testing.certificates import Authority
from tidelog.testing.files import replace_file
from tidelog.tls.contexts import server_context
from tidelog.tls.stores import files_of, read_key_store, read_trust_store

AUTHORITY = Authority.create()
OWN = AUTHORITY.issue("node-1", ["localhost"])
PASSWORD = Secret("top-secret")


def encrypted(pem: str) -> str:
    key = serialization.load_pem_private_key(pem.encode(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(PASSWORD.reveal().encode()),
    ).decode()


def packed(*, with_key: bool = True) -> bytes:
    """A PKCS12 store: with the private key, or with the authority only, as keytool writes it."""
    closing = serialization.BestAvailableEncryption(PASSWORD.reveal().encode())
    authority = load_pem_x509_certificate(AUTHORITY.pem.encode())
    if not with_key:
        trusted = [pkcs12.PKCS12Certificate(authority, b"ca")]
        return pkcs12.serialize_java_truststore(trusted, closing)
    key = serialization.load_pem_private_key(OWN.encode(), None)
    own = load_pem_x509_certificate(OWN.encode())
    return pkcs12.serialize_key_and_certificates(b"own", key, own, [authority], closing)


def stored(tmp_path: Path, data: bytes, kind: str = "PEM", mode: int = 0o600) -> StoreConfig:
    path = tmp_path / "store"
    path.write_bytes(data)
    path.chmod(mode)
    password = PASSWORD if kind != "PEM" else Secret()
    return StoreConfig(kind, str(path), password)


def test_key_and_chain_may_stand_in_any_order_with_text_between() -> None:
    key, begin, certificate = OWN.partition("-----BEGIN CERTIFICATE-----")
    text = f"subject=CN\n{begin}{certificate}\nissuer\n{AUTHORITY.pem}junk{key}"
    found = read_key_store(TlsConfig(key_store(text)))
    assert found.key.reveal().startswith("-----BEGIN PRIVATE KEY-----\n")
    assert found.chain.count("BEGIN CERTIFICATE") == 2
    server_context(TlsConfig(key_store(text)), "SSL")


def test_a_block_in_one_line_is_read() -> None:
    """A properties file that goes on after backslashes has no line breaks in its values."""
    one_line = OWN.replace("\n", "")
    server_context(TlsConfig(key_store(one_line)), "SSL")


def test_an_encrypted_key_needs_its_password() -> None:
    key, begin, certificate = OWN.partition("-----BEGIN CERTIFICATE-----")
    store = StoreConfig("PEM", certificates=begin + certificate, key=Secret(encrypted(key)))
    server_context(TlsConfig(store, key_password=PASSWORD), "SSL")
    with pytest.raises(UsageError, match="is encrypted"):
        read_key_store(TlsConfig(store))
    with pytest.raises(UsageError, match="cannot be used"):
        server_context(TlsConfig(store, key_password=Secret("wrong")), "SSL")


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_pkcs12_is_read_under_both_names_that_java_has_for_it(tmp_path: Path, kind: str) -> None:
    own = stored(tmp_path, packed(), kind)
    found = read_key_store(TlsConfig(own))
    assert found.chain.count("BEGIN CERTIFICATE") == 2
    server_context(TlsConfig(own), "SSL")


def test_a_trust_store_of_keytool_is_read(tmp_path: Path) -> None:
    store = stored(tmp_path, packed(with_key=False), "PKCS12")
    assert read_trust_store(store) == AUTHORITY.pem
    with pytest.raises(UsageError, match="no private key"):
        read_key_store(TlsConfig(store))


def test_javas_own_format_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    store = stored(tmp_path, b"\xfe\xed\xfe\xed rest", "JKS")
    with pytest.raises(UsageError, match="Java's own format") as caught:
        read_key_store(TlsConfig(store))
    assert "keytool -importkeystore -srckeystore" in caught.value.hint


@pytest.mark.parametrize(
    ("data", "kind", "problem"),
    [
        (b"no key", "PEM", "0 private keys and 0 certificates"),
        ((OWN + OWN).encode(), "PEM", "2 private keys"),
        (b"\xff\xfe", "PEM", "is not PEM"),
        (OWN.encode(), "PKCS12", "is PEM"),
        (b"no store", "PKCS12", "not a PKCS12 store that opens"),
        (b" " * (MAX_STORE_BYTES + 1), "PEM", "has more than"),
    ],
)
def test_an_unsound_key_store_is_refused(
    tmp_path: Path, data: bytes, kind: str, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        read_key_store(TlsConfig(stored(tmp_path, data, kind)))


def test_a_key_that_every_user_may_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="every user of the machine") as caught:
        read_key_store(TlsConfig(stored(tmp_path, OWN.encode(), mode=0o644)))
    assert "chmod 600" in caught.value.hint
    assert "top-secret" not in str(caught.value)


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    for place, problem in ((tmp_path / "none", "cannot be read"), (tmp_path, "regular file")):
        with pytest.raises(UsageError, match=problem):
            read_trust_store(StoreConfig("PEM", str(place)))
    with pytest.raises(UsageError, match="has no certificate"):
        read_trust_store(StoreConfig("PEM", certificates="nothing"))


def test_the_files_of_a_configuration_are_known(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    replace_file(path, OWN, secret=True)
    assert files_of(TlsConfig(StoreConfig("PEM", str(path)), NO_STORE)) == (str(path),)
