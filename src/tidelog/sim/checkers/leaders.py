"""Who leads, and what it commits: looked at after each event that began a leader's term, moved its
high watermark or changed its ISR."""

from typing import NamedTuple

from tidelog.model import NO_EPOCH
from tidelog.replication.leader import LeaderState
from tidelog.replication.partition import Partition
from tidelog.sim.checkers.base import Checker, Evidence, replica_on
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.oracle import PartitionId, cleaned_complaint, marks_of, may_be_cleaned


class LeaderCompleteness(Checker):
    """I2: who begins to lead holds all that was ever committed, batch for batch.

    A leader of an older epoch than one that is known already is not looked at: it is deposed and
    does not know it yet; what it may still do is bounded by `OneLeaderPerEpoch` and by the oracle.
    """

    def __init__(self) -> None:
        # The newest leader epoch that was looked at.
        self._seen: dict[PartitionId, int] = {}

    def on_leader(
        self, evidence: Evidence, host: Host, pid: PartitionId, partition: Partition
    ) -> None:
        if partition.leader_epoch <= self._seen.get(pid, -1):
            return
        self._seen[pid] = partition.leader_epoch
        true_log = evidence.oracle.logs.get(pid)
        if true_log is None or not host.all_sound:
            return
        log = partition.log
        who = f"{host.name} leads {pid} in epoch {partition.leader_epoch}"
        if log.log_end_offset < true_log.end_offset:
            self.reject(
                f"{who} with log end {log.log_end_offset}, "
                f"committed is everything below {true_log.end_offset}"
            )
        start, end = log.log_start_offset, true_log.end_offset
        held = marks_of(log, start, end)
        committed = [mark for mark in true_log.batches if mark.base_offset >= start]
        if held != committed and may_be_cleaned(log):
            wrong = cleaned_complaint(log, true_log, end, evidence.latest_wall_ms)
            if wrong is not None:
                self.reject(f"{who}: {wrong}")
            return
        for mine, true in zip(held, committed, strict=True):
            if mine != true:
                self.reject(f"{who} and holds {mine}, committed is {true}")


class OneLeaderPerEpoch(Checker):
    """I9: a leader epoch of a partition has one leader."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[PartitionId, int], int] = {}

    def on_leader(
        self, evidence: Evidence, host: Host, pid: PartitionId, partition: Partition
    ) -> None:
        key = (pid, partition.leader_epoch)
        known = self._leaders.setdefault(key, host.node_id)
        if known != host.node_id:
            self.reject(f"nodes {known} and {host.node_id} lead {pid} in epoch {key[1]}")


class _Look(NamedTuple):
    """A leadership after some event."""

    leadership: LeaderState
    first_epoch: int
    """Of this leadership; a leader that is elected again keeps what it has received."""
    high_watermark: int
    suffices: bool = True
    """Whether the committed ISR is large enough to advance."""


class HighWatermarkBounds(Checker):
    """I7: a high watermark never passes what a member of the maximal ISR holds.

    Looked at when a leader's high watermark moved, within a leadership and at its first sight where
    it is above all that any leader had. Members are asked themselves, those that are proposed as
    well. Of each that runs it is demanded:

    - it has spoken to this leadership, in one of its epochs;
    - its log reaches the high watermark, and has there the epoch that the leader's log has.

    Left out are processes that began after the fetch on which the leader counts: after an unclean
    end they may have lost what their predecessor reported; the controller took that one out of the
    ISR when they registered, and the leader may not know of either yet. Left out are replicas that
    a reassignment removed and another one brought back empty, of which a leader that is behind
    knows as little. Whom the newest metadata has in the ISR must hold the records all the same.
    Left out are also disks that a fault has damaged: what was found bad there is fetched anew by
    the same process.
    """

    def __init__(self) -> None:
        # The last look at each leader.
        self._seen: dict[Partition, _Look] = {}
        # Of each leader, the first replica that was seen on each node of its maximal ISR.
        self._members: dict[Partition, dict[int, Partition]] = {}

    def on_leader(
        self, evidence: Evidence, host: Host, pid: PartitionId, partition: Partition
    ) -> None:
        leadership = partition.leadership
        assert leadership is not None, f"{host.name} does not lead {pid}"
        last = self._seen.get(partition)
        if last is None or last.leadership is not leadership:
            last = _Look(leadership, partition.leader_epoch, evidence.oracle.highest(pid))
            self._members[partition] = _replicas_of(evidence, pid, leadership)
        high_watermark = partition.log.high_watermark
        self._seen[partition] = last._replace(high_watermark=high_watermark)
        if high_watermark <= last.high_watermark:
            return
        members = self._members[partition] = {
            **_replicas_of(evidence, pid, leadership),
            **self._members[partition],
        }
        for node_id in leadership.maximal_isr:
            objection = _objection(evidence, pid, partition, last, members.get(node_id), node_id)
            if objection is not None:
                self.reject(
                    f"{host.name} commits {pid} to {high_watermark} in epoch "
                    f"{partition.leader_epoch}, node {node_id} of {leadership.maximal_isr} "
                    f"{objection}"
                )


def _replicas_of(
    evidence: Evidence, pid: PartitionId, leadership: LeaderState
) -> dict[int, Partition]:
    """The replicas of the maximal ISR that are there, by node."""
    found = {
        node_id: replica_on(evidence.world.hosts[node_id], pid)
        for node_id in leadership.maximal_isr
    }
    return {node_id: replica for node_id, replica in found.items() if replica is not None}


def _objection(
    evidence: Evidence,
    pid: PartitionId,
    partition: Partition,
    last: _Look,
    first: Partition | None,
    node_id: int,
) -> str | None:
    """What a member lacks; `first` is the first replica that the leader had on this node."""
    remote = last.leadership.remotes.get(node_id)
    if remote is None:
        return None
    if remote.broker_epoch is None:
        return "has not spoken yet"
    host = evidence.world.hosts[node_id]
    member = replica_on(host, pid)
    if member is None:
        return None
    log, high_watermark = partition.log, partition.log.high_watermark
    spoke_itself = (
        _epoch_of(host) == remote.broker_epoch and member is first and not host.disk.was_damaged
    )
    if spoke_itself and member.leader_epoch < last.first_epoch:
        return f"is in epoch {member.leader_epoch} still"
    if not spoke_itself and not _is_in_sync(evidence, host, pid):
        return None
    if member.log.log_end_offset < high_watermark:
        return f"ends at {member.log.log_end_offset}"
    if high_watermark <= max(log.log_start_offset, member.log.log_start_offset):
        # The record below it is deleted; the other replica may have it still.
        return None
    mine, theirs = (one.epoch_at(high_watermark - 1) for one in (log, member.log))
    return None if mine == theirs else f"has epoch {theirs} there and not {mine}"


def _epoch_of(host: Host) -> int:
    return NO_EPOCH if host.node is None else host.node.broker.replicas.broker_epoch


def _is_in_sync(evidence: Evidence, host: Host, pid: PartitionId) -> bool:
    """Whether the newest metadata knows this very process, and has it in the ISR."""
    broker, known = evidence.newest_image.brokers.get(host.node_id), evidence.newest(pid)
    return (
        broker is not None
        and broker.broker_epoch == _epoch_of(host)
        and known is not None
        and host.node_id in known.isr
    )


class MinIsrGuard(Checker):
    """I8: no high watermark advances while the committed ISR is smaller than the min ISR.

    The committed ISR is the controller's. Where the newest metadata is of the partition epoch that
    the leader has, it is read there; a leader that is ahead, by an answer, or behind is taken at
    its word. A proposed member does not count: only the controller's consent makes it one that must
    be elected before a replica that lacks what is committed.

    Looked at within each leadership, and at its first sight where its high watermark is above all
    that any leader had: then it advanced in this very event. One event may both advance and change
    the ISR, so it is enough that the ISR sufficed before or after.
    """

    def __init__(self) -> None:
        # The last look at each leader.
        self._seen: dict[Partition, _Look] = {}

    def on_leader(
        self, evidence: Evidence, host: Host, pid: PartitionId, partition: Partition
    ) -> None:
        leadership = partition.leadership
        assert leadership is not None, f"{host.name} does not lead {pid}"
        isr, min_isr = leadership.isr, leadership.min_isr
        newest = evidence.newest(pid)
        epochs = (partition.leader_epoch, partition.partition_epoch)
        if newest is not None and (newest.leader_epoch, newest.partition_epoch) == epochs:
            isr = newest.isr
        high_watermark = partition.log.high_watermark
        look = _Look(leadership, partition.leader_epoch, high_watermark, len(isr) >= min_isr)
        last = self._seen.get(partition)
        self._seen[partition] = look
        if last is None or last.leadership is not leadership:
            last = look._replace(high_watermark=evidence.oracle.highest(pid))
        if high_watermark > last.high_watermark and not (last.suffices or look.suffices):
            self.reject(
                f"{host.name} commits {pid} from {last.high_watermark} to {high_watermark}, "
                f"in sync are {isr}, the min ISR is {min_isr}"
            )
