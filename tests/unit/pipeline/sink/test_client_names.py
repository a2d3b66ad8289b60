"""TLS and logins by Kafka's names, as librdkafka gets them."""

import pytest

from tests.unit.pipeline.topics.test_security import SECURE
from tidelog.errors import UsageError
from tidelog.pipeline.sink.client_names import for_librdkafka
from tidelog.pipeline.sink.options import parse_sink_options


def test_the_sources_lines_serve_the_sink():
    client = parse_sink_options(
        {"kafka.bootstrap.servers": "one:9092", **SECURE}, streaming=True
    ).client
    assert client == {
        "bootstrap.servers": "one:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ada",
        "sasl.password": "s3cret",
        "ssl.ca.location": "/etc/ca.pem",
    }


def test_a_certificate_in_pem_is_in_one_file_or_in_the_options():
    in_file = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "me.pem"}
    assert for_librdkafka(in_file) == {
        "ssl.certificate.location": "me.pem",
        "ssl.key.location": "me.pem",
    }
    any_host = {"ssl.endpoint.identification.algorithm": ""}
    texts = {"ssl.keystore.type": "PEM", "ssl.keystore.key": "k", **any_host}
    assert for_librdkafka(texts) == {"ssl.key.pem": "k", **dict.fromkeys(any_host, "none")}


def test_names_of_librdkafka_stay():
    own = {"ssl.ca.location": "ca.pem", "sasl.username": "a", "ssl.keystore.location": "me.p12"}
    assert for_librdkafka(own) == own
    assert for_librdkafka({**own, "ssl.keystore.type": "PKCS12"}) == own


@pytest.mark.parametrize("given", [{"ssl.truststore.type": "PKCS12"}, {"ssl.keystore.type": "JKS"}])
def test_a_store_that_the_client_cannot_read_is_refused(given):
    with pytest.raises(UsageError, match="does not read") as caught:
        for_librdkafka(given)
    assert "PEM" in caught.value.hint
