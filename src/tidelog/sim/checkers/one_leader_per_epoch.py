"""OneLeaderPerEpoch (I9): a leader epoch of a partition has one leader."""

from tidelog.replication.partition import Partition
from tidelog.sim.checkers.base import Evidence
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.oracle import PartitionId
from tidelog.sim.report.violation import Violation


class OneLeaderPerEpoch:
    """Remembers who led when."""

    name = "OneLeaderPerEpoch"

    def __init__(self) -> None:
        self._leaders: dict[tuple[PartitionId, int], int] = {}

    def on_leader(
        self, evidence: Evidence, host: Host, pid: PartitionId, partition: Partition
    ) -> None:
        """Compares every leader with who led in its epoch before."""
        key = (pid, partition.leader_epoch)
        known = self._leaders.setdefault(key, host.node_id)
        if known != host.node_id:
            raise Violation(
                self.name, f"nodes {known} and {host.node_id} lead {pid} in epoch {key[1]}"
            )
