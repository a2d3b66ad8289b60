"""LeaderCompleteness (I2): who begins to lead holds all that was ever committed, batch for batch.

A leader of an older epoch than one that is known already is not looked at: it is deposed and does
not know it yet; what it may still do is bounded by `OneLeaderPerEpoch` and by the oracle.
"""

from tidelog.replication.partition import Partition
from tidelog.sim.checkers.base import Evidence
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.oracle import PartitionId, marks_of
from tidelog.sim.report.violation import Violation


class LeaderCompleteness:
    """Checked once for each leadership."""

    name = "LeaderCompleteness"

    def __init__(self) -> None:
        # The newest leader epoch that was looked at.
        self._seen: dict[PartitionId, int] = {}

    def on_leader(
        self, evidence: Evidence, host: Host, pid: PartitionId, partition: Partition
    ) -> None:
        """Compares every new leader's log with the true log."""
        if partition.leader_epoch <= self._seen.get(pid, -1):
            return
        self._seen[pid] = partition.leader_epoch
        true_log = evidence.oracle.logs.get(pid)
        if true_log is None or not host.disk.is_sound:
            return
        log = partition.log
        who = f"{host.name} leads {pid} in epoch {partition.leader_epoch}"
        if log.log_end_offset < true_log.end_offset:
            raise Violation(
                self.name,
                f"{who} with log end {log.log_end_offset}, "
                f"committed is everything below {true_log.end_offset}",
            )
        held = marks_of(log, log.log_start_offset, true_log.end_offset)
        for mine, true in zip(held, true_log.from_offset(log.log_start_offset), strict=True):
            if mine != true:
                raise Violation(self.name, f"{who} and holds {mine}, committed is {true}")
