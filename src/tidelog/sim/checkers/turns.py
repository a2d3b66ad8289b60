"""What long turns do: looked at after every event, where work costs time (`engine/work.py`)."""

from typing import Final

from tidelog.limits import MAX_TURN_MS
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World
from tidelog.sim.report.violation import Violation

MOST_TURNS_AT_ONCE: Final = 10_000
"""Of all nodes together. Hundreds are usual, where messages take no time."""


class BoundedTurn:
    """No turn keeps a node from its quorum and its clients for longer than `limits.MAX_TURN_MS`.

    The bound is that of a usual machine; on one that is so many times slower it is so many times
    longer. A disk that takes ages for one operation is not judged: one operation is the least that
    a turn does. Neither is a start, nor the turn in which a clean stop closes all logs: the node
    has left its quorum and its clients by then.
    """

    def __init__(self, world: World) -> None:
        """Watches the turns of all nodes that are started from now on."""
        # The longest one that there was, in microseconds of a usual machine.
        self.longest_us = 0
        # Of each host's turn that goes on, where work costs time.
        self._steps: dict[str, _LongestStep] = {}
        world.starters.append(self._on_start)
        world.driver.observers.append(self.on_event)

    def _on_start(self, host: Host) -> None:
        if host.loop is not None:
            self._steps[host.name] = _LongestStep(host)

    def on_event(self, host: Host) -> None:
        """Looks at what the turn that has just been made costs."""
        loop = host.loop
        if loop is None or loop.is_uneven:
            return
        turn_us = loop.turn_us // loop.factor
        self.longest_us = max(self.longest_us, turn_us)
        if turn_us > MAX_TURN_MS * 1000 and not _is_closing(host):
            step = self._steps.get(host.name)
            raise Violation(
                type(self).__name__,
                f"{host.name} works for {turn_us / 1000:.1f} ms in one turn"
                + ("" if step is None else f", {step.text(loop.factor)}"),
            )
        if host.name in self._steps:
            self._steps[host.name].forget()


def _is_closing(host: Host) -> bool:
    """Whether the node has begun to close its logs: nothing else has no deadline."""
    return host.stopping and host.node is not None and host.node.deadline() is None


class _LongestStep:
    """The step of a node's turn (`env/steps.py`) that cost the most of those that have ended."""

    __slots__ = ("_before_us", "_host", "_longest", "_steps")

    def __init__(self, host: Host) -> None:
        assert host.node is not None, f"{host.name} has no process"
        self._host = host
        self._steps = host.node.steps
        self._steps.listener = self._end_step
        self.forget()

    def forget(self) -> None:
        """The turn is over."""
        # What the turn had cost when the step began.
        self._before_us = 0
        # Microseconds, name and count.
        self._longest = (0, "", 0)

    def _end_step(self) -> None:
        host = self._host
        assert host.loop is not None, "work costs time"
        self._note(host.loop.spent_us + sum(disk.spent_us for disk in host.disks))

    def _note(self, spent_us: int) -> None:
        took_us, self._before_us = spent_us - self._before_us, spent_us
        if took_us > self._longest[0]:
            self._longest = (took_us, self._steps.name, self._steps.count)

    def text(self, factor: int) -> str:
        """What took how long of it, on a usual machine; the turn is over."""
        assert self._host.loop is not None, "work costs time"
        self._note(self._host.loop.turn_us)
        took_us, name, count = self._longest
        return f"{took_us / factor / 1000:.1f} of them {name} ({count})"


class TimeGoesOn:
    """No node has turn after turn at one instant: one that always has something to do, and nothing
    to show for it, keeps a processor from everything else. In virtual time it would also keep the
    run from its end."""

    def __init__(self, world: World) -> None:
        """Watches all nodes."""
        self._world = world
        # Turns of all nodes since the instant began.
        self._instant, self._count = -1, 0
        world.driver.observers.append(self.on_event)

    def on_event(self, host: Host) -> None:
        """Counts a turn."""
        now = self._world.now
        if now != self._instant:
            self._instant, self._count = now, 0
        self._count += 1
        if self._count > MOST_TURNS_AT_ONCE:
            raise Violation(
                type(self).__name__, f"{host.name} has turn {self._count} at one instant"
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
