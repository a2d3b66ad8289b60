"""What to host, what to drop, and from which image on."""

import pytest

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from tidelog.metadata.records import TopicRecord
from tidelog.model import ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.replication.hosting import (
    Drop,
    Host,
    all_topics,
    changed_topics,
    decide_hosting,
    decide_strays,
    is_damaged_id,
    is_in_force,
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


def test_only_own_and_changed_partitions_are_hosted() -> None:
    """An unchanged one is not looked at again."""
    cluster = Cluster((1, 2))
    cluster.feed.create_topic("orders", (1,))
    cluster.feed.create_topic("others", (2,))
    cluster.run(0)
    hosted = cluster.brokers[1].replicas._env.hosted
    topics = all_topics(hosted.image)
    (host,) = decide_hosting(topics, (), {}, 1)
    assert isinstance(host, Host) and host.topic_partition == KEY
    assert list(decide_hosting(topics, (), hosted.partitions, 1)) == []
    cluster.feed.change("orders", isr=(1,))
    topics = all_topics(cluster.feed.image)
    assert len(list(decide_hosting(topics, (), hosted.partitions, 1))) == 1


def test_deleted_and_moved_partitions_are_dropped_first() -> None:
    """A topic that was made again is another topic."""
    cluster = Cluster((1, 2))
    cluster.feed.create_topic("moves", (1,))
    cluster.feed.create_topic("orders", (1,))
    cluster.run(0)
    hosted = cluster.brokers[1].replicas._env.hosted.partitions
    old = cluster.feed.image.topics_by_name["orders"]
    cluster.feed.delete_topic("orders")
    new_id = cluster.feed.create_topic("orders", (1,))
    cluster.feed.change("moves", leader=2, isr=(2,), replicas=(2,))
    decisions = list(decide_hosting(all_topics(cluster.feed.image), [old], hosted, 1))
    assert decisions[0] == Drop(KEY, "topic deleted")
    assert decisions[1] == Drop(TopicPartition("moves", 0), "assigned elsewhere")
    assert isinstance(decisions[2], Host) and decisions[2].topic_id == new_id


def test_changed_topics_come_in_the_order_of_their_names() -> None:
    """Sets have an order that differs from process to process."""
    delta = MetadataDelta(EMPTY_IMAGE)
    names = [f"t{number}" for number in range(20)]
    for number, name in enumerate(reversed(names)):
        delta.replay(TopicRecord(name=name, topic_id=topic_id_of(number)), number)
    image = delta.apply(20, 1)
    assert [topic.name for topic in changed_topics(delta, image)] == sorted(names)


def test_strays() -> None:
    """Gone, made again, moved; a log without an id is judged by its name."""
    feed = MetadataFeed()
    feed.register(1)
    orders = feed.create_topic("orders", (1,))
    feed.create_topic("moved", (2,))
    logs = {
        TopicPartition("gone", 0): topic_id_of(50),
        TopicPartition("moved", 0): feed.image.topics_by_name["moved"].topic_id,
        TopicPartition("orders", 0): orders,
        TopicPartition("orders", 3): orders,
    }
    assert decide_strays(feed.image, logs, 1) == [
        TopicPartition("gone", 0),
        TopicPartition("moved", 0),
        TopicPartition("orders", 3),
    ]
    assert decide_strays(feed.image, {KEY: topic_id_of(51)}, 1) == [KEY]
    assert decide_strays(feed.image, {KEY: ZERO_TOPIC_ID}, 1) == []


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
