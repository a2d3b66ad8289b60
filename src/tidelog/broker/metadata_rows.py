"""Topics as Metadata answers have them, kept from one answer to the next.

What an answer says about a topic depends on the topic, on who is alive or in doubt, and on the
listener and version of the question. As long as these stay the same the bytes are the same: an
image shares the topics that did not change with the image before (`metadata/image.py`), so the cost
of an answer is what has changed since the last one that was alike, and joining bytes. A topic of
many partitions is packed in pieces (`long_answers.py`).

Bound: rows of at most `MAX_KEPT_ANSWERS` triples of listener, version and operations, the latest
asked for.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.errors import ErrorCode
from tidelog.log.pieces import Pieces
from tidelog.metadata.image import BrokerImage, MetadataImage, TopicImage
from tidelog.model import INTERNAL_TOPICS, NO_LEADER, TopicId, Uuid
from tidelog.wire.metadata import Members, pack_members, pack_partition, pack_topic

MAX_KEPT_ANSWERS: Final = 4
PARTITION_WORK: Final = 2
"""One partition is packed: so much of `limits.ANSWER_WORK_PER_TURN`."""
_PIECE: Final = 250
FIRST_VERSION_WITH_MISSING_LISTENERS: Final = 6


class _Rows:
    """Packed topics for one listener, version and sum of operations, while the same brokers are
    alive."""

    def __init__(
        self,
        image: MetadataImage,
        unreachable: frozenset[int],
        listener: str,
        version: int,
        operations: int,
    ) -> None:
        # They are for these brokers, by identity.
        self.brokers: Mapping[int, BrokerImage] = image.brokers
        self.unreachable = unreachable
        self._listener = listener
        self._version = version
        # What the client may do to a topic, as `authorized_operations` has it.
        self._operations = operations
        # By leader: the error and leader that an answer names.
        self._leaders: dict[int, tuple[int, int]] = {}
        # By replicas, their directories and the ISR: the end of a partition.
        self._members: dict[tuple[tuple[int, ...], tuple[Uuid, ...], tuple[int, ...]], bytes] = {}
        # By topic id: the topic, and its bytes.
        self._topics: dict[TopicId, tuple[TopicImage, bytes]] = {}

    def of(self, image: MetadataImage, topic: TopicImage) -> Pieces[bytes]:
        """The bytes of a topic; yields what its pieces cost."""
        known = self._topics.get(topic.topic_id)
        if known is not None and known[0] is topic:
            return known[1]
        if len(self._topics) > 2 * len(image.topics_by_id):
            self._topics = {}
        packed = yield from self._pack(image, topic)
        self._topics[topic.topic_id] = (topic, packed)
        return packed

    def _pack(self, image: MetadataImage, topic: TopicImage) -> Pieces[bytes]:
        version, rows = self._version, []
        for count, index in enumerate(sorted(topic.partitions), start=1):
            partition = topic.partitions[index]
            code, leader_id = self._leader(image, partition.leader)
            replicas, isr = partition.replicas, partition.isr
            # A replica is offline with its directory.
            key = replicas, partition.directories, isr
            members = self._members.get(key)
            if members is None:
                offline = image.offline_replicas(partition)
                members = pack_members(version, Members(replicas, isr, offline))
                self._members[key] = members
            epoch = partition.leader_epoch
            rows.append(pack_partition(version, code, index, leader_id, epoch, members))
            if count % _PIECE == 0:
                yield _PIECE * PARTITION_WORK
        yield len(rows) % _PIECE * PARTITION_WORK
        is_internal = topic.name in INTERNAL_TOPICS
        return pack_topic(version, topic.name, topic.topic_id, is_internal, rows, self._operations)

    def _leader(self, image: MetadataImage, leader: int) -> tuple[int, int]:
        known = self._leaders.get(leader)
        if known is None:
            code, leader_id = ErrorCode.NONE, leader
            if not image.is_alive(leader) or leader in self.unreachable:
                code, leader_id = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
            elif image.endpoint(leader, self._listener) is None:
                # Older clients take the new code for a fatal one.
                is_known = self._version >= FIRST_VERSION_WITH_MISSING_LISTENERS
                code = ErrorCode.LISTENER_NOT_FOUND if is_known else ErrorCode.LEADER_NOT_AVAILABLE
                leader_id = NO_LEADER
            known = self._leaders[leader] = (int(code), leader_id)
        return known


class MetadataRows:
    """The rows of one node's answers."""

    def __init__(self) -> None:
        # By listener, version and operations, the latest asked for last.
        self._kept: dict[tuple[str, int, int], _Rows] = {}

    def of(
        self,
        image: MetadataImage,
        unreachable: frozenset[int],
        listener: str,
        version: int,
        operations: int,
    ) -> _Rows:
        """The rows as they are now."""
        key = (listener, version, operations)
        rows = self._kept.pop(key, None)
        if rows is None or rows.brokers is not image.brokers or rows.unreachable != unreachable:
            rows = _Rows(image, unreachable, listener, version, operations)
        self._kept[key] = rows
        if len(self._kept) > MAX_KEPT_ANSWERS:
            del self._kept[next(iter(self._kept))]
        return rows
