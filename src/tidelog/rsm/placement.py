"""Which partition of an internal topic a group or a transactional id belongs to.

The leader of that partition is its coordinator, so every broker of a cluster, Kafka's included,
must name the same one.
"""

from typing import Final

from tidelog.metadata.image import MetadataImage

_INT32_MASK: Final = 0xFFFFFFFF


def partition_of(key: str, partitions: int) -> int:
    """The partition of its topic that the key belongs to: Java's hash of the text."""
    hash_code = 0
    encoded = key.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        unit = encoded[index] << 8 | encoded[index + 1]
        hash_code = (31 * hash_code + unit) & _INT32_MASK
    if hash_code >= 1 << 31:
        hash_code = (1 << 32) - hash_code
    # The absolute value of the lowest number is not one of 32 bits; Kafka takes 0.
    return (0 if hash_code == 1 << 31 else hash_code) % partitions


def leader_of(image: MetadataImage, topic_name: str, key: str) -> int | None:
    """The leader of the partition that the key belongs to; `None` before the topic exists."""
    topic = image.topics_by_name.get(topic_name)
    if topic is None:
        return None
    return topic.partitions[partition_of(key, len(topic.partitions))].leader
