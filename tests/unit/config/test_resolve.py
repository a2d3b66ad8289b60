"""Goal: a node's file becomes one frozen value, or one message with a hint; topic overrides
resolve by Kafka's precedence."""

import pytest

from tidelog.config import (
    LogConfig,
    NodeConfig,
    apply_broker_overrides,
    parse_node_config,
    parse_properties,
    require_known,
    resolve_topic_config,
    validate_broker_config,
    validate_topic_config,
)
from tidelog.errors import ErrorCode, ProtocolError, UsageError
from tidelog.model import Endpoint

MINIMAL = """
process.roles=broker,controller
node.id=2
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9192
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9191,2@127.0.0.1:9192
log.dirs=data
"""

# As an operator would write it for Apache Kafka 4.3, with an internal listener and names that
# have no effect here.
KAFKA_FILE = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:29092,INTERNAL://127.0.0.1:29143,CONTROLLER://127.0.0.1:29192
advertised.listeners=PLAINTEXT://127.0.0.1:48092,INTERNAL://127.0.0.1:29143
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT
controller.quorum.voters=1@127.0.0.1:29192,2@127.0.0.1:29193,3@127.0.0.1:29194
log.dirs=data
default.replication.factor=3
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
min.insync.replicas=2
log.segment.bytes=1048576
offsets.topic.num.partitions=3
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=1000
log.cleaner.min.cleanable.ratio=0.01
num.io.threads=8
inter.broker.listener.name=INTERNAL
broker.rack=eu-1a
"""


def config_with(**changes: str | None) -> NodeConfig:
    """The minimal file with properties changed (`__` stands for a dot) or, by `None`, removed."""
    settings = parse_properties(MINIMAL)
    for name, value in changes.items():
        settings.pop(name.replace("__", "."), None)
        if value is not None:
            settings[name.replace("__", ".")] = value
    return parse_node_config(settings)


def test_a_minimal_file_gets_kafkas_defaults() -> None:
    config = config_with()
    assert config.node_id == 2
    assert config.log == LogConfig()
    assert config.broker.session_timeout_ms == 9000
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.voters[1] == Endpoint("CONTROLLER", "127.0.0.1", 9191)
    assert [str(e) for e in config.listeners] == [
        "PLAINTEXT://127.0.0.1:9092",
        "CONTROLLER://127.0.0.1:9192",
    ]
    assert [str(e) for e in config.controller_listeners] == ["CONTROLLER://127.0.0.1:9192"]
    assert config.rack is None


def test_hundreds_of_clients_may_come_at_once() -> None:
    """Kafka's 50 turned away those that came while a tick ran; each lost a second."""
    assert config_with().broker.listen_backlog >= 1000
    assert config_with(socket__listen__backlog__size="7").broker.listen_backlog == 7


def test_a_kafka_file_is_read_whole() -> None:
    config = parse_node_config(parse_properties(KAFKA_FILE))
    assert [str(e) for e in config.advertised_broker_listeners] == [
        "PLAINTEXT://127.0.0.1:48092",
        "INTERNAL://127.0.0.1:29143",
    ]
    assert config.inter_broker_listener_name == "INTERNAL"
    assert config.controller.default_replication_factor == 3
    assert config.controller.min_insync_replicas == 2
    assert config.log.min_insync_replicas == 2
    assert config.log.segment_bytes == 1 << 20
    assert config.settings["offsets.topic.num.partitions"] == "3"
    assert config.settings["group.initial.rebalance.delay.ms"] == "0"
    assert config.rack == "eu-1a"
    assert "num.io.threads" not in config.settings
    assert config.settings["log.segment.bytes"] == "1048576"


@pytest.mark.parametrize(
    ("name", "value", "problem", "hint"),
    [
        ("tidelog__event__enable", "true", "unknown property", "`tidelog.events.enable`"),
        ("zookeeper__metadata__migration__enable", "true", "is `true`", "end the migration"),
        ("num__partitions", "0", "must be at least 1", "The default is `1`"),
        ("num__partitions", "many", "must be a whole number", "The default is `1`"),
        ("log__segment__bytes", "1000", "must be at least 1048576", "1073741824"),
        ("log__cleanup__policy", "burn", "must be a list of compact, delete", "`delete`"),
        ("auto__create__topics__enable", "maybe", "must be true or false", "`true`"),
        ("replica__selector__class", "my.Selector", "must be one of org.apache.kafka.common.", ""),
        ("log__dirs", "a,b,a", "names `a` more than once", "each directory once"),
        ("log__dirs", None, "`log.dirs` is missing", "log.dirs=data"),
        ("node__id", None, "`node.id` is missing", "node.id=1"),
        ("node__id", "-1", "must be at least 0", "id"),
        ("node__id", "9", "not among `controller.quorum.voters`", "9@host:port"),
        ("broker__id", "5", "`broker.id` is `5`", "remove `broker.id`"),
        ("process__roles", "broker", "`process.roles`", "broker,controller"),
        ("authorizer__class__name", "x.Y", "does not exist here", "StandardAuthorizer"),
        ("broker__heartbeat__interval__ms", "10000", "more than `broker.session", "lower"),
        ("queued__max__request__bytes", "1000", "less than `socket.request.max.bytes`", "raise"),
        ("replica__lag__time__max__ms", "100", "`replica.fetch.wait.max.ms` is `500`", "lower"),
    ],
)
def test_a_bad_file_gives_one_message_and_a_hint(
    name: str, value: str | None, problem: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        config_with(**{name: value})
    assert problem in caught.value.message
    assert hint in caught.value.hint


UNKNOWN = {
    "min.insync.replica": "did you mean `min.insync.replicas`?",
    "segment.bytes": "in a node's file it is `log.segment.bytes`",
    "zookeeper.connect": "`controller.quorum.voters`",
    "inter.broker.protocol.version": "versions are negotiated",
    "zookeeper.metadata.migration.enable": "there is no ZooKeeper",
}


@pytest.mark.parametrize(("name", "advice"), UNKNOWN.items())
def test_an_unknown_name_in_a_file_is_kept_with_what_may_have_been_meant(
    name: str, advice: str
) -> None:
    """As Kafka does, which a file written for it and for parts of the operator's own counts on."""
    found = config_with(**{name.replace(".", "__"): "1", "colour": "red"})
    assert found.unknown.keys() == {"colour", name}
    assert advice in found.unknown[name]
    assert found.unknown["colour"] == ""
    assert found.settings == config_with().settings


@pytest.mark.parametrize("name", [*UNKNOWN, "colour"])
def test_an_unknown_name_that_is_given_to_a_command_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"`{name}`") as caught:
        require_known(["num.partitions", "num.io.threads", name])
    assert UNKNOWN.get(name, "Kafka's broker configuration reference") in caught.value.hint


def test_the_first_synonym_wins_whatever_the_order_in_the_file() -> None:
    day_ms = 24 * 3_600_000
    assert config_with(log__roll__hours="24").log.segment_ms == day_ms
    assert config_with(log__roll__hours="24", log__roll__ms="7").log.segment_ms == 7
    assert config_with(log__roll__ms="7", log__roll__hours="24").log.segment_ms == 7
    assert config_with(log__retention__minutes="1").log.retention_ms == 60_000
    assert config_with(log__retention__hours="-1").log.retention_ms == -1


def test_one_property_may_set_fields_of_several_packages() -> None:
    config = config_with(
        broker__session__timeout__ms="5000",
        tidelog__broker__disconnect__grace__ms="0",
        unclean__leader__election__enable="true",
        broker__id="2",
    )
    assert config.broker.session_timeout_ms == config.controller.broker_session_timeout_ms == 5000
    assert config.controller.disconnect_grace_ms == config.quorum.disconnect_grace_ms == 0
    assert config.log.unclean_leader_election_enable
    assert config.controller.unclean_leader_election_enable


def test_topic_overrides_win_over_the_brokers_values() -> None:
    broker = LogConfig(segment_bytes=5 << 20, retention_ms=10)
    log = resolve_topic_config({"retention.ms": "-1", "flush.messages": "1"}, broker)
    assert (log.segment_bytes, log.retention_ms, log.flush_messages) == (5 << 20, -1, 1)
    assert resolve_topic_config({}, broker) is broker
    assert resolve_topic_config({"gone.in.a.later.version": "1"}, broker) == broker
    assert resolve_topic_config({"internal.segment.bytes": "512"}, broker).segment_bytes == 512


def test_dynamic_broker_values_use_the_brokers_names() -> None:
    log = apply_broker_overrides(LogConfig(), {"log.roll.hours": "2", "message.max.bytes": "9"})
    assert (log.segment_ms, log.max_message_bytes) == (7_200_000, 9)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.mss", "1"),
        ("retention.ms", "-2"),
        ("retention.ms", "0"),
        ("retention.ms", str(2**63)),
        ("retention.bytes", "-2"),
        ("retention.ms", None),
        ("segment.bytes", "1023"),
        ("cleanup.policy", "delete,delete"),
        ("compression.type", "brotli"),
        ("remote.storage.enable", "true"),
        ("min.insync.replicas", "0"),
    ],
)
def test_bad_topic_configs_are_invalid_config(name: str, value: str | None) -> None:
    with pytest.raises(ProtocolError) as caught:
        validate_topic_config(name, value)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert name in caught.value.message


@pytest.mark.parametrize("value", ["0", "-2", "9223372036854775808"])
def test_a_refused_retention_names_the_range(value: str) -> None:
    """Of a topic and of a node."""
    with pytest.raises(ProtocolError, match=r"between .*9223372036854775807"):
        validate_topic_config("retention.ms", value)
    with pytest.raises(UsageError, match=r"between .*9223372036854775807"):
        config_with(log__retention__ms=value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("retention.ms", "-1"), ("cleanup.policy", "compact,delete"), ("preallocate", "true")],
)
def test_good_topic_configs_pass(name: str, value: str) -> None:
    validate_topic_config(name, value)


def test_only_topic_defaults_may_change_on_running_brokers() -> None:
    validate_broker_config("log.retention.ms", "5")
    for name in ("node.id", "no.such.name"):
        with pytest.raises(ProtocolError) as caught:
            validate_broker_config(name, "5")
        assert caught.value.code is ErrorCode.INVALID_CONFIG
