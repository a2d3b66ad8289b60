"""OneLeaderPerEpoch (I9): a leader epoch of a partition has one leader."""

from tidelog.sim.checkers.base import Evidence, Violation
from tidelog.sim.host import Host
from tidelog.sim.oracle import PartitionId, partition_id


class OneLeaderPerEpoch:
    """Remembers who led when."""

    name = "OneLeaderPerEpoch"

    def __init__(self) -> None:
        self._leaders: dict[tuple[PartitionId, int], int] = {}

    def on_event(self, evidence: Evidence, host: Host) -> None:
        """Compares every leader with who led in its epoch before."""
        assert host.node is not None, f"{host.name} has no process"
        for partition in host.node.broker.replicas.partitions.values():
            if partition.leadership is None:
                continue
            key = (partition_id(partition), partition.leader_epoch)
            known = self._leaders.setdefault(key, host.node_id)
            if known != host.node_id:
                raise Violation(
                    self.name,
                    f"nodes {known} and {host.node_id} lead {key[0]} in epoch {key[1]}",
                )
