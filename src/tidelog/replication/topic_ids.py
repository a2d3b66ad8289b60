"""Whether a topic id that was read from a disk is another topic's, or a damaged one.

`partition.metadata` has no checksum, so a flipped bit makes a valid id of no topic, and a write
that went astray the id of a topic that is somewhere else. Taken at its word, a replica that counts
as complete would throw its log away and could be elected with an empty one. Two ids that are drawn
at random differ in about 64 bits; one character of the file is 6 bits.
"""

from typing import Final

from tidelog.metadata.image import MetadataImage
from tidelog.model import TopicId

_MOST_FLIPPED_BITS: Final = 8


def is_damaged_id(found: TopicId, name: str, image: MetadataImage) -> bool:
    """Whether `found`, in the directory of a topic of this name, cannot have been written there."""
    topic = image.topic(name)
    if topic is None or found == topic.topic_id:
        return False
    flipped = int.from_bytes(found) ^ int.from_bytes(topic.topic_id)
    return flipped.bit_count() <= _MOST_FLIPPED_BITS or found in image.topics_by_id
