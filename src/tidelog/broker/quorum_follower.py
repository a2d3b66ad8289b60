"""The quorum as a component of the node: its messages, its leader and what it has committed.

The components that call the active controller get the leader of the quorum. A leader without a
known endpoint counts as none: this node's own disk names it, but the set of voters does not any
more. Nothing can be sent to it until another node reports its endpoint.
"""

from tidelog.broker.control_link import ControlLink
from tidelog.broker.controller_side import ControllerSide
from tidelog.broker.lifecycle import BrokerLifecycle
from tidelog.broker.metadata_loader import MetadataLoader
from tidelog.broker.quorum_link import QuorumLink
from tidelog.env.instant import Instant
from tidelog.kraft.quorum import Quorum
from tidelog.model import NO_LEADER


class QuorumFollower:
    """Drives the quorum, and follows it."""

    def __init__(
        self,
        quorum: Quorum,
        quorum_link: QuorumLink,
        loader: MetadataLoader,
        *,
        node_id: int,
        control: ControlLink,
        controller_side: ControllerSide | None,
        lifecycle: BrokerLifecycle | None,
    ) -> None:
        self._quorum = quorum
        self._quorum_link = quorum_link
        self._loader = loader
        self._node_id = node_id
        self._control = control
        # None on a node that is only a broker.
        self._controller_side = controller_side
        # None on a node that is only a controller.
        self._lifecycle = lifecycle
        # The leader and epoch that the components were last given; None before the first.
        self._published_leader: tuple[int, int] | None = None
        # `Quorum.turn_count` when the quorum was last looked at; it grows with every change.
        self._turns_seen = -1

    def flow(self, now: Instant) -> bool:
        """Due timers; then messages, leader and committed metadata, if anything has changed."""
        self._quorum.wake(now)
        if self._quorum.turn_count == self._turns_seen:
            return False
        self._turns_seen = self._quorum.turn_count
        moved = self._quorum_link.flow(now)
        moved |= self._publish_leader(now)
        moved |= self._loader.load(now)
        return moved

    def _publish_leader(self, now: Instant) -> bool:
        leader_id, epoch = self._quorum.leader_id, self._quorum.epoch
        if (leader_id, epoch) == self._published_leader:
            return False
        endpoint = self._quorum.endpoint_of(leader_id)
        if endpoint is None:
            leader_id = NO_LEADER
            if (leader_id, epoch) == self._published_leader:
                return False
        elif leader_id != self._node_id:
            self._quorum_link.set_address(leader_id, endpoint)
        self._published_leader = (leader_id, epoch)
        self._control.leader_id = leader_id
        if self._controller_side is not None:
            self._controller_side.on_leader_change(self._quorum, now)
        if self._lifecycle is not None and leader_id >= 0:
            self._lifecycle.on_controller_changed(now)
        return True

    def deadline(self) -> Instant | None:
        """When the quorum has something to do."""
        return self._quorum.deadline()

    def check(self) -> None:
        """The quorum's invariants, and that the metadata follows its log."""
        self._quorum.check()
        self._loader.check()
