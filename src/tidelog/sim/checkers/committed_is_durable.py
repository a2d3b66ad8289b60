"""CommittedIsDurable (I4): with group commit, what is committed is on min ISR devices at least,
whatever page caches hold.

Looked at every so often, on the durable images alone: this is what would be left if all machines
lost power now. Topics that are being deleted and disks that a fault has damaged do not count.
"""

from typing import Final

from tidelog.log.checkpoint import (
    PARTITION_METADATA_FILE,
    CheckpointDamaged,
    decode_partition_metadata,
)
from tidelog.sim.checkers.base import Evidence
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.durable import LogReader
from tidelog.sim.evidence.oracle import BatchMark, PartitionId
from tidelog.sim.report.violation import Violation

EVERY_SWEEPS: Final = 10


class CommittedIsDurable:
    """Counts the devices that hold the last committed batch of each partition."""

    name = "CommittedIsDurable"

    def __init__(self, min_isr: int) -> None:
        self._min_isr = min_isr
        self._reader = LogReader()
        self._sweep_count = 0

    def sweep(self, evidence: Evidence) -> None:
        """Looks at each tenth call."""
        self._sweep_count += 1
        if self._sweep_count % EVERY_SWEEPS == 0:
            self.look(evidence)

    def look(self, evidence: Evidence) -> None:
        """Reads the durable image of every disk."""
        hosts = evidence.world.hosts.values()
        if any(host.disk.damaged for host in hosts):
            return
        holders: dict[PartitionId, list[str]] = {}
        for host in hosts:
            for pid in self._held_by(host, evidence):
                holders.setdefault(pid, []).append(host.name)
        for pid, true_log in evidence.oracle.logs.items():
            held = holders.get(pid, [])
            if not true_log.batches or str(pid).rpartition("-")[0] in evidence.history.abandoned:
                continue
            if len(held) < self._min_isr:
                last = true_log.batches[-1]
                raise Violation(
                    self.name, f"{pid}: {last} is committed, and on the devices of {held} only"
                )

    def _held_by(self, host: Host, evidence: Evidence) -> list[PartitionId]:
        files = host.disk.durable_files()
        found: list[PartitionId] = []
        for pid, true_log in evidence.oracle.logs.items():
            directory = f"{pid.topic}-{pid.partition}"
            try:
                data = files.get(f"{directory}/{PARTITION_METADATA_FILE}", b"")
                if decode_partition_metadata(data) != pid.topic_id:
                    continue
            except CheckpointDamaged:
                continue
            batches = self._reader.batches(host.disk.root, files, directory)
            last = true_log.batches[-1] if true_log.batches else None
            if last is not None and any(
                BatchMark(each.base_offset, each.last_offset, each.leader_epoch, each.crc) == last
                for each in reversed(batches)
            ):
                found.append(pid)
        return found
