"""EpochCacheMatchesBatches (I13): what the leader epoch cache says of an offset is what the batch
there says, and epochs never fall along a log."""

from tidelog.sim.checkers.base import Evidence, waits_for_a_read
from tidelog.sim.evidence.oracle import marks_of, partition_id
from tidelog.sim.report.violation import Violation


class EpochCacheMatchesBatches:
    """Reads every log once, at the end."""

    name = "EpochCacheMatchesBatches"

    def at_end(self, evidence: Evidence) -> None:
        """Compares the cache with the batches."""
        for host in evidence.world.hosts.values():
            assert host.node is not None, f"{host.name} is down at the end"
            for partition in host.node.broker.replicas.partitions.values():
                log, last = partition.log, 0
                if waits_for_a_read(host, log):
                    continue
                for mark in marks_of(log, log.log_start_offset, log.log_end_offset):
                    said = log.epoch_at(mark.base_offset)
                    if said != mark.leader_epoch or mark.leader_epoch < last:
                        raise Violation(
                            self.name,
                            f"{host.name} {partition_id(partition)}: {mark} after epoch {last}, "
                            f"the cache says {said}",
                        )
                    last = mark.leader_epoch
