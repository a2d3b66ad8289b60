"""What the coordinators of consumer groups know of the metadata: which topics there are, how large
they are, and what is set for single groups.

Source: KIP-1101, for what a change of metadata is to a group: topics that come and go, partitions
that come, and racks of replicas. Leaders and ISRs are not.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.model import TopicId

_HASH_BYTES = 8


class Topics:
    """The topics of the newest metadata."""

    __slots__ = ("_image", "version")

    def __init__(self) -> None:
        self._image: MetadataImage = EMPTY_IMAGE
        # Grows when something may have changed for a group.
        self.version = 0

    def update(self, image: MetadataImage) -> None:
        """Takes the newest metadata."""
        before, self._image = self._image, image
        same_topics = image.topics_by_name is before.topics_by_name
        if not (same_topics and image.brokers is before.brokers):
            self.version += 1

    @property
    def deletions(self) -> int:
        """Grows when a topic was deleted."""
        return self._image.deleted_topics

    @property
    def offset(self) -> int:
        """Of the newest metadata."""
        return self._image.offset

    @property
    def names(self) -> Iterable[str]:
        """All topics."""
        return self._image.topics_by_name.keys()

    def id_of(self, name: str) -> TopicId | None:
        """The id of a topic, if it exists."""
        topic = self._image.topics_by_name.get(name)
        return None if topic is None else topic.topic_id

    def name_of(self, topic_id: TopicId) -> str | None:
        """The name of a topic, if it exists."""
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def configs_of_group(self, group_id: str) -> Mapping[str, str]:
        """What is set for a group alone."""
        return self._image.group_configs(group_id)

    def sizes(self, names: Iterable[str]) -> dict[TopicId, int]:
        """How many partitions those of these topics have that exist."""
        known = self._image.topics_by_name
        found = (known.get(name) for name in sorted(names))
        return {each.topic_id: len(each.partitions) for each in found if each is not None}

    def hash_of(self, names: Iterable[str]) -> int:
        """A number that is another one when these topics are; 0 when none of them exists. Kafka's
        is made otherwise: where one coordinator follows the other, a group is assigned once more,
        and keeps what it has."""
        image = self._image
        digest, is_empty = blake2b(digest_size=_HASH_BYTES), True
        for name in sorted(names):
            topic = image.topics_by_name.get(name)
            if topic is None:
                continue
            is_empty = False
            racks = [
                sorted(
                    image.brokers[each].rack or ""
                    for each in topic.partitions[number].replicas
                    if each in image.brokers
                )
                for number in sorted(topic.partitions)
            ]
            digest.update(repr((name, topic.topic_id, racks)).encode())
        return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)
