"""DisksAreSound (V6): once healed, a scrub of every disk finds nothing wrong.

Every batch has its checksum, every index entry of a sealed segment leads to its batch, the epoch
file agrees with the batches, every small file can be read. What a fault damaged on the way has been
found and repaired, not stepped around, or a later read of the log would find it.
"""

from tidelog.model import TopicPartition
from tidelog.sim.checkers.base import Evidence, waits_for_a_read
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.scrub import OFFSET_FILES, scrub
from tidelog.sim.report.violation import Violation


class DisksAreSound:
    """Scrubs what is on the disks."""

    name = "DisksAreSound"

    def at_end(self, evidence: Evidence) -> None:
        """Reads every file."""
        for host in evidence.world.hosts.values():
            with host.disk.observed():
                complaints = scrub(host.disk, settled=True)
            if host.disk.was_damaged:
                # A bad checkpoint counts as empty, and is written anew when its time comes.
                unread = tuple(f"{partition}/" for partition in _unread(host))
                passed = OFFSET_FILES + unread
                complaints = [each for each in complaints if not each.startswith(passed)]
            if complaints:
                raise Violation(self.name, f"{host.name}: {'; '.join(complaints[:5])}")


def _unread(host: Host) -> list[TopicPartition]:
    assert host.node is not None, f"{host.name} is down at the end"
    partitions = host.node.broker.replicas.partitions
    return [key for key, one in partitions.items() if waits_for_a_read(host, one.log)]
