"""Cipher suites: IANA's names, which Kafka's configuration has, and OpenSSL's, which `ssl` takes.

OpenSSL's name is IANA's without `TLS_`, `WITH` and `CBC`, with dashes, and with the key's length
behind its cipher's name: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256. A
key exchange by RSA alone, which OpenSSL leaves out of the name, has no forward secrecy and is not
taken.
"""

import ssl
from collections.abc import Iterable
from typing import Final

from tidelog.errors import UsageError

TLS13_SUITES: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
"""The suites of TLS 1.3. Python 3.11 cannot choose among them."""

_FORWARD_SECRET: Final = ("TLS_ECDHE_", "TLS_DHE_")


def openssl_name(iana_name: str) -> str:
    """The OpenSSL name of a suite of TLS 1.2, which may be one that OpenSSL does not have."""
    name = iana_name.removeprefix("TLS_").replace("_WITH_", "_").replace("_CBC_", "_")
    if name.endswith("_CHACHA20_POLY1305_SHA256"):
        name = name.removesuffix("_SHA256")
    return name.replace("AES_", "AES").replace("_", "-")


def restrict(context: ssl.SSLContext, suites: Iterable[str]) -> None:
    """Lets a context use these suites only. Raises `UsageError` for one that is not known."""
    older = [name for name in suites if name not in TLS13_SUITES]
    for name in older:
        try:
            if not name.startswith(_FORWARD_SECRET):
                raise ssl.SSLError("no suite of IANA, or one without forward secrecy")
            context.set_ciphers(openssl_name(name))
        except ssl.SSLError:
            raise UsageError(
                f"`ssl.cipher.suites` names `{name}`, which is not available",
                f"use IANA's names, like `{TLS13_SUITES[0]}` or "
                "`TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`",
            ) from None
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    context.set_ciphers(":".join(map(openssl_name, older)))
    if len(older) == len(list(suites)):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
