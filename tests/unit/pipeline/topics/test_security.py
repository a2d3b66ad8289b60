"""TLS and logins among the options of the source: Kafka's names, and what is refused."""

import pickle

import pytest

from tidelog.errors import UsageError
from tidelog.pipeline.topics.options import parse_options
from tidelog.pipeline.topics.security import as_options, split_security
from tidelog.security.jaas import SCRAM_MODULE

_NEEDED = {"kafka.bootstrap.servers": "one:9092", "subscribe": "orders"}
LOGIN = f'{SCRAM_MODULE} required username="ada" password="s3cret";'
SECURE = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": LOGIN,
    "kafka.ssl.truststore.type": "PEM",
    "kafka.ssl.truststore.location": "/etc/ca.pem",
}


def test_rules_of_a_query_carry_tls_and_login_to_its_tasks_and_show_no_password():
    rules = parse_options({**_NEEDED, **SECURE}).rules
    assert rules.security.protocol.name == "SASL_SSL"
    assert pickle.loads(pickle.dumps(rules)) == rules
    assert rules != parse_options(_NEEDED).rules
    assert "s3cret" not in repr(rules)


def test_a_login_by_token_is_carried_to_tasks_too():
    endpoint = "kafka.sasl.oauthbearer.token.endpoint.url"
    asked = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        endpoint: "https://issuer/token",
        "kafka.sasl.oauthbearer.client.credentials.client.id": "spark",
        "kafka.sasl.oauthbearer.client.credentials.client.secret": "s3cret",
        "kafka.sasl.oauthbearer.scope": "logs",
    }
    rules = parse_options({**_NEEDED, **asked}).rules
    assert rules.security.takes_token and pickle.loads(pickle.dumps(rules)) == rules
    assert "s3cret" not in repr(rules)
    with pytest.raises(UsageError, match=r"token\.endpoint\.url` is missing"):
        parse_options({**_NEEDED, **{n: t for n, t in asked.items() if n != endpoint}})


def test_a_properties_file_becomes_options_of_the_connection_alone():
    file = {name.removeprefix("kafka."): value for name, value in SECURE.items()}
    assert as_options({**file, "acks": "all", "group.id": "g"}) == SECURE
    assert split_security(as_options(file))[1] == {}


@pytest.mark.parametrize(
    ("changed", "message", "hint"),
    [
        ({"kafka.security.protocol": "TLS"}, "`security.protocol` is `TLS`", "SASL_SSL"),
        ({"kafka.sasl.mechanisms": "PLAIN"}, "is not known", "`kafka.sasl.mechanism`"),
        ({"kafka.ssl.client.auth": "none"}, "is not known", "`kafka.ssl.truststore.location`"),
        ({"kafka.security.protocol": "SSL"}, "sasl.mechanism` has no effect with", "another"),
        ({"kafka.security.protocol": "PLAINTEXT"}, "has no effect with", "another"),
        ({"KAFKA.sasl.mechanism": "PLAIN"}, "is given twice", "once"),
        ({"kafka.sasl.oauthbearer.scope": "logs"}, "without a login by OAUTHBEARER", "OAUTHBEARER"),
        ({"kafka.sasl.oauthbearer.expected.issuer": "i"}, "is not known", "token.endpoint.url"),
    ],
)
def test_what_has_no_effect_is_refused(changed, message, hint):
    with pytest.raises(UsageError) as caught:
        parse_options({**_NEEDED, **SECURE, **changed})
    assert message in caught.value.message
    assert hint in caught.value.hint
