"""What long turns do: looked at after every event, where work costs time (`engine/work.py`)."""

from typing import Final

from tidelog.sim.engine.host import Host
from tidelog.sim.report.violation import Violation

LONGEST_TURN_US: Final = 50_000
"""On the machine that the table of costs was measured on."""


class BoundedTurn:
    """No turn keeps a node from its quorum and its clients for longer than 50 ms.

    The bound is that of a usual machine; on one that is so many times slower it is so many times
    longer. A disk that takes ages for one operation is not judged: one operation is the least that
    a turn does. Neither is a start, which is not a turn.
    """

    def __init__(self) -> None:
        # The longest one that there was, in microseconds of a usual machine.
        self.longest_us = 0

    def on_event(self, host: Host) -> None:
        """Looks at what the turn that has just been made costs."""
        loop = host.loop
        if loop is None or loop.is_uneven:
            return
        turn_us = loop.turn_us // loop.factor
        self.longest_us = max(self.longest_us, turn_us)
        if turn_us > LONGEST_TURN_US:
            raise Violation(
                type(self).__name__, f"{host.name} works for {turn_us / 1000:.1f} ms in one turn"
            )


class QuorumStands:
    """Without a fault the quorum's leader is not deposed, whatever work there is: no epoch is
    spent."""

    def __init__(self) -> None:
        # Of the quorum when it was looked at first.
        self._epoch: int | None = None

    def on_event(self, host: Host) -> None:
        """Looks at a node's epoch."""
        assert host.node is not None, f"{host.name} has no process"
        epoch = host.node.broker.quorum.epoch
        if self._epoch is None:
            self._epoch = epoch
        if epoch > self._epoch:
            raise Violation(
                type(self).__name__, f"{host.name} is in epoch {epoch}, it was {self._epoch}"
            )
