"""A stream's offset in a checkpoint: whole, and understood when it is old."""

import json

from tidelog.model import ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.pipeline.topics.stream_offsets import Position

_ID = TopicId(bytes(range(16)))


def test_offsets_survive_the_checkpoint_whatever_the_topic_is_called():
    offsets = {TopicPartition("a.b_c-1", 12): 5, TopicPartition("a", 0): 2**40}
    position = Position(offsets, {"a": _ID, "a.b_c-1": ZERO_TOPIC_ID, "gone": _ID})
    text = position.to_json()
    assert text == {"a:0": 2**40, "a.b_c-1:12": 5, "a": "AAECAwQFBgcICQoLDA0ODw"}
    assert Position.from_json(text) == Position(offsets, {"a": _ID})


def test_a_checkpoint_without_ids_matches_any_topic():
    old, new = Position.from_json({"a:0": 5}), Position.from_json({"a:0": 5, "a": "A" * 21 + "Q"})
    assert not old.is_other_topic("a", new)
    assert not new.is_other_topic("a", old)
    other = Position.from_json({"a:0": 5, "a": "B" * 21 + "Q"})
    assert new.is_other_topic("a", other)


def test_a_partition_takes_few_bytes_of_an_offset():
    """Spark writes it for each batch, twice in each report of progress: it must hold for 100,000
    partitions (`bench/spark_planning.py`)."""
    topic, count = "a-topic-of-some-length", 10_000
    position = Position(
        dict.fromkeys(map(TopicPartition, [topic] * count, range(count)), 2**40), {topic: _ID}
    )
    size = len(json.dumps(position.to_json()))
    assert size <= count * (len(topic) + 26) + 100
