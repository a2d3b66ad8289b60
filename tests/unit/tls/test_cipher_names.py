"""Goal: IANA's names choose OpenSSL's suites, and a name that chooses none is refused."""

import ssl

import pytest

from tidelog.errors import UsageError
from tidelog.tls.cipher_names import openssl_name, restrict


@pytest.mark.parametrize(
    ("iana", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
    ],
)
def test_a_suite_has_openssls_name(iana: str, openssl: str) -> None:
    assert openssl_name(iana) == openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    restrict(context, [iana])
    older = [c["name"] for c in context.get_ciphers() if c["protocol"] != "TLSv1.3"]
    assert older == [openssl]


@pytest.mark.parametrize(
    "name", ["TLS_NO_SUCH", "ALL", "ECDHE-RSA-AES128-GCM-SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"]
)
def test_a_name_that_is_none_of_ianas_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"names `{name}`, which is not available"):
        restrict(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ["TLS_AES_256_GCM_SHA384", name])
