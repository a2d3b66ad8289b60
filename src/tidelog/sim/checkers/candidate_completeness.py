"""CandidateCompleteness (I3): who may be elected holds all that is committed.

A candidate is a running member of the ISR or of the eligible leader replicas according to the
newest committed metadata, whose process has registered (before that it may hold less and is taken
out of both by its registration, if its end was unclean).
"""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.oracle import PartitionId
from tidelog.sim.report.violation import Violation


class CandidateCompleteness:
    """Compares log ends and the epoch of the last committed batch."""

    name = "CandidateCompleteness"

    def sweep(self, evidence: Evidence) -> None:
        """Looks at all candidates of all partitions."""
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
        assert host.node is not None, f"{host.name} has no process"
        hosted = host.node.broker.replicas.partitions
        replica = next(
            (
                one
                for key, one in hosted.items()
                if one.topic_id == pid.topic_id and key.partition == pid.partition
            ),
            None,
        )
        true_log = evidence.oracle.logs[pid]
        if replica is None or replica.offline is not None or not true_log.batches:
            return
        log, last = replica.log, true_log.batches[-1]
        held = log.epoch_at(last.base_offset)
        if log.log_end_offset < true_log.end_offset or held != last.leader_epoch:
            raise Violation(
                self.name,
                f"{host.name} may be elected for {pid} with log end {log.log_end_offset} and "
                f"epoch {held} at {last.base_offset}; committed is everything below "
                f"{true_log.end_offset}, there with epoch {last.leader_epoch}",
            )
