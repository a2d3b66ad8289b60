"""The replicas that this node hosts, by partition, and the errors for those that it does not."""

from collections.abc import Container
from typing import cast

from tidelog.errors import ErrorCode
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.model import TopicId, TopicPartition
from tidelog.replication.partition import Partition


class Hosted:
    """Shared by all parts of the package."""

    __slots__ = ("by_key", "damaged", "image", "partitions")

    def __init__(self) -> None:
        # By topic and partition number.
        self.partitions: dict[TopicPartition, Partition] = {}
        # The same dictionary, for hot paths that have a topic and a number and need no named key.
        self.by_key = cast(dict[tuple[str, int], Partition], self.partitions)
        # Partitions that are here and out of service, because their logs are damaged.
        self.damaged: Container[TopicPartition] = ()
        # The newest metadata, for partitions that other nodes host.
        self.image: MetadataImage = EMPTY_IMAGE

    def find(
        self, topic: str, partition: int, topic_id: TopicId, current_leader_epoch: int
    ) -> Partition | ErrorCode:
        """The replica a request asks for, or what stands against serving it."""
        hosted = self.by_key.get((topic, partition))
        if hosted is None:
            return self.error_of_missing(topic, partition)
        code = hosted.error_of_request(topic_id, current_leader_epoch)
        return hosted if code is ErrorCode.NONE else code

    def error_of_missing(self, topic: str, partition: int) -> ErrorCode:
        """What to answer for a partition that is not here."""
        if (topic, partition) in self.damaged:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self.image.topics_by_name.get(topic)
        if known is None or partition not in known.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
