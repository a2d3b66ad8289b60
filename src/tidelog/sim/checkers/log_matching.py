"""LogMatching (I5): below its own high watermark every replica holds what is committed.

Two replicas agree below the smaller of their high watermarks because both agree with the true log.
Each batch of each replica is read once; a new process is read again, its files were reopened.
A batch that cannot be read is a mismatch too, unless a fault damaged this disk.
"""

from tidelog.errors import CorruptBatch, ProtocolError, StorageError
from tidelog.replication.partition import Partition
from tidelog.sim.checkers.base import Evidence
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.oracle import TrueLog, marks_of, partition_id
from tidelog.sim.report.violation import Violation


class LogMatching:
    """Reads what is new below the high watermarks."""

    name = "LogMatching"

    def __init__(self) -> None:
        # How far each replica of each process was compared.
        self._compared: dict[Partition, int] = {}

    def sweep(self, evidence: Evidence) -> None:
        """Looks at all replicas of all running nodes."""
        live: dict[Partition, int] = {}
        for host, partition in evidence.replicas():
            true_log = evidence.oracle.logs.get(partition_id(partition))
            if true_log is not None and partition.offline is None and host.disk.is_well:
                live[partition] = self._compare(host, partition, true_log)
        self._compared = live

    def _compare(self, host: Host, partition: Partition, true_log: TrueLog) -> int:
        log = partition.log
        start = max(self._compared.get(partition, 0), log.log_start_offset)
        end = min(log.high_watermark, true_log.end_offset)
        if end <= start:
            return start
        try:
            held = marks_of(log, start, end)
        except (StorageError, ProtocolError, CorruptBatch) as error:
            if host.disk.damaged:
                return start
            raise Violation(
                self.name,
                f"{host.name} cannot read {start} to {end} of {partition_id(partition)}: {error}",
            ) from error
        known = {mark.base_offset: mark for mark in true_log.from_offset(start)}
        for mark in held:
            if mark.last_offset < end and known.get(mark.base_offset) != mark:
                raise Violation(
                    self.name,
                    f"{host.name} holds {mark} of {partition_id(partition)} below its high "
                    f"watermark {log.high_watermark}, committed is {known.get(mark.base_offset)}",
                )
        return held[-1].last_offset + 1 if held and held[-1].last_offset < end else start
