"""HighWatermarkBounds (I7): a high watermark never passes the log end of a member of the maximal
ISR.

Looked at when a leader's high watermark moved, for members whose process is the one that the
metadata knows, and who still are in the ISR there. A process that began after an unclean end may
have lost what its predecessor reported; the controller took it out of the ISR when it registered,
and the leader, which counts on the report, may not have heard of either yet.
"""

from tidelog.replication.partition import Partition
from tidelog.sim.checkers.base import Evidence, Violation
from tidelog.sim.host import Host
from tidelog.sim.oracle import PartitionId


class HighWatermarkBounds:
    """Asks the members themselves."""

    name = "HighWatermarkBounds"

    def __init__(self) -> None:
        # What was looked at last, by leader.
        self._seen: dict[Partition, tuple[int, int]] = {}

    def on_leader(
        self, evidence: Evidence, host: Host, pid: PartitionId, partition: Partition
    ) -> None:
        """Compares a new high watermark with all who must hold it."""
        leadership = partition.leadership
        assert leadership is not None, f"{host.name} does not lead {pid}"
        high_watermark = partition.log.high_watermark
        epoch, before = self._seen.get(partition, (-1, 0))
        self._seen[partition] = (partition.leader_epoch, high_watermark)
        if epoch != partition.leader_epoch or high_watermark <= before:
            return
        for node_id in leadership.maximal_isr:
            member = _replica(evidence, node_id, pid)
            if member is not None and member.log.log_end_offset < high_watermark:
                raise Violation(
                    self.name,
                    f"{host.name} commits {pid} to {high_watermark}, node {node_id} of "
                    f"{leadership.maximal_isr} ends at {member.log.log_end_offset}",
                )


def _replica(evidence: Evidence, node_id: int, pid: PartitionId) -> Partition | None:
    host = evidence.world.hosts[node_id]
    broker = evidence.newest_image.brokers.get(node_id)
    if host.node is None or broker is None:
        return None
    replicas = host.node.broker.replicas
    known = evidence.newest_image.partition(pid.topic_id, pid.partition)
    if replicas.broker_epoch != broker.broker_epoch or known is None or node_id not in known.isr:
        return None
    for key, one in replicas.partitions.items():
        if one.topic_id == pid.topic_id and key.partition == pid.partition:
            return one if one.offline is None else None
    return None
