"""What makes a node a controller: the metadata state machine, its leadership, its registration.

The state machine of every controller follows the log; the one on the quorum's leader decides. When
it becomes active it has no sessions of brokers. It fences brokers that are suspected already at
once, and probes all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.broker.control_link import Call, Forward
from tidelog.broker.controller_registration import ControllerRegistration
from tidelog.broker.failure_detector import FailureDetector
from tidelog.broker.metadata_snapshots import CommittedMetadata, LoadedImage
from tidelog.broker.router import ControllerRequest, Router
from tidelog.controller.controller import Controller
from tidelog.env.instant import Instant, earliest
from tidelog.kraft.quorum import Quorum
from tidelog.limits import MAX_CHANGES_PER_TURN
from tidelog.metadata.image import MetadataImage
from tidelog.replication.turn_work import TickPart

_SLICE_WORK: Final = 50 * MAX_CHANGES_PER_TURN
"""A slice of a long decision, in the unit of `limits.REPLICA_WORK_PER_TURN`."""


@dataclass(slots=True, eq=False, kw_only=True)
class ControllerSide:
    """One node's controller and what the node does for it: its answers go to the router and the
    control link, and its registration to the active controller."""

    controller: Controller
    registration: ControllerRegistration
    detector: FailureDetector
    router: Router

    def on_leader_change(self, quorum: Quorum, now: Instant) -> None:
        """The quorum has another leader, or none."""
        leader_id, epoch = quorum.leader_id, quorum.epoch
        self.controller.on_leader_change(leader_id, epoch, quorum.epoch_start_offset, now)
        if leader_id >= 0:
            self.registration.on_controller_changed(now)

    def on_committed(
        self, committed: Sequence[CommittedMetadata], image: MetadataImage, now: Instant
    ) -> bool:
        """Follows the log, which `image` contains as far as this; returns whether that made this
        controller the active one. One that is not takes the image as it is."""
        if not self.controller.active:
            self.controller.on_image(image, now)
            return self.controller.active
        for each in committed:
            assert not isinstance(each, LoadedImage), "a snapshot for the active controller"
            self.controller.on_committed(each, now)
        return False

    def on_became_active(self, image: MetadataImage, now: Instant) -> None:
        """Fences brokers that are suspected, and has the others probed."""
        for node_id in image.brokers:
            if node_id != self.router.broker.config.node_id:
                self.detector.doubt(node_id, now)
        for node_id in self.detector.suspected:
            self.controller.on_broker_suspected(node_id, now)

    def wake(self, now: Instant) -> None:
        """Once a tick: the next slice of the controller's long decisions, and its timers."""
        steps = self.router.broker.trace.steps
        steps.begin("controller")
        goes_on, work = True, self.router.broker.replicas.work
        if self.controller.has_long:
            goes_on = work.lets(TickPart.DECISIONS)
            if goes_on:
                work.spend(_SLICE_WORK)
        self.controller.wake(now, goes_on=goes_on)
        steps.begin("tick")

    def flow(self, now: Instant) -> bool:
        """The controller's answers, then the call of the registration that is due."""
        controller, registration = self.controller, self.registration
        outputs = controller.take_outputs()
        for output in outputs:
            reply_to = output.reply_to
            if isinstance(reply_to, ControllerRequest):
                self.router.on_controller_reply(reply_to, output.response)
            else:
                assert isinstance(reply_to, Call | Forward), f"unknown reply_to {reply_to!r}"
                self.router.broker.control.on_controller_reply(reply_to, output.response, now)
        call = registration.next_call(now)
        if call is not None:
            self.router.broker.control.call(call, registration, now)
        return bool(outputs)

    def deadline(self) -> Instant | None:
        """When the controller or its registration has something to do."""
        return earliest(self.controller.deadline(), self.registration.deadline())

    def check(self) -> None:
        """The controller's invariants."""
        self.controller.check()
