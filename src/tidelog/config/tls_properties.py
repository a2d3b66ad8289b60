"""TLS by Kafka's names (`ssl.*`): the rows of a node, and what one listener or a client obeys.

On a node `listener.name.<listener in lower case>.ssl.*` goes before `ssl.*`. One property has a
rule of its own, as in Kafka: on a listener with SASL_SSL only a prefixed `ssl.client.auth` counts,
because clients log in there by SASL.

Certificates and keys are in a file (`ssl.keystore.location`), or stand as PEM text in the
configuration itself (`ssl.keystore.certificate.chain`, `ssl.keystore.key`). What the files hold is
read by `tidelog.tls`; here is only what can be judged without them.

The two stores of a listener may be set while the node runs, always with the listener's prefix and
for one broker (KIP-226): `store_property` knows those names, `with_stores` puts the values in place
of those in the file.

Left out: TLS 1.0 and 1.1, which RFC 8996 forbids; engines, providers and algorithms of a JVM.

Source: KIP-651 (PEM), KIP-226 (dynamic stores), KIP-371 (principal mapping), Kafka's broker
configuration reference.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tidelog.config.property_types import (
    LISTENER_PREFIX,
    Property,
    list_of,
    listener_prefix,
    one_of,
    rows,
    split_list,
    table_texts,
    without_prefixes,
)
from tidelog.config.values import StoreConfig, TlsConfig
from tidelog.errors import UsageError
from tidelog.model import Secret, SecurityProtocol

_STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")

TLS: Final = rows(
    """
ssl.keystore.type STRING = JKS
    How the key store is written: PEM, PKCS12, or JKS.
ssl.keystore.location STRING
    File with the node's private key and certificates.
ssl.keystore.password PASSWORD
    Password of that file; PEM has none.
ssl.keystore.key PASSWORD
    The private key itself, in PEM.
ssl.keystore.certificate.chain STRING
    The certificates that belong to that key, in PEM, the node's own first.
ssl.key.password PASSWORD
    Password of the private key; not given, that of the key store.
ssl.truststore.type STRING = JKS
    How the trust store is written: PEM, PKCS12, or JKS.
ssl.truststore.location STRING
    File with the certificates of the authorities that are trusted.
ssl.truststore.password PASSWORD
    Password of that file; PEM has none.
ssl.truststore.certificates STRING
    The certificates of trusted authorities themselves, in PEM.
ssl.client.auth STRING = none
    Whether clients show a certificate: `none`, `requested` or `required`.
ssl.enabled.protocols LIST = TLSv1.2,TLSv1.3
    The versions of TLS that are spoken.
ssl.protocol STRING = TLSv1.3
    The newest version of TLS that is spoken.
ssl.cipher.suites LIST
    The cipher suites that may be used, by their IANA names; not given, the safe ones.
ssl.endpoint.identification.algorithm STRING = https
    `https`: the certificate at the other end must name the host that was dialled; empty: any host.
ssl.principal.mapping.rules STRING = DEFAULT
    How the name in a client's certificate becomes a principal, rule by rule.
ssl.allow.dn.changes BOOLEAN = false
    Whether a certificate may be replaced by one of another name while the node runs.
ssl.allow.san.changes BOOLEAN = false
    Whether a certificate may be replaced by one that lacks some of its host names.
""",
    {
        "ssl.keystore.type": one_of(*_STORE_TYPES),
        "ssl.truststore.type": one_of(*_STORE_TYPES),
        "ssl.client.auth": one_of("none", "requested", "required"),
        "ssl.enabled.protocols": list_of("TLSv1.2", "TLSv1.3"),
        "ssl.protocol": one_of("TLS", "TLSv1.2", "TLSv1.3"),
        "ssl.endpoint.identification.algorithm": one_of("https", "", any_case=True),
    },
)

_STORES: Final = {
    name: prop
    for name, prop in TLS.items()
    if name.startswith(("ssl.keystore.", "ssl.truststore.", "ssl.key."))
}
"""What may be set while a node runs."""


def store_property(name: str) -> Property | None:
    """The property of a listener's key or trust store with this name, which begins with the
    listener's prefix."""
    listener, _, inner = name.removeprefix(LISTENER_PREFIX).partition(".")
    is_one = name.startswith(LISTENER_PREFIX) and listener and inner in _STORES
    return replace(_STORES[inner], name=name) if is_one else None


def with_stores(tls: TlsConfig, listener: str, settings: Mapping[str, Secret]) -> TlsConfig:
    """What a listener obeys when these values stand in for those of its stores. Raises
    `UsageError`."""
    prefix = listener_prefix(listener)
    own = {n.removeprefix(prefix): v.reveal() for n, v in settings.items() if n.startswith(prefix)}
    if not own:
        return tls
    key, trusted = tls.keystore, tls.truststore
    values = table_texts(
        _STORES,
        {
            "ssl.keystore.type": key.type,
            "ssl.keystore.location": key.location,
            "ssl.keystore.password": key.password.reveal(),
            "ssl.keystore.key": key.key.reveal(),
            "ssl.keystore.certificate.chain": key.certificates,
            "ssl.key.password": tls.key_password.reveal(),
            "ssl.truststore.type": trusted.type,
            "ssl.truststore.location": trusted.location,
            "ssl.truststore.password": trusted.password.reveal(),
            "ssl.truststore.certificates": trusted.certificates,
            **own,
        },
    )
    return replace(tls, **_stores(values))


def resolve_listener_tls(
    settings: Mapping[str, str], protocols: Mapping[str, SecurityProtocol]
) -> dict[str, TlsConfig]:
    """What TLS obeys, by the listeners that use it; raises `UsageError`."""
    return {
        listener: resolve_tls(of_listener(settings, listener, protocol))
        for listener, protocol in protocols.items()
        if protocol.uses_tls
    }


def of_listener(
    settings: Mapping[str, str], listener: str, protocol: SecurityProtocol
) -> dict[str, str]:
    """The settings as one listener sees them, without its prefix."""
    plain = dict(settings)
    if protocol.uses_sasl:
        plain.pop("ssl.client.auth", None)
    return without_prefixes(plain, listener_prefix(listener))


def resolve_tls(settings: Mapping[str, str]) -> TlsConfig:
    """What TLS obeys under these settings. Raises `UsageError` for bad values and contradictions;
    that a listener needs a certificate is checked by the one who opens it."""
    values = table_texts(TLS, settings)
    protocols = tuple(split_list(values["ssl.enabled.protocols"]))
    if values["ssl.protocol"] == "TLSv1.2":
        protocols = tuple(each for each in protocols if each == "TLSv1.2")
    if not protocols:
        raise UsageError(
            "`ssl.enabled.protocols` and `ssl.protocol` leave no version of TLS",
            "leave both away for TLSv1.2 and TLSv1.3",
        )
    return TlsConfig(
        **_stores(values),
        client_auth=values["ssl.client.auth"],
        enabled_protocols=protocols,
        cipher_suites=tuple(split_list(values["ssl.cipher.suites"])),
        checks_host_name=values["ssl.endpoint.identification.algorithm"] != "",
        principal_mapping_rules=values["ssl.principal.mapping.rules"] or "DEFAULT",
        allows_dn_changes=values["ssl.allow.dn.changes"].lower() == "true",
        allows_san_changes=values["ssl.allow.san.changes"].lower() == "true",
    )


def _stores(values: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a `TlsConfig` that may change while a node runs. Raises `UsageError`."""
    return {
        "keystore": _store(values, "ssl.keystore", "ssl.keystore.certificate.chain"),
        "truststore": _store(values, "ssl.truststore", "ssl.truststore.certificates"),
        "key_password": Secret(values["ssl.key.password"]),
    }


def _store(values: Mapping[str, str], name: str, certificates: str) -> StoreConfig:
    """The store under these names. Raises `UsageError` for one that is in two places."""
    found = StoreConfig(
        type=values[f"{name}.type"],
        location=values[f"{name}.location"],
        password=Secret(values[f"{name}.password"]),
        certificates=values[certificates],
        key=Secret(values.get(f"{name}.key", "")),
    )
    inline = found.certificates or found.key
    if inline and found.type != "PEM":
        raise UsageError(
            f"`{certificates}` is given, and `{name}.type` is `{found.type}`",
            f"set `{name}.type=PEM`",
        )
    if inline and found.location:
        raise UsageError(
            f"`{name}.location` and `{certificates}` each name certificates", "give one of the two"
        )
    if found.type == "PEM" and found.password:
        raise UsageError(
            f"`{name}.password` is given for a store of type PEM, which has none",
            "an encrypted private key has its password in `ssl.key.password`",
        )
    if found.password and not found.location:
        raise UsageError(
            f"`{name}.password` is given without `{name}.location`", "give both or neither"
        )
    if name == "ssl.keystore" and bool(found.key) != bool(found.certificates):
        missing = certificates if found.key else f"{name}.key"
        raise UsageError(
            f"`{missing}` is missing", f"`{name}.key` and `{certificates}` belong together"
        )
    return found
