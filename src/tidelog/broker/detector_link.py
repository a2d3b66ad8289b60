"""What the failure detector wants and finds, carried to `peers` and to those that act on it.

A probe is the watch connection to a peer. A suspicion starts an election where the suspect leads
the quorum, on the active controller it fences the suspect, and where this node leads partitions
that wait for the suspect, it proposes ISRs without it. A peer that is merely in doubt
changes nothing but the answers to clients, which then do not name it as a leader
(`Broker.unreachable`).
"""

from dataclasses import dataclass

from tidelog.broker.context import Broker
from tidelog.broker.events import PeerLostContact, PeerReached, PeerSuspected
from tidelog.broker.failure_detector import FailureDetector
from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.env.instant import Instant


@dataclass(slots=True, eq=False, kw_only=True)
class DetectorLink:
    """The failure detector, as a component of the node."""

    detector: FailureDetector
    peers: PeerChannels
    # Keeps the peers in doubt for its handlers; has the controller, on a node with one.
    broker: Broker

    def flow(self, now: Instant) -> bool:
        """Makes the probes that are due, and reports what has changed."""
        if self.detector.is_calm and not self.broker.unreachable:
            return False
        for node_id in self.detector.take_probes():
            self._probe(node_id)
        in_doubt = self.detector.in_doubt
        if self.broker.trace.measures:
            for node_id in sorted(in_doubt - self.broker.unreachable):
                self.broker.trace.event(PeerLostContact(node_id=node_id))
        self.broker.unreachable = in_doubt
        changes = self.detector.take_changes()
        for node_id, suspected in changes:
            if suspected:
                self._on_suspected(node_id, now)
            else:
                self._on_reached(node_id, now)
        if changes:
            self.broker.replicas.suspect(frozenset(self.detector.suspected), now)
        return bool(changes)

    def _probe(self, node_id: int) -> None:
        if not self.peers.knows(node_id, Purpose.PROBE):
            endpoint = self.broker.quorum.endpoint_of(node_id)
            if endpoint is None:
                self.detector.on_reached(node_id)
                return
            self.peers.set_address(node_id, Purpose.PROBE, endpoint)
        if self.peers.probe(node_id):
            self.detector.on_reached(node_id)

    def _on_suspected(self, node_id: int, now: Instant) -> None:
        self.broker.trace.event(PeerSuspected(node_id=node_id))
        self.broker.quorum.on_peer_suspected(node_id, now)
        if self.broker.controller is not None:
            self.broker.controller.on_broker_suspected(node_id, now)

    def _on_reached(self, node_id: int, now: Instant) -> None:
        self.broker.trace.event(PeerReached(node_id=node_id))
        if self.broker.controller is not None:
            self.broker.controller.on_broker_reachable(node_id, now)

    def deadline(self) -> Instant | None:
        """When the next probe is due."""
        return self.detector.deadline()

    def check(self) -> None:
        """SuspectedOnlyWhileRefused."""
        self.detector.check()
