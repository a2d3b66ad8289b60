"""The offset of a stream, as Spark keeps it in checkpoints and shows it in progress reports.

A JSON object: `"topic:partition"` is the next offset, and `"topic"` alone the topic's id, by which
a topic that was deleted and made anew under the same name is told from the one that was read. No
topic name holds a colon. Checkpoints without ids, and brokers that have none, are understood.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.model import (
    ZERO_TOPIC_ID,
    TopicId,
    TopicPartition,
    uuid_from_text,
    uuid_to_text,
)
from tidelog.pipeline.values import Offsets, is_other_topic

StreamOffset = Mapping[str, int | str]
"""The JSON object."""


def to_text(offsets: Offsets) -> dict[str, int]:
    """Offsets alone, `{"topic:partition": offset}`, in order."""
    return {f"{tp.topic}:{tp.partition}": offsets[tp] for tp in sorted(offsets)}


def from_text(offset: StreamOffset) -> dict[TopicPartition, int]:
    """The offsets of a stream's offset, without topic ids. Raises `ValueError`."""
    parsed = {}
    for name, value in offset.items():
        topic, colon, partition = name.rpartition(":")
        if colon:
            parsed[TopicPartition(topic, int(partition))] = int(value)
        else:
            uuid_from_text(str(value))
    return parsed


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream is: the next offset of each partition."""

    offsets: Offsets
    topic_ids: Mapping[str, TopicId] = field(default_factory=dict)

    def to_json(self) -> dict[str, int | str]:
        """As Spark keeps it."""
        topics = {tp.topic for tp in self.offsets}
        ids = {
            topic: uuid_to_text(topic_id)
            for topic, topic_id in sorted(self.topic_ids.items())
            if topic in topics and topic_id != ZERO_TOPIC_ID
        }
        return {**to_text(self.offsets), **ids}

    @classmethod
    def from_json(cls, offset: StreamOffset) -> "Position":
        """The inverse."""
        topic_ids = {
            name: TopicId(uuid_from_text(str(value)))
            for name, value in offset.items()
            if ":" not in name
        }
        return cls(from_text(offset), topic_ids)

    def is_other_topic(self, topic: str, later: "Position") -> bool:
        """Whether `later` is about another topic of the same name."""
        return is_other_topic(
            self.topic_ids.get(topic, ZERO_TOPIC_ID), later.topic_ids.get(topic, ZERO_TOPIC_ID)
        )
