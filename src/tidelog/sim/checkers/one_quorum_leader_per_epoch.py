"""OneQuorumLeaderPerEpoch (I17): a quorum epoch has one leader, on whole nodes too."""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.report.violation import Violation


class OneQuorumLeaderPerEpoch:
    """Remembers who led when."""

    name = "OneQuorumLeaderPerEpoch"

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}

    def sweep(self, evidence: Evidence) -> None:
        """Looks at all nodes."""
        for node_id, host in evidence.world.hosts.items():
            if host.node is None or not host.node.broker.quorum.is_leader:
                continue
            epoch = host.node.broker.quorum.epoch
            known = self._leaders.setdefault(epoch, node_id)
            if known != node_id:
                raise Violation(self.name, f"{known} and {node_id} lead in epoch {epoch}")
