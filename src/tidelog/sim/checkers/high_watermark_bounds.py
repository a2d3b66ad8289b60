"""HighWatermarkBounds (I7): a high watermark never passes what a member of the maximal ISR holds.

Looked at when a leader's high watermark moved, within a leadership and at its first sight where it
is above all that any leader had. Members are asked themselves, those that are proposed as well. Of
each that runs it is demanded:

- it has spoken to this leadership, in one of its epochs;
- its log reaches the high watermark, and has there the epoch that the leader's log has.

Left out are processes that began after the fetch on which the leader counts: after an unclean end
they may have lost what their predecessor reported; the controller took that one out of the ISR
when they registered, and the leader may not know of either yet. Whom the newest metadata has
in the ISR must hold the records all the same. Left out are also disks that a fault has damaged:
what was found bad there is fetched anew by the same process.
"""

from typing import NamedTuple

from tidelog.model import NO_EPOCH
from tidelog.replication.leader import LeaderState
from tidelog.replication.partition import Partition
from tidelog.sim.checkers.base import Evidence
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.oracle import PartitionId
from tidelog.sim.report.violation import Violation


class _Look(NamedTuple):
    """A leadership after some event."""

    leadership: LeaderState
    first_epoch: int
    """Of this leadership; a leader that is elected again keeps what it has received."""
    high_watermark: int


class HighWatermarkBounds:
    """Asks the members themselves."""

    name = "HighWatermarkBounds"

    def __init__(self) -> None:
        # The last look at each leader.
        self._seen: dict[Partition, _Look] = {}

    def on_leader(
        self, evidence: Evidence, host: Host, pid: PartitionId, partition: Partition
    ) -> None:
        """Compares a new high watermark with all who must hold it."""
        leadership = partition.leadership
        assert leadership is not None, f"{host.name} does not lead {pid}"
        last = self._seen.get(partition)
        if last is None or last.leadership is not leadership:
            last = _Look(leadership, partition.leader_epoch, evidence.oracle.highest(pid))
        high_watermark = partition.log.high_watermark
        self._seen[partition] = last._replace(high_watermark=high_watermark)
        if high_watermark <= last.high_watermark:
            return
        for node_id in leadership.maximal_isr:
            objection = _objection(evidence, pid, partition, last, node_id)
            if objection is not None:
                raise Violation(
                    self.name,
                    f"{host.name} commits {pid} to {high_watermark} in epoch "
                    f"{partition.leader_epoch}, node {node_id} of {leadership.maximal_isr} "
                    f"{objection}",
                )


def _objection(
    evidence: Evidence, pid: PartitionId, partition: Partition, last: _Look, node_id: int
) -> str | None:
    """What a member lacks."""
    remote = last.leadership.remotes.get(node_id)
    if remote is None:
        return None
    if remote.broker_epoch is None:
        return "has not spoken yet"
    host = evidence.world.hosts[node_id]
    member = _replica(host, pid)
    if member is None:
        return None
    log, high_watermark = partition.log, partition.log.high_watermark
    spoke_itself = _epoch_of(host) == remote.broker_epoch and not host.disk.was_damaged
    if spoke_itself and member.leader_epoch < last.first_epoch:
        return f"is in epoch {member.leader_epoch} still"
    if not spoke_itself and not _is_in_sync(evidence, host, pid):
        return None
    if member.log.log_end_offset < high_watermark:
        return f"ends at {member.log.log_end_offset}"
    mine, theirs = (one.epoch_at(high_watermark - 1) for one in (log, member.log))
    return None if mine == theirs else f"has epoch {theirs} there and not {mine}"


def _replica(host: Host, pid: PartitionId) -> Partition | None:
    if host.node is None:
        return None
    for key, one in host.node.broker.replicas.partitions.items():
        if one.topic_id == pid.topic_id and key.partition == pid.partition:
            return one if one.offline is None else None
    return None


def _epoch_of(host: Host) -> int:
    return NO_EPOCH if host.node is None else host.node.broker.replicas.broker_epoch


def _is_in_sync(evidence: Evidence, host: Host, pid: PartitionId) -> bool:
    """Whether the newest metadata knows this very process, and has it in the ISR."""
    image = evidence.newest_image
    broker, known = image.brokers.get(host.node_id), image.partition(pid.topic_id, pid.partition)
    return (
        broker is not None
        and broker.broker_epoch == _epoch_of(host)
        and known is not None
        and host.node_id in known.isr
    )
