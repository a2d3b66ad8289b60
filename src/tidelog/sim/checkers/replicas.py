"""Logs and high watermarks of the nodes that run: looked at every so often, some at the end.

What is committed is what the oracle saw: the true log of each partition.
"""

from collections.abc import Iterator

from tidelog.errors import CorruptBatch, LogDamaged, ProtocolError, StorageError
from tidelog.log.log import Log
from tidelog.model import TopicPartition
from tidelog.replication.partition import Partition
from tidelog.sim.checkers.base import Checker, Evidence, replica_on
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.history import Kind, Outcome
from tidelog.sim.evidence.oracle import (
    BatchMark,
    PartitionId,
    TrueLog,
    cleaned_complaint,
    marks_of,
    may_be_cleaned,
    partition_id,
)


class CandidateCompleteness(Checker):
    """I3: who may be elected holds all that is committed, by its log end and by the epoch of the
    last committed batch.

    A candidate is a running member of the ISR or of the eligible leader replicas according to the
    newest committed metadata, whose process has registered (before that it may hold less and is
    taken out of both by its registration, if its end was unclean).
    """

    def sweep(self, evidence: Evidence) -> None:
        image = evidence.newest_image
        for topic in image.topics_by_name.values():
            for number, partition in topic.partitions.items():
                pid = PartitionId(topic.topic_id, topic.name, number)
                if pid not in evidence.oracle.logs:
                    continue
                for node_id in (*partition.isr, *partition.eligible_leaders):
                    host = evidence.world.hosts[node_id]
                    broker = image.brokers.get(node_id)
                    if (
                        host.node is not None
                        and broker is not None
                        and host.node.broker.replicas.broker_epoch == broker.broker_epoch
                    ):
                        self._check(evidence, host, pid)

    def _check(self, evidence: Evidence, host: Host, pid: PartitionId) -> None:
        replica, true_log = replica_on(host, pid), evidence.oracle.logs[pid]
        if replica is None or not true_log.batches:
            return
        log, last = replica.log, true_log.batches[-1]
        held = log.epoch_at(last.base_offset)
        is_gone = last.base_offset < log.log_start_offset
        if log.log_end_offset < true_log.end_offset or not (is_gone or held == last.leader_epoch):
            self.reject(
                f"{host.name} may be elected for {pid} with log end {log.log_end_offset} and "
                f"epoch {held} at {last.base_offset}; committed is everything below "
                f"{true_log.end_offset}, there with epoch {last.leader_epoch}"
            )


class AcknowledgedIsCommitted(Checker):
    """I4: what acks=all acknowledged is below the true high watermark.

    An acknowledgement that reaches a client may only speak of offsets that some leader had
    committed before. Each look goes through the operations that are new since the last one.
    """

    def __init__(self) -> None:
        self._looked_at = 0

    def sweep(self, evidence: Evidence) -> None:
        ends = {str(pid): log.end_offset for pid, log in evidence.oracle.logs.items()}
        ops = evidence.history.ops
        for op in ops[self._looked_at :]:
            if op.kind is not Kind.SEND or op.outcome is not Outcome.OK:
                continue
            for key, offset, value in op.sent:
                end = ends.get(str(key), 0)
                if offset >= end:
                    self.reject(
                        f"{op.process} got `{value}` acknowledged at {key} {offset}, committed is "
                        f"everything below {end}"
                    )
        self._looked_at = len(ops)


class TrueHighWatermarkMonotonic(Checker):
    """I1: what is committed stays committed.

    The oracle only ever adds. This looks at it from outside, so that a mistake in the oracle itself
    is noticed too.
    """

    def __init__(self) -> None:
        # The number of batches of each true log, and the last of them.
        self._seen: dict[PartitionId, tuple[int, BatchMark]] = {}

    def sweep(self, evidence: Evidence) -> None:
        for pid, log in evidence.oracle.logs.items():
            if not log.batches:
                continue
            newest = log.batches[-1]
            count, last = self._seen.get(pid, (1, log.batches[0]))
            if len(log.batches) < count or log.batches[count - 1] != last:
                self.reject(f"{pid}: {last} was committed, and is no more")
            if log.end_offset != newest.last_offset + 1:
                self.reject(f"{pid}: committed to {log.end_offset}, known {newest}")
            self._seen[pid] = (len(log.batches), newest)


class LogMatching(Checker):
    """I5: below its own high watermark every replica holds what is committed.

    Two replicas agree below the smaller of their high watermarks because both agree with the true
    log. Each batch of each replica is read once; a new process is read again, its files were
    reopened. A batch that cannot be read is a mismatch too, unless a fault damaged this disk.
    """

    def __init__(self) -> None:
        # How far each replica of each process was compared.
        self._compared: dict[Partition, int] = {}

    def sweep(self, evidence: Evidence) -> None:
        live: dict[Partition, int] = {}
        for host, partition in evidence.replicas():
            true_log = evidence.oracle.logs.get(partition_id(partition))
            if true_log is not None and partition.offline is None and host.all_well:
                live[partition] = self._compare(evidence, host, partition, true_log)
        self._compared = live

    def _compare(
        self, evidence: Evidence, host: Host, partition: Partition, true_log: TrueLog
    ) -> int:
        log, pid = partition.log, partition_id(partition)
        start = max(self._compared.get(partition, 0), log.log_start_offset)
        end = min(log.high_watermark, true_log.end_offset)
        if end <= start:
            return start
        try:
            held = [mark for mark in marks_of(log, start, end) if mark.last_offset < end]
            known = {mark.base_offset: mark for mark in true_log.from_offset(start)}
            wrong = [mark for mark in held if known.get(mark.base_offset) != mark]
            if log.cleaned_to >= 0 or (wrong and may_be_cleaned(log)):
                complaint = cleaned_complaint(log, true_log, end, evidence.latest_wall_ms)
                if complaint is not None:
                    self.reject(f"{host.name} {pid}: {complaint}")
                return end
        except (StorageError, ProtocolError, CorruptBatch) as error:
            if host.disk.damaged:
                return start
            self.reject(f"{host.name} cannot read {start} to {end} of {pid}: {error}")
        for mark in wrong:
            self.reject(
                f"{host.name} holds {mark} of {pid} below its high watermark "
                f"{log.high_watermark}, committed is {known.get(mark.base_offset)}"
            )
        return held[-1].last_offset + 1 if held else start


class CommittedNeverTruncated(Checker):
    """I13: a replica never cuts below a high watermark that it has known.

    Within one life of a replica: a new process may know less, and what it then may do is the matter
    of `LeaderCompleteness`. Nor is anything lost by a replica that has come back after its leader
    deleted all that it has: it cuts its log a few segments a turn, and begins anew where the
    leader's log begins.
    """

    def __init__(self) -> None:
        # The highest high watermark of each replica.
        self._known: dict[Partition, int] = {}
        # Where the logs of leaders have begun; what was below is deleted.
        self._starts: dict[PartitionId, int] = {}

    def sweep(self, evidence: Evidence) -> None:
        live: dict[Partition, int] = {}
        for _, partition in evidence.replicas():
            if partition.leadership is not None and partition.offline is None:
                pid, start = partition_id(partition), partition.log.log_start_offset
                self._starts[pid] = max(start, self._starts.get(pid, 0))
        for host, partition in evidence.replicas():
            if partition.offline is not None:
                continue
            log, known = partition.log, self._known.get(partition, 0)
            deleted_to = self._starts.get(partition_id(partition), 0)
            if log.log_end_offset < known and deleted_to < known:
                self.reject(
                    f"{host.name} {partition_id(partition)} ends at {log.log_end_offset}, "
                    f"its high watermark was {known}"
                )
            live[partition] = max(known, log.high_watermark)
        self._known = live


class LateReplicasWait(Checker):
    """A replica follows what its node has published, or waits for its turn.

    Looked at from outside, and once more at the end: then no node has a replica too many or lacks
    one, and all of them are of the topics that there are.
    """

    def sweep(self, evidence: Evidence) -> None:
        for host in evidence.world.hosts.values():
            node = host.node
            if node is None or node.broker.replicas.is_behind:
                continue
            for key, partition in node.broker.replicas.partitions.items():
                placed = node.broker.image.partition(partition.topic_id, key.partition)
                if placed is None or host.node_id not in placed.replicas:
                    self.reject(f"{host.name} has {key}, and the metadata has no replica there")
                if partition.offline is None and partition.leader_epoch != placed.leader_epoch:
                    self.reject(
                        f"{host.name} {key} is in leader epoch {partition.leader_epoch} and does "
                        f"not wait; published is {placed.leader_epoch}"
                    )

    def at_end(self, evidence: Evidence) -> None:
        for host in evidence.world.hosts.values():
            node = host.node
            if node is None or not host.all_well:
                continue
            replicas, image = node.broker.replicas, node.broker.image
            if replicas.is_behind:
                self.reject(f"{host.name} still has replicas that wait")
            here = {*replicas.partitions, *replicas.damaged}
            for topic in image.topics_by_name.values():
                for number, partition in topic.partitions.items():
                    key = TopicPartition(topic.name, number)
                    if host.node_id in partition.replicas and key not in here:
                        self.reject(f"{host.name} lacks {key}")


class MaximalIsrSuperset(Checker):
    """I6: a leader waits for everybody who may be elected while it commits.

    The maximal ISR of a leader in the newest epoch contains the ISR of the newest committed
    metadata; and its ELR too, while the leader may commit. Below the min ISR it may not, and waits
    for no replica in the ELR: they have all that was ever committed, and nothing is added
    (KIP-966). Once its ISR suffices again the controller has forgotten the ELR, in the record that
    made it so.

    A leader that is ahead of the newest metadata, by an answer, is held to the ISR alone. (A leader
    of an older epoch commits nothing that counts: no replica fetches from it.)
    """

    def sweep(self, evidence: Evidence) -> None:
        for host, partition in evidence.replicas():
            leadership, pid = partition.leadership, partition_id(partition)
            newest = evidence.newest(pid)
            if leadership is None or newest is None:
                continue
            if (newest.leader, newest.leader_epoch) != (host.node_id, partition.leader_epoch):
                continue
            wanted = newest.isr
            may_commit = len(leadership.isr) >= leadership.min_isr
            if may_commit and newest.partition_epoch >= partition.partition_epoch:
                wanted += newest.eligible_leaders
            if not set(wanted) <= set(leadership.maximal_isr):
                self.reject(
                    f"{host.name} leads {pid} in epoch {partition.leader_epoch} and waits for "
                    f"{leadership.maximal_isr}, in sync are {newest.isr}, eligible "
                    f"{newest.eligible_leaders}"
                )


class OffsetsInOrder(Checker):
    """I12: log start <= last stable offset <= high watermark <= log end."""

    def sweep(self, evidence: Evidence) -> None:
        for host, partition in evidence.replicas():
            log = partition.log
            inner = (log.last_stable_offset, log.high_watermark)
            offsets = (log.log_start_offset, *inner, log.log_end_offset)
            if list(offsets) != sorted(offsets):
                self.reject(f"{host.name} {partition_id(partition)}: {offsets}")


class OneQuorumLeaderPerEpoch(Checker):
    """I17: a quorum epoch has one leader, on whole nodes too."""

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}

    def sweep(self, evidence: Evidence) -> None:
        for node_id, host in evidence.world.hosts.items():
            if host.node is None or not host.node.broker.quorum.is_leader:
                continue
            epoch = host.node.broker.quorum.epoch
            known = self._leaders.setdefault(epoch, node_id)
            if known != node_id:
                self.reject(f"{known} and {node_id} lead in epoch {epoch}")


class NoFalseDamage(Checker):
    """A log is found damaged only on a disk that was.

    Crashes, power cuts and truncations at any time leave logs that the next process takes for
    sound: only then does a log that is called damaged mean something, and no replica is given up
    for nothing.
    """

    def sweep(self, evidence: Evidence) -> None:
        for host in evidence.world.hosts.values():
            if host.node is None or host.disk.was_damaged:
                continue
            damaged = [str(key) for key in host.node.broker.replicas.damaged]
            if damaged:
                self.reject(f"{host.name}: {', '.join(damaged)}")


class NoFalseLoss(Checker):
    """A replica is reported as lost only by a node of which a disk failed, was damaged or wiped.

    Power cuts and kills at any time leave each log in a place in which the next process finds it:
    what a move between disks had made durable is there under the one name or the other. A replica
    that is lost takes its node out of ISR and ELR, so other nodes hide such a loss.
    """

    def __init__(self) -> None:
        # The disks that each node had first; a wiped one has others.
        self._first: dict[int, tuple[SimDisk, ...]] = {}

    def sweep(self, evidence: Evidence) -> None:
        lost = [
            (topic.name, number, replica)
            for topic in evidence.newest_image.topics_by_name.values()
            for number, partition in topic.partitions.items()
            for replica in partition.replicas
            if partition.has_lost(replica)
        ]
        for host in evidence.world.hosts.values():
            self._first.setdefault(host.node_id, host.disks)
        for topic_name, number, replica in lost:
            host = evidence.world.hosts[replica]
            if self._first[replica] == host.disks and not any(map(_has_failed, host.disks)):
                self.reject(f"{host.name}: {topic_name}-{number} is reported as lost")


def _has_failed(disk: SimDisk) -> bool:
    return disk.was_damaged or disk.was_hurt


# At the end ------------------------------------------------------------------------------------


def waits_for_a_read(host: Host, log: Log) -> bool:
    """Whether a fault damaged something in this log that is not read yet, and that a read would
    find: so far P4 promises."""
    if not host.disk.was_damaged:
        return False
    try:
        log.verify()
    except LogDamaged:
        return True
    return False


def _whole_logs(evidence: Evidence) -> Iterator[tuple[Host, Partition, list[BatchMark]]]:
    """Every replica of every node, with all its batches, but for those that wait for a read."""
    for host in evidence.world.hosts.values():
        assert host.node is not None, f"{host.name} is down at the end"
        for partition in host.node.broker.replicas.partitions.values():
            log = partition.log
            if not waits_for_a_read(host, log):
                yield host, partition, marks_of(log, log.log_start_offset, log.log_end_offset)


class EpochCacheMatchesBatches(Checker):
    """I13: what the leader epoch cache says of an offset is what the batch there says, and epochs
    never fall along a log."""

    def at_end(self, evidence: Evidence) -> None:
        for host, partition, marks in _whole_logs(evidence):
            last = 0
            for mark in marks:
                said = partition.log.epoch_at(mark.base_offset)
                if said != mark.leader_epoch or mark.leader_epoch < last:
                    self.reject(
                        f"{host.name} {partition_id(partition)}: {mark} after epoch {last}, "
                        f"the cache says {said}"
                    )
                last = mark.leader_epoch


class ReplicasEqual(Checker):
    """V4: once healed, all replicas of a partition hold the same batches, to the end.

    With full ISRs and nothing under way, the high watermark is the log end everywhere, so equality
    below it is equality of the logs; and all of them hold what the oracle saw committed. Where a
    cleaner may have been, what the batches say counts and not their bytes.
    """

    def at_end(self, evidence: Evidence) -> None:
        # The replica of each partition that the others are compared with, and its log start.
        first: dict[PartitionId, tuple[str, int, list[BatchMark]]] = {}
        for host, partition, marks in _whole_logs(evidence):
            pid = partition_id(partition)
            true_log = evidence.oracle.logs.get(pid, TrueLog())
            if may_be_cleaned(partition.log):
                self._check_cleaned(evidence, host, partition.log, true_log)
                continue
            log_start = partition.log.log_start_offset
            name, other_start, others = first.setdefault(pid, (host.name, log_start, marks))
            start = max(log_start, other_start)
            marks, others, committed = (
                [mark for mark in each if mark.base_offset >= start]
                for each in (marks, others, true_log.batches)
            )
            if marks != others:
                self.reject(f"{pid}: {_difference(name, others, host.name, marks)}")
            if marks[: len(committed)] != committed:
                differ = _difference("what is committed", committed, host.name, marks)
                self.reject(f"{pid}: {differ}")

    def _check_cleaned(self, evidence: Evidence, host: Host, log: Log, true_log: TrueLog) -> None:
        who = f"{host.name} {log.topic_partition}"
        if log.log_end_offset < true_log.end_offset:
            self.reject(f"{who} ends at {log.log_end_offset}, not {true_log.end_offset}")
        wrong = cleaned_complaint(log, true_log, true_log.end_offset, evidence.latest_wall_ms)
        if wrong is not None:
            self.reject(f"{who}: {wrong}")


def _difference(
    one: str, one_marks: list[BatchMark], other: str, other_marks: list[BatchMark]
) -> str:
    for mine, theirs in zip(one_marks, other_marks, strict=False):
        if mine != theirs:
            return f"{one} has {mine}, {other} has {theirs}"
    return f"{one} has {len(one_marks)} batches, {other} has {len(other_marks)}"
