"""ReplicasEqual (V4): once healed, all replicas of a partition hold the same batches, to the end.

With full ISRs and nothing under way, the high watermark is the log end everywhere, so equality
below it is equality of the logs; and all of them hold what the oracle saw committed.
"""

from tidelog.sim.checkers.base import Evidence, waits_for_a_read
from tidelog.sim.evidence.oracle import BatchMark, PartitionId, marks_of, partition_id
from tidelog.sim.report.violation import Violation


class ReplicasEqual:
    """Compares every replica with the first, and with the true log."""

    name = "ReplicasEqual"

    def at_end(self, evidence: Evidence) -> None:
        """Reads every log."""
        first: dict[PartitionId, tuple[str, list[BatchMark]]] = {}
        for host in evidence.world.hosts.values():
            assert host.node is not None, f"{host.name} is down at the end"
            for partition in host.node.broker.replicas.partitions.values():
                pid, log = partition_id(partition), partition.log
                if waits_for_a_read(host, log):
                    continue
                marks = marks_of(log, log.log_start_offset, log.log_end_offset)
                name, others = first.setdefault(pid, (host.name, marks))
                if marks != others:
                    raise Violation(
                        self.name, f"{pid}: {_difference(name, others, host.name, marks)}"
                    )
                true_log = evidence.oracle.logs.get(pid)
                committed = true_log.batches if true_log is not None else []
                if marks[: len(committed)] != committed:
                    raise Violation(
                        self.name,
                        f"{pid}: {_difference('what is committed', committed, host.name, marks)}",
                    )


def _difference(
    one: str, one_marks: list[BatchMark], other: str, other_marks: list[BatchMark]
) -> str:
    for mine, theirs in zip(one_marks, other_marks, strict=False):
        if mine != theirs:
            return f"{one} has {mine}, {other} has {theirs}"
    return f"{one} has {len(one_marks)} batches, {other} has {len(other_marks)}"
