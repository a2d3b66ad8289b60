"""How long partitions had no leader: from the end of the process that led until a successor leads.

The successor may be the same process, restarted. What clients saw of the same misfortune is in
`evidence/unavailability.py`.

Left out: leaders that were cut off or paused (their process lives, and they may not know).
"""

from tidelog.env.event import Event
from tidelog.env.trace import TraceLine
from tidelog.replication.events.roles import LeadershipBegan


class Elections:
    """Follows the leaders of partitions through their events and the ends of their processes."""

    __slots__ = ("_leaders", "_lost_at", "durations_ms")

    def __init__(self) -> None:
        # The host whose leadership began last, by partition.
        self._leaders: dict[str, str] = {}
        # When the process of that host ended, for partitions without a leader since.
        self._lost_at: dict[str, int] = {}
        # In the order of their ends.
        self.durations_ms: list[int] = []

    def note(self, event: Event | TraceLine, host: str, now: int) -> None:
        """Looks at one decision of a node."""
        if not isinstance(event, LeadershipBegan):
            return
        lost_at = self._lost_at.pop(event.subject, None)
        # Epoch 0 is a new partition, perhaps under the name of a deleted one.
        if lost_at is not None and event.leader_epoch != 0:
            self.durations_ms.append(now - lost_at)
        self._leaders[event.subject] = host

    def process_ended(self, host: str, now: int) -> None:
        """The process of a host is gone, whichever way."""
        for partition, leader in self._leaders.items():
            if leader == host:
                self._lost_at.setdefault(partition, now)
