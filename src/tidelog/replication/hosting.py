"""What a node does with new metadata, decided before anything is done.

`decide_step` compares what the newest image says of one partition with what this node has of it,
and names the step that is to be taken. The steps are in the order of their urgency: a former leader
is stopped first, because its clients wait in vain; then leaderships begin, since no client can
write before; what has only to do with files comes last.

**When metadata counts.** After a start a node reads the metadata log from the beginning and so
passes through its own past: images in which it led what others lead now. It must not act on those.
It acts from the first image that contains its present registration: everything that the controller
decided about the node's former life was decided before (the registration fences the node and takes
it out of every ISR). `is_in_force` decides it (`ActsOnPresentMetadata`).

**Damaged topic ids.** `partition.metadata` has no checksum, so a flipped bit makes a valid id of no
topic, and a write that went astray the id of a topic that is somewhere else. Taken at its word, a
replica that counts as complete would throw its log away and could be elected with an empty one. Two
ids that are drawn at random differ in about 64 bits; one character of the file is 6 bits.

**Unknown topic ids.** A log that cannot say its topic's id may have the records of a topic that was
deleted, and created again under the same name while the node was down. Offsets and leader epochs of
both begin at 0, so a follower that kept the records could pass for one that has the leader's. Where
another replica leads and the cluster does not count on this one, nothing of the log is kept. Else
the topic is taken to be the present one: the records may exist nowhere else.

Source: KIP-516 (topic ids), KIP-631, KIP-903.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import MetadataImage, PartitionImage, TopicImage
from tidelog.model import NO_EPOCH, NO_LEADER, ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.replication.partition import Partition

_MOST_FLIPPED_BITS: Final = 8


class Step(IntEnum):
    """What a partition waits for, the most urgent first."""

    STOP_LEADING = 0
    BEGIN_LEADING = 1
    """Also a new term of the same leader."""
    CHANGE_ISR = 2
    """Of a leader that goes on leading."""
    FOLLOW = 3
    RECONFIGURE = 4
    CREATE = 5
    """There is no log yet, or only one of another topic with this name."""
    DROP = 6
    SET_ASIDE = 7
    """The metadata does not know the log."""


class Host(NamedTuple):
    """A partition whose replica here follows this metadata."""

    topic_partition: TopicPartition
    topic_id: TopicId
    image: PartitionImage


def is_in_force(image: MetadataImage, node_id: int, broker_epoch: int) -> bool:
    """Whether the image contains the registration that gave this node its broker epoch."""
    broker = image.brokers.get(node_id)
    return broker is not None and broker_epoch != NO_EPOCH and broker.broker_epoch >= broker_epoch


def placed_here(image: MetadataImage, key: TopicPartition, node_id: int) -> Host | None:
    """The replica that this node is to have of a partition; `None` for none."""
    topic = image.topics_by_name.get(key.topic)
    partition = None if topic is None else topic.partitions.get(key.partition)
    if topic is None or partition is None or node_id not in partition.replicas:
        return None
    return Host(key, topic.topic_id, partition)


def decide_step(
    placed: Host | None, hosted: Partition | None, log_topic_id: TopicId | None, node_id: int
) -> Step | None:
    """The step from what this node has to what the metadata places here; `None` for none.

    `log_topic_id` is the topic id of the log that is here, zero if it is damaged; `None` where
    there is no log.
    """
    if placed is None:
        return None if hosted is None else Step.DROP
    image = placed.image
    will_lead = image.leader == node_id
    if hosted is None:
        if log_topic_id is None or log_topic_id not in (placed.topic_id, ZERO_TOPIC_ID):
            return Step.CREATE
        return Step.BEGIN_LEADING if will_lead else Step.FOLLOW
    if hosted.topic_id != placed.topic_id:
        return Step.CREATE
    if hosted.image is image:
        return None
    if hosted.leadership is None:
        return Step.BEGIN_LEADING if will_lead else Step.FOLLOW
    if not will_lead:
        return Step.STOP_LEADING
    return Step.CHANGE_ISR if image.leader_epoch == hosted.leader_epoch else Step.BEGIN_LEADING


def changed_topics(delta: MetadataDelta, image: MetadataImage) -> list[TopicImage]:
    """The topics that the delta changed and that still exist, by name: sets have no order that
    repeats from run to run."""
    topics = (image.topics_by_id.get(topic_id) for topic_id in delta.changed_topic_ids)
    return sorted((topic for topic in topics if topic is not None), key=lambda topic: topic.name)


def all_partitions(image: MetadataImage) -> Iterator[TopicPartition]:
    """Every partition, by the names of the topics."""
    for name in sorted(image.topics_by_name):
        yield from keys_of(name, image.topics_by_name[name].partitions)


def keys_of(topic: str, numbers: Iterable[int]) -> Iterator[TopicPartition]:
    """Partitions of one topic."""
    return (TopicPartition(topic, number) for number in numbers)


def is_damaged_id(found: TopicId, name: str, image: MetadataImage) -> bool:
    """Whether `found`, in the directory of a topic of this name, cannot have been written there."""
    topic = image.topic(name)
    if topic is None or found == topic.topic_id:
        return False
    flipped = int.from_bytes(found) ^ int.from_bytes(topic.topic_id)
    return flipped.bit_count() <= _MOST_FLIPPED_BITS or found in image.topics_by_id


def is_unknown_id(found: TopicId, topic_id: TopicId, image: MetadataImage) -> bool:
    """Whether `found`, in the directory of a topic with `topic_id`, does not say whose records lie
    there: it could not be read, or is that of a topic with another name."""
    return found == ZERO_TOPIC_ID or (found != topic_id and found in image.topics_by_id)


def may_come_back(partition: PartitionImage, node_id: int) -> bool:
    """Whether a log that is not here may be the only one with committed records: the partition is
    not new, and no other replica leads. An empty log in its place would count as a sound one, and
    the last known leader could be elected with it (seed 462135294). Asked while a directory is
    offline. What the metadata says of the place proves nothing: reports come late."""
    return partition.leader_epoch > 0 and not has_other_leader(partition, node_id)


def has_other_leader(partition: PartitionImage, node_id: int) -> bool:
    """Whether a replica leads that has all committed records, and this node's is not counted on."""
    counted = (*partition.isr, *partition.eligible_leaders)
    return partition.leader not in (NO_LEADER, node_id) and node_id not in counted
