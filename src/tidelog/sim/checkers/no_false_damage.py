"""NoFalseDamage: a log is found damaged only on a disk that was.

Crashes, power cuts and truncations at any time leave logs that the next process takes for sound:
only then does a log that is called damaged mean something, and no replica is given up for nothing.
"""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.report.violation import Violation


class NoFalseDamage:
    """Looks for damaged logs on disks that no fault has touched."""

    name = "NoFalseDamage"

    def sweep(self, evidence: Evidence) -> None:
        """Looks at all nodes."""
        for host in evidence.world.hosts.values():
            if host.node is None or host.disk.was_damaged:
                continue
            damaged = [str(key) for key in host.node.broker.replicas.damaged]
            if damaged:
                raise Violation(self.name, f"{host.name}: {', '.join(damaged)}")
