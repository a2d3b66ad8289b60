"""TLS and logins by Kafka's names, in the names of librdkafka.

So the sink takes the lines that the source takes, and those of Kafka's tools. librdkafka's own
names (`sasl.username`, `ssl.ca.location`) stay as they are.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.client.security_options import user_of
from tidelog.errors import UsageError

_JAAS: Final = "sasl.jaas.config"
_PEM: Final = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.truststore.certificates": ("ssl.ca.pem",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem",),
    "ssl.keystore.key": ("ssl.key.pem",),
}
"""Kafka's names of stores in PEM, and librdkafka's for the same."""
_CHECKS: Final = "ssl.endpoint.identification.algorithm"


def for_librdkafka(client: Mapping[str, str]) -> dict[str, str]:
    """The configuration with librdkafka's names alone. Raises `UsageError` for a login that is
    none, and for a store that librdkafka cannot read."""
    found = dict(client)
    if _JAAS in found:
        found["sasl.username"], found["sasl.password"] = user_of(found.pop(_JAAS))
    if found.get(_CHECKS) == "":
        found[_CHECKS] = "none"
    for store in ("ssl.truststore", "ssl.keystore"):
        kind = found.pop(f"{store}.type", "PEM").upper()
        # That its store is PKCS12 is librdkafka's own meaning of this name.
        is_own = store == "ssl.keystore" and f"{store}.type" not in client
        if kind == "PEM" and not is_own:
            _rename(found, store)
        elif kind != "PEM" and (store == "ssl.truststore" or kind != "PKCS12"):
            raise UsageError(
                f"`kafka.{store}.type` is `{kind}`, which the sink's client does not read",
                "give the store as PEM: `openssl pkcs12 -in STORE -out store.pem -nodes`",
            )
    return found


def _rename(found: dict[str, str], store: str) -> None:
    for name, others in _PEM.items():
        if name.startswith(store) and name in found:
            value = found.pop(name)
            found.update(dict.fromkeys(others, value))
