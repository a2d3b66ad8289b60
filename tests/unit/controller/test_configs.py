"""IncrementalAlterConfigs: the operations, what is refused, and what it means for ELRs."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.controller.harness import CONFIG, Stage, a_stage
from tidelog.controller.messages import (
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    ConfigResourceResult,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsResult,
)
from tidelog.controller.topic_messages import CreateTopics, NewTopic
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_CHANGES_PER_TURN
from tidelog.metadata.image import CLUSTER_DEFAULT, ConfigResource
from tidelog.metadata.records import ClearElrRecord, ConfigRecord

TOPIC, BROKER, GROUP = 2, 4, 32
SESSION = "consumer.session.timeout.ms"
SET, DELETE, APPEND, SUBTRACT = ConfigOperation


def change(
    resource_type: int, resource_name: str, *changes: tuple[str, int, str | None]
) -> ConfigResourceChange:
    return ConfigResourceChange(
        resource_type, resource_name, tuple(ConfigChange(*item) for item in changes)
    )


def alter(stage: Stage, *resources: ConfigResourceChange, validate_only: bool = False) -> Any:
    answer = stage.ask(IncrementalAlterConfigs(resources, validate_only))
    assert isinstance(answer, IncrementalAlterConfigsResult)
    return answer.resources


def codes(results: tuple[ConfigResourceResult, ...]) -> list[ErrorCode]:
    return [result.error_code for result in results]


@pytest.fixture
def stage() -> Stage:
    """Topic `orders` with `retention.ms` set, on brokers 1 and 2."""
    stage = a_stage(1, 2)
    stage.create("orders", (1, 2), configs=(("retention.ms", "5000"),))
    return stage


def test_set_and_delete(stage: Stage) -> None:
    """Goal: a resource's operations take effect together."""
    results = alter(
        stage, change(TOPIC, "orders", ("segment.ms", SET, "9000"), ("retention.ms", DELETE, None))
    )
    assert results == (ConfigResourceResult(TOPIC, "orders", ErrorCode.NONE),)
    assert stage.controller.image.topic_configs("orders") == {"segment.ms": "9000"}


@pytest.mark.parametrize(
    ("start", "operation", "value", "end"),
    [
        (None, APPEND, "compact", "delete,compact"),
        ("compact", APPEND, "delete", "compact,delete"),
        ("compact", APPEND, "compact", "compact"),
        ("compact,delete", SUBTRACT, "delete", "compact"),
        ("compact", SUBTRACT, "delete", "compact"),
        ("compact", APPEND, "delete,compact", "compact,delete"),
    ],
)
def test_lists(stage: Stage, start: str | None, operation: int, value: str, end: str) -> None:
    """Goal: items are added once and taken away, starting from the default where none is set."""
    if start is not None:
        alter(stage, change(TOPIC, "orders", ("cleanup.policy", SET, start)))
    alter(stage, change(TOPIC, "orders", ("cleanup.policy", operation, value)))
    assert stage.controller.image.topic_configs("orders")["cleanup.policy"] == end


def test_lists_of_brokers(stage: Stage) -> None:
    """Goal: broker names of list configs are lists too."""
    alter(stage, change(BROKER, "", ("log.cleanup.policy", APPEND, "compact")))
    assert stage.controller.image.broker_configs(None)["log.cleanup.policy"] == "delete,compact"


def test_what_is_there_already_is_written_for_brokers_only(stage: Stage) -> None:
    """Goal: brokers reload on a repeated value; topics have nothing to do."""
    before = stage.log.end_offset
    again = change(TOPIC, "orders", ("retention.ms", SET, "5000"), ("segment.ms", DELETE, None))
    assert codes(alter(stage, again)) == [ErrorCode.NONE]
    assert stage.log.end_offset == before
    for _ in range(2):
        alter(stage, change(BROKER, "1", ("log.retention.ms", SET, "7")))
    assert stage.log.end_offset == before + 2
    assert stage.controller.image.broker_configs(1) == {"log.retention.ms": "7"}


def test_a_group_that_need_not_exist(stage: Stage) -> None:
    alter(stage, change(GROUP, "g", (SESSION, SET, "50000")))
    found = stage.controller.image.configs
    assert found[ConfigResource(GROUP, "g")] == {SESSION: "50000"}
    alter(stage, change(GROUP, "g", (SESSION, DELETE, None)))
    assert ConfigResource(GROUP, "g") not in stage.controller.image.configs


def one(*operation: Any) -> ConfigResourceChange:
    return change(TOPIC, "orders", operation)


BURN = ("cleanup.policy", SET, "burn")
BAD: dict[str, tuple[ConfigResourceChange, ErrorCode]] = {
    "unknown topic": (
        change(TOPIC, "x", ("retention.ms", SET, "1")),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    "bad name and bad value": (change(TOPIC, "a/b", BURN), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "unknown topic and bad value": (change(TOPIC, "x", BURN), ErrorCode.INVALID_CONFIG),
    "unknown broker": (
        change(BROKER, "9", ("log.retention.ms", SET, "1")),
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    ),
    "no broker id": (
        change(BROKER, "one", ("log.retention.ms", SET, "1")),
        ErrorCode.INVALID_REQUEST,
    ),
    "metrics of clients": (change(16, "g", ("x", SET, "1")), ErrorCode.INVALID_REQUEST),
    "all groups": (change(GROUP, "", (SESSION, SET, "50000")), ErrorCode.INVALID_REQUEST),
    "unknown name of a group": (change(GROUP, "g", ("x", SET, "1")), ErrorCode.INVALID_CONFIG),
    "bad value of a group": (change(GROUP, "g", (SESSION, SET, "0")), ErrorCode.INVALID_CONFIG),
    "unknown name": (one("no.such", SET, "1"), ErrorCode.INVALID_CONFIG),
    "bad value": (one("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
    "not for running brokers": (
        change(BROKER, "1", ("node.id", SET, "1")),
        ErrorCode.INVALID_CONFIG,
    ),
    "too long": (one("compression.type", SET, "x" * 32_768), ErrorCode.INVALID_CONFIG),
    "no list": (one("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
    "no list either": (one("retention.ms", SUBTRACT, "1"), ErrorCode.INVALID_CONFIG),
    "bad list": (one("cleanup.policy", APPEND, "burn"), ErrorCode.INVALID_CONFIG),
    "null": (one("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
    "unknown operation": (one("retention.ms", 4, "1"), ErrorCode.INVALID_REQUEST),
    "twice": (
        change(TOPIC, "orders", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
        ErrorCode.INVALID_REQUEST,
    ),
    "good and bad": (
        change(TOPIC, "orders", ("segment.ms", SET, "1"), ("retention.ms", SET, "soon")),
        ErrorCode.INVALID_CONFIG,
    ),
}


@pytest.mark.parametrize(("resource", "code"), BAD.values(), ids=BAD)
def test_refused(stage: Stage, resource: ConfigResourceChange, code: ErrorCode) -> None:
    """Goal: a resource is all or nothing, and does not take its neighbour down."""
    neighbour = change(BROKER, "2", ("log.retention.ms", SET, "7"))
    bad, good = alter(stage, resource, neighbour)
    assert bad.error_code is code
    assert bad.message
    assert good.error_code is ErrorCode.NONE
    assert stage.controller.image.topic_configs("orders") == {"retention.ms": "5000"}
    assert stage.controller.image.broker_configs(2) == {"log.retention.ms": "7"}


def test_a_resource_named_twice_is_not_changed_at_all(stage: Stage) -> None:
    """Goal: which of the two would win is not left to chance."""
    twice = [one("retention.ms", SET, value) for value in ("1", "2")]
    assert codes(alter(stage, *twice)) == [ErrorCode.INVALID_REQUEST] * 2
    assert stage.controller.image.topic_configs("orders") == {"retention.ms": "5000"}


def test_trying(stage: Stage) -> None:
    """Goal: `validate_only` answers and writes nothing."""
    before = stage.log.end_offset
    results = alter(
        stage,
        one("retention.ms", SET, "1"),
        change(TOPIC, "x", ("retention.ms", SET, "1")),
        validate_only=True,
    )
    assert codes(results) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert stage.log.end_offset == before


# Min ISR and ELR ---------------------------------------------------------------------------


def leave_one_eligible(stage: Stage) -> None:
    stage.heartbeat(2, fence=True)
    assert stage.partition("orders").eligible_leaders == (2,)


@pytest.mark.parametrize(
    ("resource", "topic"),
    [
        (one("min.insync.replicas", SET, "1"), "orders"),
        (change(BROKER, "", ("min.insync.replicas", SET, "1")), ""),
    ],
)
def test_a_new_min_isr_forgets_the_elr(
    stage: Stage, resource: ConfigResourceChange, topic: str
) -> None:
    """Goal: who was eligible under the old value is not known to be under the new one."""
    leave_one_eligible(stage)
    before = len(stage.log.records)
    assert codes(alter(stage, resource)) == [ErrorCode.NONE]
    config, clear = stage.records()[before:]
    assert isinstance(config, ConfigRecord)
    assert clear == ClearElrRecord(topic_name=topic)
    assert stage.partition("orders").eligible_leaders == ()


@pytest.mark.parametrize(
    "resource",
    [
        one("min.insync.replicas", SET, "3"),
        one("min.insync.replicas", SET, "2"),
        change(BROKER, "", ("min.insync.replicas", SET, "3")),
    ],
)
def test_who_is_eligible_stays_while_nothing_can_be_committed(
    stage: Stage, resource: ConfigResourceChange
) -> None:
    """Goal: one loss of power does not lose what two had; alone the leader commits nothing."""
    leave_one_eligible(stage)
    assert codes(alter(stage, resource)) == [ErrorCode.NONE]
    assert stage.partition("orders").eligible_leaders == (2,)


@pytest.mark.parametrize(
    "resource",
    [one("min.insync.replicas", SET, "1"), change(BROKER, "", ("min.insync.replicas", SET, "1"))],
)
def test_a_partition_that_waits_for_its_elr_keeps_it(
    stage: Stage, resource: ConfigResourceChange
) -> None:
    """Goal: a replica that may be elected is not forgotten while there is no leader; of others it
    is."""
    stage.create("led", (1, 2))
    stage.create("waiting", (2,))
    stage.heartbeat(2, fence=True)
    stage.create("orders-too", (1,))
    assert stage.partition("waiting").leader == -1
    waiting = stage.partition("waiting")
    assert waiting.eligible_leaders or waiting.last_known_eligible_leaders
    target = change(TOPIC, "waiting", *((c.name, c.operation, c.value) for c in resource.changes))
    wanted = resource if resource.resource_type == BROKER else target
    assert codes(alter(stage, wanted)) == [ErrorCode.NONE]
    assert stage.partition("waiting").eligible_leaders == waiting.eligible_leaders
    known = waiting.last_known_eligible_leaders
    assert stage.partition("waiting").last_known_eligible_leaders == known
    forgotten = () if resource.resource_type == BROKER else (2,)
    assert stage.partition("led").eligible_leaders == forgotten
    stage.heartbeat(2)
    assert stage.partition("waiting").leader == 2


@pytest.mark.parametrize("topic_first", [True, False])
@pytest.mark.parametrize("replaces", [True, False])
def test_the_elr_rests_on_the_min_isr_that_a_whole_request_leaves(
    stage: Stage, topic_first: bool, replaces: bool
) -> None:
    """Goal: two resources of one request lower the min ISR together. The leader commits alone from
    then on, so a replica that lacks those records is not elected as if it had them."""
    alter(stage, one("min.insync.replicas", SET, "2"))
    leave_one_eligible(stage)
    own = change(TOPIC, "orders") if replaces else one("min.insync.replicas", DELETE, None)
    both = [own, change(BROKER, "", ("min.insync.replicas", SET, "1"))]
    resources = tuple(both if topic_first else reversed(both))
    stage.ask(IncrementalAlterConfigs(resources, replaces=replaces))
    assert stage.partition("orders").eligible_leaders == ()
    stage.heartbeat(1, fence=True)
    stage.heartbeat(2)
    assert stage.partition("orders").leader == -1


def test_other_configs_keep_the_elr(stage: Stage) -> None:
    """Goal: only the min ISR matters to it."""
    leave_one_eligible(stage)
    alter(stage, one("retention.ms", SET, "1"))
    assert stage.partition("orders").eligible_leaders == (2,)


@pytest.mark.parametrize(
    "resource",
    [
        change(BROKER, "", ("min.insync.replicas", DELETE, None)),
        change(BROKER, "1", ("min.insync.replicas", SET, "1")),
        change(BROKER, "1", ("min.insync.replicas", DELETE, None)),
    ],
)
def test_the_min_isr_of_the_cluster_is_pinned(stage: Stage, resource: ConfigResourceChange) -> None:
    """Goal: with ELR the cluster has a min ISR, and no broker has its own."""
    assert codes(alter(stage, resource)) == [ErrorCode.INVALID_CONFIG]
    assert stage.controller.image.configs[CLUSTER_DEFAULT] == {"min.insync.replicas": "2"}
    assert ConfigResource(BROKER, "1") not in stage.controller.image.configs


def test_many_resources_are_changed_in_slices(stage: Stage) -> None:
    """Goal: one answer in order; a bad resource alone is refused; no turn changes more than a
    slice, and a request that only asks changes nothing."""
    names = [f"t{number}" for number in range(2 * MAX_CHANGES_PER_TURN + 10)]
    stage.ask(CreateTopics(tuple(NewTopic(name, 1, 1) for name in names)))
    names.insert(MAX_CHANGES_PER_TURN + 7, "nowhere")
    wanted = [change(TOPIC, name, ("retention.ms", SET, "7")) for name in names]
    before = len(stage.log.batch_sizes)
    for validate_only in (True, False):
        results = alter(stage, *wanted, validate_only=validate_only)
        assert [one.resource_name for one in results] == names
        refused = [one for one in results if one.error_code is not ErrorCode.NONE]
        assert [one.resource_name for one in refused] == ["nowhere"]
        changed = len(names) - 1 if not validate_only else 0
        assert sum(stage.log.batch_sizes[before:]) == changed
    assert max(stage.log.batch_sizes[before:]) == MAX_CHANGES_PER_TURN
    names.remove("nowhere")
    configs = map(stage.controller.image.topic_configs, names)
    assert all(each == {"retention.ms": "7"} for each in configs)


def test_elections_that_a_change_allows_follow_the_last_slice() -> None:
    """Goal: a leader that may lack records is elected where the last slice allows it, too."""
    stage = a_stage(1, 2, config=replace(CONFIG, min_insync_replicas=1))
    names = [f"t{number:03}" for number in range(MAX_CHANGES_PER_TURN + 1)]
    for name in names:
        stage.create(name, (1, 2))
    stage.heartbeat(1, fence=True)
    stage.heartbeat(2, fence=True)
    stage.heartbeat(1)
    assert all(stage.partition(name).leader < 0 for name in names)
    wish = ("unclean.leader.election.enable", SET, "true")
    results = alter(stage, *(change(TOPIC, name, wish) for name in names))
    stage.settle()
    assert set(codes(results)) == {ErrorCode.NONE}
    assert all(stage.partition(name).leader == 1 for name in names)
