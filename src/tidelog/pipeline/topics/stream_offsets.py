"""The offset of a stream, as Spark keeps it in checkpoints and shows it in progress reports.

A JSON object: the value of `"topic:partition"` is the next offset, that of `"topic"` its id, by
which a topic that was deleted and created again is recognised. Topic names have no colon.
Checkpoints without ids, and brokers that have none, are accepted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tidelog.model import ZERO_TOPIC_ID, TopicId, TopicPartition, uuid_from_text, uuid_to_text
from tidelog.pipeline.values import OffsetRange, Offsets, is_other_topic

T = TypeVar("T")

StreamOffset = Mapping[str, int | str]


def to_text(values: Mapping[TopicPartition, T]) -> dict[str, T]:
    """A value of each partition as JSON has it, `{"topic:partition": value}`, in order."""
    return {f"{tp.topic}:{tp.partition}": values[tp] for tp in sorted(values)}


def from_text(named: Mapping[str, T]) -> dict[TopicPartition, T]:
    """The inverse. Raises `ValueError` for a name of another form."""
    values = {}
    for name, value in named.items():
        topic, _, partition = name.rpartition(":")
        values[TopicPartition(topic, int(partition))] = value
    return values


def ranges_to_text(ranges: Iterable[OffsetRange]) -> dict[str, list[int]]:
    """Ranges of different partitions as JSON has them: `{"topic:partition": [start, end)}`."""
    return to_text({one.tp: [one.start, one.end] for one in ranges})


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a stream: the next offset of each partition."""

    offsets: Offsets
    topic_ids: Mapping[str, TopicId] = field(default_factory=dict)

    def to_json(self) -> dict[str, int | str]:
        """The JSON object that Spark keeps."""
        topics = {tp.topic for tp in self.offsets}
        ids = {
            topic: uuid_to_text(topic_id)
            for topic, topic_id in sorted(self.topic_ids.items())
            if topic in topics and topic_id != ZERO_TOPIC_ID
        }
        return {**to_text(self.offsets), **ids}

    @classmethod
    def from_json(cls, offset: StreamOffset) -> "Position":
        """The inverse. Raises `ValueError`."""
        offsets = {name: int(value) for name, value in offset.items() if ":" in name}
        topic_ids = {
            name: TopicId(uuid_from_text(str(value)))
            for name, value in offset.items()
            if ":" not in name
        }
        return cls(from_text(offsets), topic_ids)

    def is_other_topic(self, topic: str, later: "Position") -> bool:
        return is_other_topic(
            self.topic_ids.get(topic, ZERO_TOPIC_ID), later.topic_ids.get(topic, ZERO_TOPIC_ID)
        )
