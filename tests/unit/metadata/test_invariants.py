"""Every named property, broken once; and none broken by a log that Apache Kafka wrote."""

from dataclasses import replace

import pytest

from tests.unit.metadata.kafka_log import kafka_steps
from tidelog.metadata.image import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    EMPTY_IMAGE,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from tidelog.metadata.invariants import check_image
from tidelog.model import TopicId, Uuid

ORDERS = TopicId(b"o" * 16)
GOOD = PartitionImage((1, 2, 3), (1, 2), 1, 4, 8)


def image_of(*partitions: PartitionImage, elr: bool = True, fenced: int = 0) -> MetadataImage:
    topic = TopicImage("orders", ORDERS, dict(enumerate(partitions)))
    brokers = {
        node_id: BrokerImage(
            node_id, 5, Uuid(b"i" * 16), (), None, node_id == fenced, False, {}, (), 0
        )
        for node_id in (1, 2, 3)
    }
    return MetadataImage(
        offset=10,
        topics_by_name={"orders": topic},
        topics_by_id={ORDERS: topic},
        brokers=brokers,
        features={ELIGIBLE_LEADER_REPLICAS_VERSION: int(elr)},
        next_producer_id=1000,
    )


def test_a_kafka_log_has_all_properties() -> None:
    """Goal: the properties are Kafka's, not inventions."""
    steps = kafka_steps()
    for step in steps:
        check_image(step.after, step.before)
    assert sum(len(step.delta.changed_topic_ids) for step in steps) > 100


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("IsrWithinReplicas", replace(GOOD, isr=(1, 4))),
        ("IsrWithinReplicas", replace(GOOD, isr=(1, 1))),
        ("IsrWithinReplicas", replace(GOOD, replicas=(1, 2, 2))),
        ("IsrWithinReplicas", replace(GOOD, eligible_leaders=(4,))),
        ("IsrWithinReplicas", replace(GOOD, adding_replicas=(4,))),
        ("IsrWithinReplicas", replace(GOOD, removing_replicas=(4,))),
        ("LeaderInIsr", replace(GOOD, leader=3)),
        ("IsrElrDisjoint", replace(GOOD, eligible_leaders=(2,))),
        ("RecoveringAlone", replace(GOOD, recovering=True)),
    ],
)
def test_a_bad_partition_is_named(name: str, partition: PartitionImage) -> None:
    """Goal: each property of a single partition is checked under its name."""
    with pytest.raises(AssertionError, match=name):
        check_image(image_of(partition), EMPTY_IMAGE)


@pytest.mark.parametrize(
    "partition",
    [
        replace(GOOD, leader_epoch=3, partition_epoch=9),
        replace(GOOD, partition_epoch=7),
        replace(GOOD, isr=(1,)),
        replace(GOOD, leader=2, partition_epoch=9),
    ],
    ids=["leader epoch back", "partition epoch back", "change within", "leader within"],
)
def test_a_change_needs_a_higher_epoch(partition: PartitionImage) -> None:
    """Goal: EpochsMonotonic between two images."""
    with pytest.raises(AssertionError, match="EpochsMonotonic"):
        check_image(image_of(partition), image_of(GOOD))


def test_the_isr_runs_empty_only_with_elr() -> None:
    """Goal: without ELR the last member's name must not get lost."""
    empty = PartitionImage((1, 2), (), -1, 5, 9)
    check_image(image_of(empty), EMPTY_IMAGE)
    with pytest.raises(AssertionError, match="IsrNeverEmptyWithoutElr"):
        check_image(image_of(empty, elr=False), EMPTY_IMAGE)


def test_a_fenced_broker_is_in_no_isr() -> None:
    """Goal: FencedNotInIsr, with the one exception that there is without ELR."""
    with pytest.raises(AssertionError, match="FencedNotInIsr"):
        check_image(image_of(GOOD, fenced=2), EMPTY_IMAGE)
    last = PartitionImage((1, 2), (2,), -1, 5, 9)
    check_image(image_of(last, elr=False, fenced=2), EMPTY_IMAGE)
    with pytest.raises(AssertionError, match="FencedNotInIsr"):
        check_image(image_of(last, elr=True, fenced=2), EMPTY_IMAGE)
    leading = replace(last, leader=2)
    with pytest.raises(AssertionError, match="FencedNotInIsr"):
        check_image(image_of(leading, elr=False, fenced=2), EMPTY_IMAGE)


def test_partitions_are_dense() -> None:
    """Goal: PartitionsDense: no gap, and never fewer than before."""
    good = image_of(GOOD, GOOD)
    topic = TopicImage("orders", ORDERS, {0: GOOD, 2: GOOD})
    gap = replace(good, topics_by_name={"orders": topic}, topics_by_id={ORDERS: topic})
    with pytest.raises(AssertionError, match="PartitionsDense"):
        check_image(gap, EMPTY_IMAGE)
    with pytest.raises(AssertionError, match="PartitionsDense"):
        check_image(image_of(GOOD), good)


def test_the_topic_maps_agree() -> None:
    """Goal: TopicMapsAgree, in number and in content."""
    good = image_of(GOOD)
    with pytest.raises(AssertionError, match="TopicMapsAgree"):
        check_image(replace(good, topics_by_name={}), EMPTY_IMAGE)
    other = TopicImage("orders", ORDERS, {0: replace(GOOD)})
    with pytest.raises(AssertionError, match="TopicMapsAgree"):
        check_image(replace(good, topics_by_name={"orders": other}), EMPTY_IMAGE)


def test_offsets_producer_ids_and_broker_epochs_never_go_back() -> None:
    """Goal: what only grows is compared with the earlier image."""
    good = image_of(GOOD)
    check_image(good, good)
    with pytest.raises(AssertionError, match="offset went back"):
        check_image(replace(good, offset=9), good)
    with pytest.raises(AssertionError, match="ProducerIdsMonotonic"):
        check_image(replace(good, next_producer_id=999), good)
    older = {1: replace(good.brokers[1], broker_epoch=4)}
    with pytest.raises(AssertionError, match="EpochsMonotonic: broker 1"):
        check_image(replace(good, brokers=older), good)
