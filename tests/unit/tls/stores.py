"""Key stores of tests: an authority, and TLS configurations whose PEM stands in them."""

from tidelog.config.values import StoreConfig, TlsConfig
from tidelog.model import Secret
from tidelog.testing.certificates import Authority


def key_store(pem: str) -> StoreConfig:
    """A store of a private key and its certificates that stand in one text."""
    key, begin, certificates = pem.partition("-----BEGIN CERTIFICATE-----")
    return StoreConfig("PEM", key=Secret(key), certificates=begin + certificates)


def trust_store(*authorities: Authority) -> StoreConfig:
    """A store of what is trusted."""
    return StoreConfig("PEM", certificates="".join(each.pem for each in authorities))


def server_tls(authority: Authority, client_auth: str = "none") -> TlsConfig:
    """A server named `localhost` and `127.0.0.1`, and what it trusts."""
    own = key_store(authority.issue("server", ["localhost", "127.0.0.1"]))
    return TlsConfig(own, trust_store(authority), client_auth=client_auth)


def client_tls(authority: Authority, name: str = "") -> TlsConfig:
    """A client that trusts the authority; with a name it has a certificate."""
    if not name:
        return TlsConfig(truststore=trust_store(authority))
    return TlsConfig(key_store(authority.issue(name)), trust_store(authority))
