"""Answers of other nodes, carried to the component that sent the request.

`peers` knows channels and tokens; the purpose of a channel identifies the component. A response
that does not parse counts as no response. The failure detector gets each connect that succeeds or
fails, except those to bootstrap servers: that is an address, and it is not known which node has it.
"""

from dataclasses import dataclass

from tidelog.broker.control_link import ControlLink
from tidelog.broker.events import AnswerIgnored, OwnLoginRefused
from tidelog.broker.failure_detector import FailureDetector
from tidelog.broker.links import Links
from tidelog.broker.peers import (
    Answered,
    Failed,
    PeerChannels,
    PeerLost,
    PeerReached,
    PeerRefusedLogin,
    Purpose,
)
from tidelog.env.effects import CloseReason
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import MalformedFrame


@dataclass(slots=True, eq=False, kw_only=True)
class PeerAnswers:
    """The outputs of `peers`, as a component of the node."""

    node_id: int
    peers: PeerChannels
    detector: FailureDetector
    links: Links
    control: ControlLink
    trace: Trace

    def flow(self, now: Instant) -> bool:
        """Carries all outputs. The node also calls it behind each input, because response frames
        are views of the driver's buffer."""
        if not self.peers.has_outputs:
            return False
        for output in self.peers.take_outputs():
            match output:
                case Answered(peer_id, purpose, token, frame):
                    self._on_answered(peer_id, purpose, token, frame, now)
                case Failed(peer_id, purpose, token, reason):
                    self._on_failed(peer_id, purpose, token, now, reason)
                case PeerReached(peer_id) if peer_id >= 0 and peer_id != self.node_id:
                    self.detector.on_reached(peer_id)
                case PeerLost(peer_id, reason) if peer_id >= 0 and peer_id != self.node_id:
                    self.detector.on_connection_lost(peer_id, reason, now)
                case PeerRefusedLogin(peer_id, listener, reason):
                    self.trace.event(
                        OwnLoginRefused(peer_id=peer_id, listener=listener, reason=reason)
                    )
                case PeerReached() | PeerLost():
                    pass  # A bootstrap server, or this node itself.
        return True

    def _on_answered(
        self, peer_id: int, purpose: Purpose, token: object, frame: memoryview | bytes, now: Instant
    ) -> None:
        try:
            match purpose:
                case Purpose.QUORUM_FETCH | Purpose.QUORUM_RPC:
                    self.trace.steps.name = "quorum's answer"
                    self.links.quorum.on_answered(peer_id, token, frame, now)
                case Purpose.REPLICA_FETCH:
                    self.trace.steps.name = "fetch answer"
                    self.links.replicas.on_answered(token, frame, now)
                case Purpose.MARKERS:
                    self.trace.steps.name = "markers' answer"
                    self.links.markers.on_answered(token, frame, now)
                case Purpose.TRANSACTION_CHECK:
                    self.trace.steps.name = "coordinator's answer"
                    self.links.transaction_checks.on_answered(token, frame, now)
                case Purpose.SHARE_GROUPS:
                    self.trace.steps.name = "share coordinator's answer"
                    self.links.share_states.on_answered(token, frame, now)
                case Purpose.SHARE_STATE:
                    self.trace.steps.name = "share coordinator's answer"
                    self.links.share_persister.on_answered(token, frame, now)
                case _:
                    self.trace.steps.name = "controller's answer"
                    self.control.on_answered(token, frame, now)
        except MalformedFrame as fault:
            self.trace.event(AnswerIgnored(peer_id=peer_id, reason=fault.message))
            self._on_failed(peer_id, purpose, token, now)

    def _on_failed(
        self,
        peer_id: int,
        purpose: Purpose,
        token: object,
        now: Instant,
        reason: CloseReason | None = None,
    ) -> None:
        match purpose:
            case Purpose.QUORUM_FETCH | Purpose.QUORUM_RPC:
                self.links.quorum.on_failed(peer_id, token, now, reason)
            case Purpose.REPLICA_FETCH:
                self.links.replicas.on_failed(token, now)
            case Purpose.MARKERS:
                self.links.markers.on_failed(token, now)
            case Purpose.TRANSACTION_CHECK:
                self.links.transaction_checks.on_failed(token, now)
            case Purpose.SHARE_GROUPS:
                self.links.share_states.on_failed(token, now)
            case Purpose.SHARE_STATE:
                self.links.share_persister.on_failed(token, now)
            case _:
                self.control.on_failed(token, now)

    def deadline(self) -> Instant | None:
        """When a request times out."""
        return self.peers.deadline()

    def check(self) -> None:
        """The invariants of the channels."""
        self.peers.check()
