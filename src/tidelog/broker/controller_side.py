"""What makes a node a controller: the metadata state machine, its leadership, its registration.

The state machine of every controller follows the log; the one on the quorum's leader decides. When
it becomes active it has no sessions of brokers. It fences brokers that are suspected already at
once, and probes all others.
"""

from collections.abc import Sequence

from tidelog.broker.control_link import Call, Forward
from tidelog.broker.controller_registration import ControllerRegistration
from tidelog.broker.failure_detector import FailureDetector
from tidelog.broker.metadata_log import MetadataLog
from tidelog.broker.metadata_snapshots import CommittedMetadata, LoadedImage
from tidelog.broker.router import ControllerRequest, Router
from tidelog.config import NodeConfig
from tidelog.controller.controller import Controller
from tidelog.env.instant import Instant, earliest
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.kraft.quorum import Quorum
from tidelog.metadata.image import MetadataImage
from tidelog.model import Uuid


class ControllerSide:
    """One node's controller and what the node does for it."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        cluster_id: str,
        log: MetadataLog,
        detector: FailureDetector,
        prng: Prng,
        trace: Trace,
    ) -> None:
        self._node_id = config.node_id
        self._detector = detector
        self.controller = Controller(
            node_id=config.node_id,
            cluster_id=cluster_id,
            config=config.controller,
            log=log,
            prng=Prng(prng.next_u64()),
            trace=trace,
            quorum=log,
        )
        self.registration = ControllerRegistration(config, Uuid(prng.uuid()), trace)

    def on_leader_change(self, quorum: Quorum, now: Instant) -> None:
        """The quorum has another leader, or none."""
        leader_id, epoch = quorum.leader_id, quorum.epoch
        self.controller.on_leader_change(leader_id, epoch, quorum.epoch_start_offset, now)
        if leader_id >= 0:
            self.registration.on_controller_changed(now)

    def on_committed(self, committed: Sequence[CommittedMetadata], now: Instant) -> bool:
        """Follows the log; returns whether that made this controller the active one."""
        was_active = self.controller.active
        for each in committed:
            if isinstance(each, LoadedImage):
                self.controller.on_snapshot(each.image)
            else:
                self.controller.on_committed(each, now)
        return self.controller.active and not was_active

    def on_became_active(self, image: MetadataImage, now: Instant) -> None:
        """Fences brokers that are suspected, and has the others probed."""
        for node_id in image.brokers:
            if node_id != self._node_id:
                self._detector.doubt(node_id, now)
        for node_id in self._detector.suspected:
            self.controller.on_broker_suspected(node_id, now)


class ControllerFlow:
    """The controller side as a component of the node: carries the controller's answers to the
    router and the control link, and its registration to the active controller."""

    def __init__(self, side: ControllerSide, router: Router) -> None:
        self._side = side
        self._router = router
        self._control = router.broker.control

    def flow(self, now: Instant) -> bool:
        """Due timers and answers, then the call of the registration that is due."""
        controller, registration = self._side.controller, self._side.registration
        controller.wake(now)
        outputs = controller.take_outputs()
        for output in outputs:
            reply_to = output.reply_to
            if isinstance(reply_to, ControllerRequest):
                self._router.on_controller_reply(reply_to, output.response)
            else:
                assert isinstance(reply_to, Call | Forward), f"unknown reply_to {reply_to!r}"
                self._control.on_controller_reply(reply_to, output.response, now)
        call = registration.next_call(now)
        if call is not None:
            self._control.call(call, registration, now)
        return bool(outputs)

    def deadline(self) -> Instant | None:
        """When the controller or its registration has something to do."""
        return earliest(self._side.controller.deadline(), self._side.registration.deadline())

    def check(self) -> None:
        """The controller's invariants."""
        self._side.controller.check()
