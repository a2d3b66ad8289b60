"""Creating, growing and deleting topics: what is refused and what is written."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.controller.harness import (
    CONFIG,
    Stage,
    a_broker,
    a_stage,
    a_view,
    an_image,
    at_once,
    code_of,
    directory_of,
    to_the_end,
    topic_id_of,
)
from tidelog.controller.topic_messages import (
    CreatePartitions,
    CreatePartitionsResult,
    CreateTopics,
    CreateTopicsResult,
    DeletedTopic,
    DeleteTopics,
    MorePartitions,
    MorePartitionsResult,
    NewTopic,
    NewTopicResult,
    TopicRef,
)
from tidelog.controller.topics import decide_create_partitions, decide_create_topics
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_PARTITIONS
from tidelog.metadata.image import PartitionImage
from tidelog.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from tidelog.model import INTERNAL_TOPICS, ZERO_TOPIC_ID, ZERO_UUID, TopicId, uuid_to_text

ONE = PartitionImage((1,), (1,), 1, 0, 0)
LIVE = (a_broker(1), a_broker(2), a_broker(3))
IMAGE = an_image(
    *LIVE, a_broker(4, fenced=True), a_broker(5, in_controlled_shutdown=True), old_topic=[ONE]
)


def create(*topics: NewTopic, **fields: Any) -> tuple[NewTopicResult, ...]:
    decision = at_once(decide_create_topics(a_view(IMAGE), CreateTopics(topics, **fields)))
    assert isinstance(decision.response, CreateTopicsResult)
    return decision.response.topics


# CreateTopics ------------------------------------------------------------------------------


def test_a_topic_by_counts() -> None:
    """Goal: placed on live brokers, epochs 0, records in the order topic, configs, partitions."""
    stage = a_stage(1, 2, 3)
    before = len(stage.log.records)
    topic = NewTopic("orders", 4, 2, configs=(("retention.ms", "1000"),))
    answer = stage.ask(CreateTopics((topic,)))
    [result] = answer.topics
    assert result == NewTopicResult(
        "orders",
        ErrorCode.NONE,
        None,
        stage.topic("orders").topic_id,
        4,
        2,
        {"retention.ms": "1000"},
    )
    kinds = [type(record) for record in stage.records()[before:]]
    assert kinds == [TopicRecord, ConfigRecord] + [PartitionRecord] * 4
    assert stage.controller.image.topic_configs("orders") == {"retention.ms": "1000"}
    for partition in stage.topic("orders").partitions.values():
        assert len(set(partition.replicas)) == 2
        assert partition == PartitionImage(
            partition.replicas,
            partition.replicas,
            partition.replicas[0],
            0,
            0,
            directories=tuple(directory_of(replica) for replica in partition.replicas),
        )
    leaders = Counter(p.leader for p in stage.topic("orders").partitions.values())
    assert max(leaders.values()) <= 2


def test_defaults_come_from_the_file() -> None:
    """Goal: -1 is `num.partitions` and `default.replication.factor`."""
    config = replace(CONFIG, num_partitions=5, default_replication_factor=2)
    stage = a_stage(1, 2, 3, config=config)
    [result] = stage.ask(CreateTopics((NewTopic("orders"),))).topics
    assert (result.num_partitions, result.replication_factor) == (5, 2)


def test_a_manual_assignment() -> None:
    """Goal: kept as given; fenced and leaving brokers are replicas, not in the ISR."""
    stage = a_stage(1, 2)
    stage.heartbeat(2, fence=True)
    result = stage.create("orders", (2, 1), (1, 2))
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    first, second = stage.partition("orders", 0), stage.partition("orders", 1)
    assert (first.replicas, first.isr, first.leader) == ((2, 1), (1,), 1)
    assert (second.replicas, second.isr, second.leader) == ((1, 2), (1,), 1)


def manual(*assignments: tuple[int, tuple[int, ...]], **fields: Any) -> NewTopic:
    return NewTopic("orders", assignments=assignments, **fields)


BAD: dict[str, tuple[NewTopic, ErrorCode]] = {
    "empty name": (NewTopic("", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "dot": (NewTopic(".", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "dots": (NewTopic("..", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "slash": (NewTopic("a/b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "newline": (NewTopic("a\n", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "other script": (NewTopic("töpic", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "too long": (NewTopic("a" * 250, 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "collides": (NewTopic("old.topic", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "exists": (NewTopic("old_topic", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
    "metadata": (NewTopic("__cluster_metadata", 1, 1), ErrorCode.INVALID_REQUEST),
    "no partitions": (NewTopic("orders", 0, 1), ErrorCode.INVALID_PARTITIONS),
    "negative": (NewTopic("orders", -2, 1), ErrorCode.INVALID_PARTITIONS),
    "factor 0": (NewTopic("orders", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "factor -2": (NewTopic("orders", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
    "factor too large": (NewTopic("orders", 1, 5), ErrorCode.INVALID_REPLICATION_FACTOR),
    "unknown config": (
        NewTopic("orders", 1, 1, configs=(("no.such", "1"),)),
        ErrorCode.INVALID_CONFIG,
    ),
    "bad config": (
        NewTopic("orders", 1, 1, configs=(("retention.ms", "soon"),)),
        ErrorCode.INVALID_CONFIG,
    ),
    "null config": (
        NewTopic("orders", 1, 1, configs=(("retention.ms", None),)),
        ErrorCode.INVALID_CONFIG,
    ),
    "manual with a factor": (manual((0, (1,)), replication_factor=1), ErrorCode.INVALID_REQUEST),
    "manual with a count": (manual((0, (1,)), num_partitions=1), ErrorCode.INVALID_REQUEST),
    "partition twice": (manual((0, (1,)), (0, (2,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "a gap": (manual((0, (1,)), (2, (1,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "not from 0": (manual((1, (1,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "no replicas": (manual((0, ())), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "unknown broker": (manual((0, (1, 9))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "broker twice": (manual((0, (1, 1))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "unequal sizes": (manual((0, (1, 2)), (1, (1,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "no broker alive": (manual((0, (4, 5))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
}


@pytest.mark.parametrize(("topic", "code"), BAD.values(), ids=BAD)
def test_refused_topics(topic: NewTopic, code: ErrorCode) -> None:
    """Goal: each reason has its code and a message; the good neighbour is created."""
    bad, good = create(topic, NewTopic("neighbour", 1, 1))
    assert (bad.name, bad.error_code) == (topic.name, code)
    assert bad.message
    assert bad.topic_id == ZERO_TOPIC_ID
    assert good.error_code is ErrorCode.NONE


def test_names_within_one_request() -> None:
    """Goal: a name given twice fails once; a later name that folds onto an earlier one fails."""
    results = create(NewTopic("a", 1, 1), NewTopic("b.c", 1, 1), NewTopic("a", 2, 1))
    assert [(r.name, r.error_code) for r in results] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b.c", ErrorCode.NONE),
    ]
    results = create(NewTopic("b.c", 1, 1), NewTopic("b_c", 1, 1))
    assert [r.error_code for r in results] == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_validate_only_decides_everything_and_writes_nothing() -> None:
    """Goal: the answer of the real request, without the topic."""
    stage = a_stage(1, 2, 3)
    before = stage.log.end_offset
    answer = stage.ask(CreateTopics((NewTopic("orders", 3, 3), NewTopic("x/y")), True))
    good, bad = answer.topics
    assert (good.error_code, good.num_partitions) == (ErrorCode.NONE, 3)
    assert bad.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert stage.log.end_offset == before


def test_bounds_of_a_request() -> None:
    """Goal: more partitions or records than one request may have: refused as a whole."""
    stage = a_stage(1, 2, 3, config=replace(CONFIG, max_records_per_batch=10))
    many = CreateTopics((NewTopic("a", 9_999, 1), NewTopic("b", 2, 1)))
    assert code_of(stage.ask(many)) is ErrorCode.POLICY_VIOLATION
    too_many = CreateTopics((NewTopic("a", 10, 1),))
    assert code_of(stage.ask(too_many)) is ErrorCode.POLICY_VIOLATION
    [result] = stage.ask(CreateTopics((NewTopic("a", 9, 1),))).topics
    assert result.error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    "request_",
    [
        CreateTopics((NewTopic("small", 1, 1), NewTopic("a", 100_000, 1))),
        CreateTopics(tuple(NewTopic(f"t{number}", 1, 1) for number in range(10_001))),
        CreatePartitions((MorePartitions("old", 2), MorePartitions("orders", 100_000))),
        CreatePartitions((MorePartitions("old", 6_000), MorePartitions("orders", 6_000))),
    ],
)
def test_far_too_many_partitions(request_: CreateTopics | CreatePartitions) -> None:
    """Goal: refused as a whole before anything is placed, with the number and the limit; nothing is
    half created."""
    stage = a_stage(1, 2, 3)
    stage.create("old", (1,))
    stage.create("orders", (1,))
    before, state = stage.log.end_offset, stage.controller._prng._state
    refused = stage.ask(request_)
    assert code_of(refused) is ErrorCode.POLICY_VIOLATION
    assert "maximum of partitions per request is 10000" in refused.message
    assert stage.log.end_offset == before
    assert stage.controller._prng._state == state


@pytest.mark.parametrize(
    ("fits", "is_one_too_many"),
    [
        (CreateTopics((NewTopic("a", 599, 1),)), CreateTopics((NewTopic("a", 600, 1),))),
        (
            CreatePartitions((MorePartitions("old", MAX_PARTITIONS - 1),)),
            CreatePartitions((MorePartitions("old", MAX_PARTITIONS),)),
        ),
    ],
)
def test_as_many_partitions_as_a_cluster_may_have(
    fits: CreateTopics | CreatePartitions, is_one_too_many: CreateTopics | CreatePartitions
) -> None:
    """Goal: one more is refused as a whole with the limit, also where others were made while the
    request was decided. The rest has what others made: one partition."""
    decide: Any = (
        decide_create_topics if isinstance(fits, CreateTopics) else decide_create_partitions
    )
    below = [ONE] * (MAX_PARTITIONS - 600)
    view = a_view(an_image(*LIVE, old=below))
    with pytest.raises(ProtocolError, match="maximum of partitions in a cluster is 50000"):
        at_once(decide(a_view(an_image(*LIVE, old=below, other=[ONE])), is_one_too_many))
    full = a_view(an_image(*LIVE, old=below, other=[ONE]))
    assert len(to_the_end(decide(full, fits), full).records) >= 599
    with pytest.raises(
        ProtocolError, match="maximum of partitions in a cluster is 50000"
    ) as caught:
        to_the_end(decide(view, is_one_too_many), full)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_topic_ids_are_usable_on_a_command_line() -> None:
    """Goal: no id whose text begins like an option; none twice. 300 draws see both."""
    view = a_view(an_image(*LIVE))
    request = CreateTopics(tuple(NewTopic(f"t{number}", 1, 1) for number in range(300)))
    decision = to_the_end(decide_create_topics(view, request), view)
    ids = [record.topic_id for record in decision.records if isinstance(record, TopicRecord)]
    assert len(set(ids)) == 300
    assert not any(uuid_to_text(topic_id).startswith("-") for topic_id in ids)
    drawn = [view.prng.uuid() for _ in range(300)]
    assert any(uuid_to_text(value).startswith("-") for value in drawn)


def test_brokers_with_several_directories_choose_themselves() -> None:
    """Goal: the controller names a directory only where there is one."""
    broker = a_broker(1, log_dirs=(directory_of(1), directory_of(2)))
    decision = at_once(
        decide_create_topics(a_view(an_image(broker)), CreateTopics((NewTopic("orders", 1, 1),)))
    )
    [record] = [record for record in decision.records if isinstance(record, PartitionRecord)]
    assert record.directories == (ZERO_UUID,)


# CreatePartitions --------------------------------------------------------------------------


def grow(stage: Stage, *topics: MorePartitions, validate_only: bool = False) -> Any:
    answer = stage.ask(CreatePartitions(topics, validate_only))
    assert isinstance(answer, CreatePartitionsResult)
    return answer.topics


def test_a_topic_grows() -> None:
    """Goal: new partitions behind the old ones, with the topic's replication factor."""
    stage = a_stage(1, 2, 3)
    stage.create("orders", (1, 2))
    assert grow(stage, MorePartitions("orders", 3)) == (
        MorePartitionsResult("orders", ErrorCode.NONE),
    )
    assert list(stage.topic("orders").partitions) == [0, 1, 2]
    assert len(stage.partition("orders", 2).replicas) == 2
    grow(stage, MorePartitions("orders", 5, ((3, 1), (2, 3))))
    assert stage.partition("orders", 3).replicas == (3, 1)
    assert stage.partition("orders", 4).replicas == (2, 3)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (MorePartitions("unknown", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (MorePartitions("orders", 2), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("orders", 1), ErrorCode.INVALID_PARTITIONS),
        (MorePartitions("orders", 3, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("orders", 3, ((1, 2), (2, 1))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("orders", 3, ((1,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("orders", 3, ((1, 9),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_does_not_grow(wanted: MorePartitions, code: ErrorCode) -> None:
    """Goal: each reason has its code; the neighbour grows."""
    stage = a_stage(1, 2, 3)
    stage.create("orders", (1, 2), (2, 1))
    stage.create("other", (1,))
    bad, good = grow(stage, wanted, MorePartitions("other", 2))
    assert bad.error_code is code
    assert good.error_code is ErrorCode.NONE
    assert len(stage.topic("orders").partitions) == 2


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
def test_topics_of_coordinators_do_not_grow(name: str) -> None:
    """Goal: what a coordinator knows is never looked for in another partition, where it is not."""
    stage = a_stage(1)
    stage.create(name, (1,))
    [result] = grow(stage, MorePartitions(name, 2))
    assert result.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert list(stage.topic(name).partitions) == [0]


def test_growing_can_be_tried() -> None:
    """Goal: `validate_only` writes nothing; a name twice is refused."""
    stage = a_stage(1, 2)
    stage.create("orders", (1, 2))
    before = stage.log.end_offset
    [result] = grow(stage, MorePartitions("orders", 4), validate_only=True)
    assert result.error_code is ErrorCode.NONE
    both = grow(stage, MorePartitions("orders", 3), MorePartitions("orders", 4))
    assert [result.error_code for result in both] == [ErrorCode.INVALID_REQUEST] * 2
    assert stage.log.end_offset == before


def test_growing_needs_live_brokers() -> None:
    """Goal: with every broker fenced there is no leader to be had."""
    stage = a_stage(1)
    stage.create("orders", (1,))
    stage.heartbeat(1, fence=True)
    [result] = grow(stage, MorePartitions("orders", 2))
    assert result.error_code is ErrorCode.INVALID_REPLICATION_FACTOR


# DeleteTopics ------------------------------------------------------------------------------


def test_topics_are_deleted_by_name_and_by_id() -> None:
    """Goal: both forms answer with name and id; configs go along."""
    stage = a_stage(1)
    stage.create("orders", (1,), configs=(("retention.ms", "1"),))
    stage.create("payments", (1,))
    orders, payments = stage.topic("orders").topic_id, stage.topic("payments").topic_id
    answer = stage.ask(DeleteTopics((TopicRef("orders"), TopicRef(None, payments))))
    assert answer.topics == (
        DeletedTopic("orders", orders, ErrorCode.NONE),
        DeletedTopic("payments", payments, ErrorCode.NONE),
    )
    assert stage.controller.image.topics_by_id == {}
    assert stage.controller.image.topic_configs("orders") == {}


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        (TopicRef("unknown"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicRef(None, topic_id_of("unknown")), ErrorCode.UNKNOWN_TOPIC_ID),
        (TopicRef(None), ErrorCode.INVALID_REQUEST),
        (TopicRef("orders", TopicId(b"x" * 16)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_deleted(ref: TopicRef, code: ErrorCode) -> None:
    """Goal: each reason has its code; the neighbour is deleted."""
    stage = a_stage(1)
    stage.create("orders", (1,))
    bad, good = stage.ask(DeleteTopics((ref, TopicRef("orders")))).topics
    assert bad.error_code is code
    assert good.error_code is ErrorCode.NONE


def test_a_topic_is_deleted_once() -> None:
    """Goal: naming it twice, in whatever form, does not write two records."""
    stage = a_stage(1)
    stage.create("orders", (1,))
    topic_id = stage.topic("orders").topic_id
    before = stage.log.end_offset
    first, second = stage.ask(DeleteTopics((TopicRef("orders"), TopicRef(None, topic_id)))).topics
    assert (first.error_code, second.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
    assert stage.log.end_offset == before + 1


def test_deletion_can_be_disabled() -> None:
    """Goal: `delete.topic.enable=false` refuses the whole request."""
    stage = a_stage(1, config=replace(CONFIG, delete_topic_enable=False))
    stage.create("orders", (1,))
    answer = stage.ask(DeleteTopics((TopicRef("orders"),)))
    assert code_of(answer) is ErrorCode.TOPIC_DELETION_DISABLED
