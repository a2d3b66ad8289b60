"""The quorum as a component of the node: its messages, its leader and what it has committed.

The components that call the active controller get the leader of the quorum. A leader without a
known endpoint counts as none: this node's own disk names it, but the set of voters does not any
more. Nothing can be sent to it until another node reports its endpoint.

Committed metadata goes to its followers in a fixed order. The feed makes the image, and the
replicas follow it. Then the controller: it takes the image as it is, unless it is the active one,
which has replayed its own records when it appended them. Then a snapshot of the image may be due,
and the other followers get it. A controller that has just become active acts last.

Much that is committed at once is published in slices, `MAX_RECORDS_PER_TURN` a tick: a node that
starts, or one that lost its leader together with ten thousand partitions, must answer its quorum
meanwhile. A batch is published whole, because it may be atomic; one that is longer is read by
itself, in slices. A snapshot becomes an image in slices too.

Invariant `MetadataFollowsLog`: the image is the fold of all committed batches up to its offset, and
offsets only grow.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidelog.broker.context import Broker
from tidelog.broker.controller_side import ControllerSide
from tidelog.broker.lifecycle import BrokerLifecycle
from tidelog.broker.metadata_feed import MetadataFeed
from tidelog.broker.metadata_snapshots import CommittedMetadata, MetadataSnapshots, SnapshotReading
from tidelog.broker.quorum_link import QuorumLink
from tidelog.env.instant import Instant
from tidelog.kraft.messages import Committed, CommittedBatch, LoadedSnapshot
from tidelog.limits import MAX_RECORDS_PER_TURN
from tidelog.log.directory import LogDirectory
from tidelog.metadata.image import MetadataImage
from tidelog.model import METADATA_PARTITION, NO_LEADER


class ImageFollower(Protocol):
    """A component that acts on a new image."""

    def on_image(self, image: MetadataImage) -> None:
        """The replicas have applied this image."""


@dataclass(slots=True, eq=False, kw_only=True)
class QuorumFollower:
    """Drives the quorum, and follows it."""

    # Has the quorum, and the image for its handlers.
    broker: Broker
    quorum_link: QuorumLink
    directory: LogDirectory
    feed: MetadataFeed
    snapshots: MetadataSnapshots
    # None on a node that is only a broker.
    controller_side: ControllerSide | None
    # None on a node that is only a controller.
    lifecycle: BrokerLifecycle | None
    # In the order in which they get an image.
    followers: Sequence[ImageFollower]
    # The leader and epoch that the components were last given; None before the first.
    _published_leader: tuple[int, int] | None = field(default=None, init=False)
    # Committed, and not published yet; in offset order.
    _backlog: deque[Committed] = field(default_factory=deque, init=False)
    # Whether there is any, or more in the log. That changes with the quorum only, and here.
    _is_behind: bool = field(default=False, init=False)
    # The first of them, while it is a snapshot that is read.
    _reading: SnapshotReading | None = field(default=None, init=False)
    # Records that this tick may still decode.
    _budget: int = field(default=MAX_RECORDS_PER_TURN, init=False)
    # `Quorum.turn_count` when the quorum was last looked at; it grows with every change.
    _turns_seen: int = field(default=-1, init=False)

    def begin_tick(self) -> None:
        """The node has looked at its connections."""
        self._budget = MAX_RECORDS_PER_TURN

    def flow(self, now: Instant) -> bool:
        """Due timers; then messages, leader and committed metadata, if anything has changed."""
        quorum = self.broker.quorum
        quorum.wake(now)
        if quorum.turn_count == self._turns_seen:
            return self._is_behind and self._load(now)
        self._turns_seen = quorum.turn_count
        moved = self.quorum_link.flow(now)
        moved |= self._publish_leader(now)
        moved |= self._load(now)
        return moved

    def _publish_leader(self, now: Instant) -> bool:
        quorum = self.broker.quorum
        leader_id, epoch = quorum.leader_id, quorum.epoch
        if (leader_id, epoch) == self._published_leader:
            return False
        endpoint = quorum.endpoint_of(leader_id)
        if endpoint is None:
            leader_id = NO_LEADER
            if (leader_id, epoch) == self._published_leader:
                return False
        elif leader_id != self.broker.config.node_id:
            self.quorum_link.set_address(leader_id, endpoint)
        self._published_leader = (leader_id, epoch)
        self.broker.control.leader_id = leader_id
        if self.controller_side is not None:
            self.controller_side.on_leader_change(quorum, now)
        if self.lifecycle is not None and leader_id >= 0:
            self.lifecycle.on_controller_changed(now)
        return True

    def _load(self, now: Instant) -> bool:
        quorum = self.broker.quorum
        if METADATA_PARTITION in self.directory.remembered and not quorum.must_catch_up:
            self.directory.forget_former_end(METADATA_PARTITION)
        if not self._backlog:
            self._backlog += quorum.take_committed(MAX_RECORDS_PER_TURN)
        moved = self._publish(now)
        self._is_behind = bool(self._backlog) or quorum.has_committed
        return moved

    def _take_due(self) -> list[tuple[Committed, CommittedMetadata]]:
        """What this tick publishes; of a snapshot its image too."""
        taken: list[tuple[Committed, CommittedMetadata]] = []
        while self._backlog and self._budget > 0:
            first = self._backlog[0]
            if isinstance(first, LoadedSnapshot):
                reading = self._reading = self._reading or SnapshotReading(first)
                self._budget -= reading.read(self._budget)
                if not reading.is_complete:
                    break
                image = reading.image()
                self.feed.read(image, 0)
                taken.append((first, image))
                self._reading = None
            else:
                if taken and len(first.records) > self._budget:
                    # What is taken is published before a part of this is read.
                    break
                self._budget -= self.feed.read(first, self._budget)
                if not self.feed.has_read(first):
                    break
                taken.append((first, first))
            self._backlog.popleft()
        return taken

    def _publish(self, now: Instant) -> bool:
        controller = self.controller_side
        if not self._backlog:
            return False
        steps = self.broker.trace.steps
        steps.begin("metadata decoding")
        due = self._take_due()
        if not due:
            return False
        taken, committed = [batch for batch, _ in due], [each for _, each in due]
        image = self.broker.image = self.feed.publish(_epoch_of(committed[-1]), now)
        steps.begin("controller follows metadata", len(taken))
        became_active = controller is not None and controller.on_committed(committed, image, now)
        steps.begin("after metadata")
        self.snapshots.on_committed(taken, image, now)
        for follower in self.followers:
            follower.on_image(image)
        if controller is not None:
            controller.registration.on_image(image)
            if became_active:
                controller.on_became_active(image, now)
        steps.begin("tick")
        return True

    def deadline(self) -> Instant | None:
        """When the quorum has something to do; at once while anything waits to be published."""
        return Instant(0) if self._is_behind else self.broker.quorum.deadline()

    def check(self) -> None:
        """The quorum's invariants, and MetadataFollowsLog."""
        quorum = self.broker.quorum
        quorum.check()
        assert self.broker.image.offset <= quorum.high_watermark, "MetadataFollowsLog"


def _epoch_of(each: CommittedMetadata) -> int:
    return each.epoch if isinstance(each, CommittedBatch) else each.image.epoch
