"""Topics and their partitions, while records are replayed on top of an image.

A part of `MetadataDelta`. It copies a topic's partitions the first time that a record touches one
of them; topics that no record names stay shared with the image below.

Source: KIP-631, KIP-966; Kafka's topics delta.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias, TypeVar

from tidelog.metadata import records
from tidelog.metadata.image import MetadataImage, PartitionImage, TopicImage
from tidelog.metadata.topic_names import name_fault
from tidelog.model import TopicId

_Item = TypeVar("_Item")
Topics: TypeAlias = tuple[Mapping[str, TopicImage], Mapping[TopicId, TopicImage]]
"""All topics, by name and by id."""


def merge_partition(
    partition: PartitionImage, record: records.PartitionChangeRecord
) -> PartitionImage:
    """The partition after a change record: one partition epoch on, and with a leader field, even
    an unchanged one, one leader epoch on."""
    elected = record.leader != records.LEADER_UNCHANGED
    recovering = partition.recovering
    if record.leader_recovery_state != records.RECOVERY_UNCHANGED:
        recovering = record.leader_recovery_state == records.RECOVERING
    return PartitionImage(
        replicas=_or(record.replicas, partition.replicas),
        isr=_or(record.isr, partition.isr),
        leader=record.leader if elected else partition.leader,
        leader_epoch=partition.leader_epoch + elected,
        partition_epoch=partition.partition_epoch + 1,
        eligible_leaders=_or(record.eligible_leader_replicas, partition.eligible_leaders),
        last_known_eligible_leaders=_or(
            record.last_known_elr, partition.last_known_eligible_leaders
        ),
        removing_replicas=_or(record.removing_replicas, partition.removing_replicas),
        adding_replicas=_or(record.adding_replicas, partition.adding_replicas),
        recovering=recovering,
        directories=_or(record.directories, partition.directories),
    )


def _or(written: tuple[_Item, ...] | None, old: tuple[_Item, ...]) -> tuple[_Item, ...]:
    return old if written is None else written


class TopicsDelta:
    """The topics of an image, changed by records."""

    def __init__(self, image: MetadataImage) -> None:
        # The image below; never changed.
        self._image = image
        # Topics of the image that are gone, in the order of their removal.
        self.deleted: list[TopicImage] = []
        # Topic ids with a created or changed partition (or just created) to their partitions,
        # complete, and ours to change.
        self.changed: dict[TopicId, dict[int, PartitionImage]] = {}
        # Which of these partitions are not as in the image, in the order of their first change.
        self.touched: dict[TopicId, dict[int, None]] = {}
        # Names of topics that are not in the image, and the other way round.
        self._created: dict[TopicId, str] = {}
        self._created_ids: dict[str, TopicId] = {}

    def apply(self) -> Topics:
        """The topics by name and by id."""
        image = self._image
        if not self.changed and not self.deleted:
            return image.topics_by_name, image.topics_by_id
        by_name, by_id = dict(image.topics_by_name), dict(image.topics_by_id)
        for topic in self.deleted:
            del by_name[topic.name], by_id[topic.topic_id]
        for topic_id, partitions in self.changed.items():
            name = self._created.get(topic_id)
            if name is None:
                name = image.topics_by_id[topic_id].name
            by_name[name] = by_id[topic_id] = TopicImage(name, topic_id, partitions)
        return by_name, by_id

    def on_topic(self, record: records.TopicRecord) -> None:
        """A topic without partitions yet."""
        fault = name_fault(record.name)
        # It becomes a directory's name; no controller has decided such a record.
        assert fault is None, f"a topic that cannot be: {fault}"
        assert self._topic_id(record.name) is None, f"topic `{record.name}` exists already"
        self._created[record.topic_id] = record.name
        self._created_ids[record.name] = record.topic_id
        self.changed[record.topic_id] = {}

    def on_partition(self, record: records.PartitionRecord) -> None:
        """A whole partition."""
        partition = PartitionImage(
            replicas=record.replicas,
            isr=record.isr,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            eligible_leaders=record.eligible_leader_replicas or (),
            last_known_eligible_leaders=record.last_known_elr or (),
            removing_replicas=record.removing_replicas,
            adding_replicas=record.adding_replicas,
            recovering=record.leader_recovery_state == records.RECOVERING,
            directories=record.directories,
        )
        self._put(record.topic_id, record.partition_id, partition)

    def on_partition_change(self, record: records.PartitionChangeRecord) -> None:
        """What changed of a partition."""
        topic_id, number = record.topic_id, record.partition_id
        partition = self._partitions_of(topic_id).get(number)
        assert partition is not None, f"no partition {number} for {record}"
        self._put(topic_id, number, merge_partition(partition, record))

    def on_remove_topic(self, record: records.RemoveTopicRecord) -> str:
        """The topic and its partitions are gone; returns its name."""
        topic_id = record.topic_id
        self.changed.pop(topic_id, None)
        self.touched.pop(topic_id, None)
        name = self._created.pop(topic_id, None)
        if name is None:
            topic = self._image.topics_by_id.get(topic_id)
            assert topic is not None, f"no topic {topic_id.hex()} to remove"
            self.deleted.append(topic)
            name = topic.name
        else:
            del self._created_ids[name]
        return name

    def on_clear_elr(self, record: records.ClearElrRecord) -> None:
        """Forgets the eligible leaders of a topic, or of all topics."""
        if record.topic_name:
            topic_id = self._topic_id(record.topic_name)
            assert topic_id is not None, f"no topic `{record.topic_name}` to clear the ELR of"
            self._clear_elr(topic_id)
            return
        gone = {topic.topic_id for topic in self.deleted}
        for topic_id in (*self._image.topics_by_id, *self._created):
            if topic_id not in gone:
                self._clear_elr(topic_id)

    def _clear_elr(self, topic_id: TopicId) -> None:
        held = self.changed.get(topic_id)
        partitions = self._image.topics_by_id[topic_id].partitions if held is None else held
        for number, partition in list(partitions.items()):
            if partition.eligible_leaders or partition.last_known_eligible_leaders:
                # Kafka counts this as a change of the partition.
                cleared = replace(
                    partition,
                    partition_epoch=partition.partition_epoch + 1,
                    eligible_leaders=(),
                    last_known_eligible_leaders=(),
                )
                self._put(topic_id, number, cleared)

    def _topic_id(self, name: str) -> TopicId | None:
        """The topic that has this name after what was replayed."""
        if name in self._created_ids:
            return self._created_ids[name]
        topic = self._image.topics_by_name.get(name)
        gone = topic is None or any(deleted is topic for deleted in self.deleted)
        return None if topic is None or gone else topic.topic_id

    def _put(self, topic_id: TopicId, number: int, partition: PartitionImage) -> None:
        self._partitions_of(topic_id)[number] = partition
        self.touched.setdefault(topic_id, {})[number] = None

    def _partitions_of(self, topic_id: TopicId) -> dict[int, PartitionImage]:
        partitions = self.changed.get(topic_id)
        if partitions is None:
            topic = self._image.topics_by_id.get(topic_id)
            assert topic is not None, f"no topic {topic_id.hex()}"
            partitions = self.changed[topic_id] = dict(topic.partitions)
        return partitions
