"""The share coordinators of this node: one for each partition of `__share_group_state` led here.

A request waits for the replicas at most for `share.coordinator.write.timeout.ms`. What a
coordinator does not need any more of its log is deleted here. All else is in
`coordinator_seats.py`.
"""

from tidelog.broker.coordinator_log import CoordinatorLog
from tidelog.broker.coordinator_seats import Call, CoordinatorSeats
from tidelog.config import NodeConfig
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.model import SHARES_TOPIC, TopicId, TopicPartition
from tidelog.replication.replicas import Replicas
from tidelog.shares.coordinator import ShareCoordinator
from tidelog.shares.messages import Request, Response


class ShareCall(Call[Response]):
    """A request under way to a share coordinator."""

    __slots__ = ()


class ShareSeats(CoordinatorSeats[ShareCoordinator]):
    """The share coordinators of one node."""

    __slots__ = ("_image",)

    def __init__(self, config: NodeConfig, replicas: Replicas, trace: Trace) -> None:
        # The newest metadata.
        self._image: MetadataImage = EMPTY_IMAGE

        def make(_: TopicPartition, log: CoordinatorLog) -> ShareCoordinator:
            return ShareCoordinator(log, config.shares, trace, self._partition_count)

        super().__init__(
            topic_name=SHARES_TOPIC,
            make=make,
            write_timeout_ms=config.shares.write_timeout_ms,
            node_id=config.node_id,
            replicas=replicas,
            trace=trace,
        )

    def _partition_count(self, topic_id: TopicId) -> int:
        topic = self._image.topics_by_id.get(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def on_image(self, image: MetadataImage) -> None:
        """Follows the leadership of the partitions, and the topics."""
        before, self._image = self._image, image
        super().on_image(image)
        if image.deleted_topics != before.deleted_topics:
            self._forget_deadlines()
            for seat in self._seats.values():
                seat.coordinator.on_topic_deleted(self._woken_at)

    def ask(self, request: Request, call: ShareCall, now: Instant) -> None:
        """Hands a request to the coordinator of its share partition; the call is settled, now or
        later."""
        self.hand_over(request.partition.key, request, call, now, writes=True)

    def wake(self, now: Instant) -> None:
        """Begins a tick; a coordinator that has looked at its log knows what it needs of it."""
        deadline = self.deadline()
        super().wake(now)
        if deadline is None or now < deadline:
            return
        for seat in self._seats.values():
            if seat.coordinator.active and seat.log.is_led:
                seat.log.delete_before(seat.coordinator.redundant_before)
