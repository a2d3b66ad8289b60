"""What a node does with new metadata, decided before anything is done.

`decide_hosting` compares an image with what is hosted and yields the partitions to drop and those
to host, drops first: a topic that was deleted and created again has the same name and another id,
and its old log must be gone before the new one is made.

**When metadata counts.** After a start a node reads the metadata log from the beginning and so
passes through its own past: images in which it led what others lead now. It must not act on those.
It acts from the first image that contains its present registration: everything that the controller
decided about the node's former life was decided before (the registration fences the node and takes
it out of every ISR). `is_in_force` decides it (`ActsOnPresentMetadata`).

**Damaged topic ids.** `partition.metadata` has no checksum, so a flipped bit makes a valid id of no
topic, and a write that went astray the id of a topic that is somewhere else. Taken at its word, a
replica that counts as complete would throw its log away and could be elected with an empty one. Two
ids that are drawn at random differ in about 64 bits; one character of the file is 6 bits.

Source: KIP-516 (topic ids), KIP-631, KIP-903.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import MetadataImage, PartitionImage, TopicImage
from tidelog.model import NO_EPOCH, ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.replication.events.roles import DropReason
from tidelog.replication.partition import Partition

_MOST_FLIPPED_BITS: Final = 8


class Drop(NamedTuple):
    """A hosted partition that is deleted, or not this node's any longer."""

    topic_partition: TopicPartition
    reason: DropReason


class Host(NamedTuple):
    """A partition whose replica here follows this metadata."""

    topic_partition: TopicPartition
    topic_id: TopicId
    image: PartitionImage


def is_in_force(image: MetadataImage, node_id: int, broker_epoch: int) -> bool:
    """Whether the image contains the registration that gave this node its broker epoch."""
    broker = image.brokers.get(node_id)
    return broker is not None and broker_epoch != NO_EPOCH and broker.broker_epoch >= broker_epoch


def decide_hosting(
    topics: Iterable[TopicImage],
    deleted: Iterable[TopicImage],
    hosted: Mapping[TopicPartition, Partition],
    node_id: int,
) -> Iterator[Drop | Host]:
    """What to do, in order, when these topics changed and those were deleted."""
    for topic in deleted:
        for number in topic.partitions:
            key = TopicPartition(topic.name, number)
            partition = hosted.get(key)
            if partition is not None and partition.topic_id == topic.topic_id:
                yield Drop(key, DropReason.TOPIC_DELETED)
    for topic in topics:
        for number, image in topic.partitions.items():
            key = TopicPartition(topic.name, number)
            partition = hosted.get(key)
            if node_id in image.replicas:
                if partition is None or partition.image is not image:
                    yield Host(key, topic.topic_id, image)
            elif partition is not None and partition.topic_id == topic.topic_id:
                yield Drop(key, DropReason.ASSIGNED_ELSEWHERE)


def changed_topics(delta: MetadataDelta, image: MetadataImage) -> list[TopicImage]:
    """The topics that the delta changed and that still exist, by name: sets have no order that
    repeats from run to run."""
    topics = (image.topics_by_id.get(topic_id) for topic_id in delta.changed_topic_ids)
    return sorted((topic for topic in topics if topic is not None), key=lambda topic: topic.name)


def all_topics(image: MetadataImage) -> list[TopicImage]:
    """Every topic, by name."""
    return [image.topics_by_name[name] for name in sorted(image.topics_by_name)]


def decide_strays(
    image: MetadataImage, logs: Mapping[TopicPartition, TopicId], node_id: int
) -> list[TopicPartition]:
    """The logs that the metadata does not place on this node, in order. A log that has lost its
    topic id is judged by its name alone."""
    found = []
    for key in sorted(logs):
        topic = image.topics_by_name.get(key.topic)
        if topic is None or logs[key] not in (topic.topic_id, ZERO_TOPIC_ID):
            found.append(key)
            continue
        partition = topic.partitions.get(key.partition)
        if partition is None or node_id not in partition.replicas:
            found.append(key)
    return found


def is_damaged_id(found: TopicId, name: str, image: MetadataImage) -> bool:
    """Whether `found`, in the directory of a topic of this name, cannot have been written there."""
    topic = image.topic(name)
    if topic is None or found == topic.topic_id:
        return False
    flipped = int.from_bytes(found) ^ int.from_bytes(topic.topic_id)
    return flipped.bit_count() <= _MOST_FLIPPED_BITS or found in image.topics_by_id
