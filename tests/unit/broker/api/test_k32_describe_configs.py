"""DescribeConfigs: values with their sources, of topics, of this broker, of the whole cluster."""

import pytest

from tests.unit.broker.api.wire_turns import versions
from tests.unit.broker.one_node import OneNode
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.DESCRIBE_CONFIGS)
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
DYNAMIC_GROUP = 8
DYNAMIC_TOPIC, DYNAMIC_DEFAULT_BROKER, STATIC_BROKER, DEFAULT = 1, 3, 4, 5
LONG = 5


def ask(wire, version, kind, name, keys=None, synonyms=False, documentation=False):
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    response = wire.call(
        ApiKey.DESCRIBE_CONFIGS,
        version,
        resources=(resource,),
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    (result,) = response.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return error_of(result.error_code), {config.name: config for config in result.configs}


def alter(wire, kind, name, key, value, operation=0):
    config = {"name": key, "config_operation": operation, "value": value}
    response = wire.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=({"resource_type": kind, "resource_name": name, "configs": (config,)},),
        validate_only=False,
    )
    assert error_of(response.responses[0].error_code) is ErrorCode.NONE, response


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic(wire, version):
    wire.create_topic("c", retention_ms="1234")
    code, configs = ask(wire, version, TOPIC, "c")
    assert code is ErrorCode.NONE
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == (
        "1234",
        DYNAMIC_TOPIC,
    )
    untouched = configs["segment.bytes"]
    assert (untouched.value, untouched.config_source) == ("1073741824", DEFAULT)
    assert untouched.synonyms == ()
    assert field(untouched, "documentation", None) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_keys_that_were_asked_for(wire, version):
    _, configs = ask(wire, version, TOPIC, "t", keys=("retention.ms", "no.such.key"))
    assert set(configs) == {"retention.ms"}


@pytest.mark.parametrize("version", VERSIONS)
def test_where_a_value_could_come_from(version):
    node = OneNode(log_retention_ms="9999")
    wire = node.client()
    wire.create_topic("c", retention_ms="1234")
    _, configs = ask(wire, version, TOPIC, "c", synonyms=True)
    sources = [(s.name, s.value, s.source) for s in configs["retention.ms"].synonyms]
    assert sources[0] == ("retention.ms", "1234", DYNAMIC_TOPIC)
    assert ("log.retention.ms", "9999", STATIC_BROKER) in sources


@pytest.mark.parametrize("version", [3, 4])
def test_documentation_when_asked(wire, version):
    _, configs = ask(wire, version, TOPIC, "t", documentation=True)
    assert all(config.documentation for config in configs.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_this_broker(wire, version):
    code, configs = ask(wire, version, BROKER, "1")
    assert code is ErrorCode.NONE
    assert (configs["node.id"].value, configs["node.id"].config_source) == ("1", STATIC_BROKER)
    assert configs["node.id"].read_only
    assert configs["num.partitions"].config_source == DEFAULT


@pytest.mark.parametrize("version", VERSIONS)
def test_the_clusters_defaults(wire, version):
    assert ask(wire, version, BROKER, "")[1].get("log.retention.ms") is None
    alter(wire, BROKER, "", "log.retention.ms", "777")
    code, configs = ask(wire, version, BROKER, "", synonyms=True)
    assert code is ErrorCode.NONE
    found = configs["log.retention.ms"]
    assert (found.value, found.config_source) == ("777", DYNAMIC_DEFAULT_BROKER)
    assert [s.value for s in found.synonyms] == ["777"]
    assert field(found, "config_type", LONG) == LONG
    _, topic = ask(wire, version, TOPIC, "t")
    assert topic["retention.ms"].value == "777"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_logger_of_this_broker(wire, version):
    code, configs = ask(wire, version, LOGGER, "1")
    assert code is ErrorCode.NONE
    assert [(name, level.value, level.config_source) for name, level in configs.items()] == [
        ("root", "INFO", 6)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_whether_it_exists_or_not(wire, version):
    name, node_name = "consumer.session.timeout.ms", "group.consumer.session.timeout.ms"
    code, configs = ask(wire, version, GROUP, "g", synonyms=True)
    assert code is ErrorCode.NONE and list(configs) == sorted(configs)
    assert (configs[name].value, configs[name].config_source) == ("45000", DEFAULT)
    alter(wire, GROUP, "g", name, "50000")
    _, configs = ask(wire, version, GROUP, "g", synonyms=True)
    assert (configs[name].value, configs[name].config_source) == ("50000", DYNAMIC_GROUP)
    assert [each.name for each in configs[name].synonyms] == [name, node_name]
    assert ask(wire, version, GROUP, "")[0] is ErrorCode.INVALID_REQUEST


def test_no_subscription_to_metrics_of_clients_has_configs(wire):
    assert ask(wire, 4, CLIENT_METRICS, "any") == (ErrorCode.NONE, {})


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (0, "t", ErrorCode.INVALID_REQUEST),
        (-1, "t", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_without_an_answer(wire, kind, name, code):
    for version in VERSIONS:
        assert ask(wire, version, kind, name) == (code, {})


@pytest.mark.parametrize("version", VERSIONS)
def test_many_topics_have_each_its_own_configs(wire, version):
    """Method: topics with and without overrides in one answer, and one that does not exist."""
    wire.create_topic("c", retention_ms="1234")
    wire.create_topic("d", retention_ms="5678")
    names = ["c", "t", "absent", "d", "t", "c"]
    resources = tuple(
        {"resource_type": TOPIC, "resource_name": name, "configuration_keys": None}
        for name in names
    )
    response = wire.call(
        ApiKey.DESCRIBE_CONFIGS,
        version,
        resources=resources,
        include_synonyms=False,
        include_documentation=False,
    )
    found = {}
    for result in response.results:
        values = {config.name: config.value for config in result.configs}
        assert found.setdefault(result.resource_name, values) == values
    assert [result.resource_name for result in response.results] == names
    assert found["absent"] == {}
    assert [found[name]["retention.ms"] for name in "ctd"] == ["1234", "604800000", "5678"]
