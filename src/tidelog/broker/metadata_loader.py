"""Committed metadata, from the quorum to every component that follows it.

The order is fixed. The controller comes first, because it keeps the truth. Then the feed makes the
image and the replicas follow it. Then handlers see the image (`Broker.image`), a snapshot of it may
be due, and the other followers get it. A controller that has just become active acts last, on the
image that contains all of this.

Invariant `MetadataFollowsLog`: the image is the fold of all committed batches up to its offset, and
offsets only grow.
"""

from collections.abc import Sequence
from typing import Protocol

from tidelog.broker.context import Broker
from tidelog.broker.controller_side import ControllerSide
from tidelog.broker.metadata_feed import MetadataFeed
from tidelog.broker.metadata_snapshots import MetadataSnapshots, with_images
from tidelog.env.instant import Instant
from tidelog.kraft.quorum import Quorum
from tidelog.log.directory import LogDirectory
from tidelog.metadata.image import MetadataImage
from tidelog.model import METADATA_PARTITION


class ImageFollower(Protocol):
    """A component that acts on a new image."""

    def on_image(self, image: MetadataImage) -> None:
        """The replicas have applied this image."""


class MetadataLoader:
    """Takes what the quorum has committed."""

    def __init__(
        self,
        quorum: Quorum,
        directory: LogDirectory,
        broker: Broker,
        *,
        feed: MetadataFeed,
        snapshots: MetadataSnapshots,
        controller_side: ControllerSide | None,
        followers: Sequence[ImageFollower],
    ) -> None:
        self._quorum = quorum
        self._directory = directory
        # Has the image, for its handlers.
        self._broker = broker
        self._feed = feed
        self._snapshots = snapshots
        # None on a node that is only a broker.
        self._controller_side = controller_side
        # In the order in which they get an image.
        self._followers = followers

    def load(self, now: Instant) -> bool:
        """Takes what was committed since the last call; returns whether there was any."""
        if METADATA_PARTITION in self._directory.remembered and not self._quorum.must_catch_up:
            self._directory.forget_former_end(METADATA_PARTITION)
        taken = self._quorum.take_committed()
        if not taken:
            return False
        committed = with_images(taken)
        controller = self._controller_side
        became_active = controller is not None and controller.on_committed(committed, now)
        image = self._broker.image = self._feed.publish(committed, now)
        self._snapshots.on_committed(taken, image, now)
        for follower in self._followers:
            follower.on_image(image)
        if controller is not None:
            controller.registration.on_image(image)
            if became_active:
                controller.on_became_active(image, now)
        return True

    def check(self) -> None:
        """MetadataFollowsLog."""
        assert self._broker.image.offset <= self._quorum.high_watermark, "MetadataFollowsLog"
