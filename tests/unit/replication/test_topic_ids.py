"""Another topic's id, or a damaged one."""

import pytest

from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from tidelog.model import TopicId
from tidelog.replication.topic_ids import is_damaged_id

OURS, OTHER, GONE = (TopicId(bytes(range(start, start + 16))) for start in (7, 90, 171))


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
