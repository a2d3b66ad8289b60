"""What to host, what to drop, and from which image on."""

from typing import Any

import pytest

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from tidelog.metadata.records import TopicRecord
from tidelog.model import LOST_DIRECTORY, ZERO_TOPIC_ID, ZERO_UUID, TopicId, TopicPartition, Uuid
from tidelog.replication.hosting import (
    Host,
    Step,
    all_partitions,
    changed_topics,
    decide_step,
    is_damaged_id,
    is_in_force,
    may_come_back,
    placed_here,
)
from tidelog.sim.replicas.cluster import Cluster
from tidelog.sim.replicas.feed import MetadataFeed, topic_id_of

KEY = TopicPartition("orders", 0)
OURS, OTHER, GONE = (TopicId(bytes(range(start, start + 16))) for start in (7, 90, 171))


def test_metadata_counts_from_the_present_registration_on() -> None:
    """An image of the former life is history."""
    feed = MetadataFeed()
    assert not is_in_force(EMPTY_IMAGE, 1, 5)
    first = feed.register(1)
    assert is_in_force(feed.image, 1, first)
    assert not is_in_force(feed.image, 1, first + 1)
    assert not is_in_force(feed.image, 1, -1)
    assert not is_in_force(feed.image, 2, first)


def test_a_partition_is_placed_by_its_name_in_the_newest_image() -> None:
    """Of another broker's partitions, and of what is gone, there is no replica here."""
    feed = MetadataFeed()
    topic_id = feed.create_topic("orders", (1,))
    assert placed_here(feed.image, KEY, 1) == Host(KEY, topic_id, feed.partition("orders"))
    assert placed_here(feed.image, KEY, 2) is None
    assert placed_here(feed.image, TopicPartition("orders", 1), 1) is None
    assert placed_here(feed.image, TopicPartition("gone", 0), 1) is None


class Replica:
    """One partition on broker 1 of two, and what the newest metadata makes of it."""

    def __init__(self, leader: int) -> None:
        self.cluster = Cluster((1, 2))
        replicas = (leader, 3 - leader)
        self.topic_id = self.cluster.feed.create_topic("orders", replicas)
        self.cluster.run(10)

    def step(self, image: MetadataImage | None = None) -> Step | None:
        """To the newest metadata there is, or to this."""
        replicas = self.cluster.brokers[1].replicas
        placed = placed_here(image or self.cluster.feed.image, KEY, 1)
        return decide_step(placed, replicas.partitions.get(KEY), self.topic_id, 1)

    def step_to_applied(self) -> Step | None:
        """To what it follows already."""
        return self.step(self.cluster.brokers[1].replicas._env.hosted.image)

    def after(self, **change: Any) -> Step | None:
        self.cluster.feed.change("orders", **change)
        return self.step()


def test_the_step_of_a_leader() -> None:
    """What takes its leadership away is more urgent than what keeps it."""
    assert Replica(1).step_to_applied() is None
    assert Replica(1).after(leader=2) is Step.STOP_LEADING
    assert Replica(1).after(leader=1) is Step.BEGIN_LEADING
    assert Replica(1).after(isr=(1,)) is Step.CHANGE_ISR
    assert Replica(1).after(replicas=(2,), isr=(2,), leader=2) is Step.DROP


@pytest.mark.parametrize(
    ("leader", "leader_epoch", "waits"),
    [(-1, 3, True), (1, 3, True), (2, 3, False), (1, 0, False), (2, 0, False)],
)
@pytest.mark.parametrize("said", [LOST_DIRECTORY, ZERO_UUID, Uuid(bytes(range(16)))])
def test_no_empty_log_takes_the_place_of_the_only_one(
    said: Uuid, leader: int, leader_epoch: int, waits: bool
) -> None:
    """Where another replica leads, that one has what is committed; a new partition has nothing."""
    partition = PartitionImage((1, 2), (2,), leader, leader_epoch, 5, directories=(said, said))
    assert may_come_back(partition, 1) == waits


def test_the_step_of_a_follower() -> None:
    assert Replica(2).step_to_applied() is None
    assert Replica(2).after(leader=1) is Step.BEGIN_LEADING
    assert Replica(2).after(leader=-1) is Step.FOLLOW
    assert Replica(2).after(isr=(2,)) is Step.FOLLOW
    assert Replica(2).after(replicas=(2,), isr=(2,)) is Step.DROP


def test_a_topic_that_was_made_again_is_another_topic() -> None:
    """Its old log must go before the new one is made."""
    replica = Replica(1)
    replica.cluster.feed.delete_topic("orders")
    assert replica.step() is Step.DROP
    replica.cluster.feed.create_topic("orders", (1, 2))
    assert replica.step() is Step.CREATE


def test_the_step_of_a_partition_that_is_not_hosted() -> None:
    """A log that is here takes its role before any new log is made; so does a damaged one."""
    feed = MetadataFeed()
    topic_id = feed.create_topic("orders", (1, 2))
    placed = placed_here(feed.image, KEY, 1)
    assert decide_step(placed, None, None, 1) is Step.CREATE
    assert decide_step(placed, None, GONE, 1) is Step.CREATE
    assert decide_step(placed, None, topic_id, 1) is Step.BEGIN_LEADING
    assert decide_step(placed, None, ZERO_TOPIC_ID, 1) is Step.BEGIN_LEADING
    assert decide_step(placed_here(feed.image, KEY, 2), None, topic_id, 2) is Step.FOLLOW
    assert decide_step(None, None, topic_id, 1) is None


def test_all_partitions_come_by_the_names_of_their_topics() -> None:
    feed = MetadataFeed()
    feed.create_topic("b", (1,))
    feed.create_topic("a", (1,), partitions=2)
    assert list(map(str, all_partitions(feed.image))) == ["a-0", "a-1", "b-0"]


def test_changed_topics_come_in_the_order_of_their_names() -> None:
    """Sets have an order that differs from process to process."""
    delta = MetadataDelta(EMPTY_IMAGE)
    names = [f"t{number}" for number in range(20)]
    for number, name in enumerate(reversed(names)):
        delta.replay(TopicRecord(name=name, topic_id=topic_id_of(number)), number)
    image = delta.apply(20, 1)
    assert [topic.name for topic in changed_topics(delta, image)] == sorted(names)


def an_image() -> MetadataImage:
    """Two topics."""
    topics = [TopicImage("t", OURS, {}), TopicImage("u", OTHER, {})]
    return MetadataImage(
        offset=9,
        epoch=1,
        topics_by_name={topic.name: topic for topic in topics},
        topics_by_id={topic.topic_id: topic for topic in topics},
    )


def flipped(topic_id: TopicId, *bits: int) -> TopicId:
    """The id with these bits turned over."""
    value = int.from_bytes(topic_id)
    for bit in bits:
        value ^= 1 << bit
    return TopicId(value.to_bytes(16))


@pytest.mark.parametrize(
    ("found", "damaged"),
    [
        (OURS, False),
        (GONE, False),
        (flipped(OURS, 77), True),
        (flipped(OURS, 12, 13, 14, 15, 16, 17), True),
        (OTHER, True),
    ],
    ids=["right", "of a former topic", "a flipped bit", "another letter", "a write gone astray"],
)
def test_what_cannot_have_been_written_there_is_damaged(found: TopicId, damaged: bool) -> None:
    assert is_damaged_id(found, "t", an_image()) == damaged


def test_nothing_is_said_of_topics_that_are_not_there() -> None:
    assert not is_damaged_id(flipped(OURS, 1), "gone", an_image())
    assert not is_damaged_id(OURS, "t", EMPTY_IMAGE)
