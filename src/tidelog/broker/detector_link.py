"""What the failure detector wants and finds, carried to `peers`, the quorum and the controller.

A probe is the watch connection to a peer. A suspicion starts an election where the suspect leads
the quorum, and on the active controller it fences the suspect. A peer that is merely in doubt
changes nothing but the answers to clients, which then do not name it as a leader
(`Broker.unreachable`).
"""

from tidelog.broker.context import Broker
from tidelog.broker.events import PeerLostContact, PeerReached, PeerSuspected
from tidelog.broker.failure_detector import FailureDetector
from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.kraft.quorum import Quorum


class DetectorLink:
    """The failure detector, as a component of the node."""

    def __init__(
        self,
        detector: FailureDetector,
        peers: PeerChannels,
        broker: Broker,
        quorum: Quorum,
        trace: Trace,
    ) -> None:
        self._detector = detector
        self._peers = peers
        # Keeps the peers in doubt for its handlers; has the controller, on a node with one.
        self._broker = broker
        self._quorum = quorum
        self._trace = trace

    def flow(self, now: Instant) -> bool:
        """Makes the probes that are due, and reports what has changed."""
        if self._detector.is_calm and not self._broker.unreachable:
            return False
        for node_id in self._detector.take_probes():
            self._probe(node_id)
        in_doubt = self._detector.in_doubt
        if self._trace.measures:
            for node_id in sorted(in_doubt - self._broker.unreachable):
                self._trace.event(PeerLostContact(node_id=node_id))
        self._broker.unreachable = in_doubt
        changes = self._detector.take_changes()
        for node_id, suspected in changes:
            if suspected:
                self._on_suspected(node_id, now)
            else:
                self._on_reached(node_id, now)
        return bool(changes)

    def _probe(self, node_id: int) -> None:
        if not self._peers.knows(node_id, Purpose.PROBE):
            endpoint = self._quorum.endpoint_of(node_id)
            if endpoint is None:
                self._detector.on_reached(node_id)
                return
            self._peers.set_address(node_id, Purpose.PROBE, endpoint.host, endpoint.port)
        if self._peers.probe(node_id):
            self._detector.on_reached(node_id)

    def _on_suspected(self, node_id: int, now: Instant) -> None:
        self._trace.event(PeerSuspected(node_id=node_id))
        self._quorum.on_peer_suspected(node_id, now)
        if self._broker.controller is not None:
            self._broker.controller.on_broker_suspected(node_id, now)

    def _on_reached(self, node_id: int, now: Instant) -> None:
        self._trace.event(PeerReached(node_id=node_id))
        if self._broker.controller is not None:
            self._broker.controller.on_broker_reachable(node_id, now)

    def deadline(self) -> Instant | None:
        """When the next probe is due."""
        return self._detector.deadline()

    def check(self) -> None:
        """SuspectedOnlyWhileRefused."""
        self._detector.check()
