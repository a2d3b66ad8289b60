"""What throttles bound: looked at after every event, as numbers of the node's own windows."""

from typing import Final

from tidelog.replication.throttle import UNLIMITED
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World
from tidelog.sim.report.violation import Violation

_NEVER: Final = (-1, UNLIMITED, ())


class ThrottledOnTheWhole:
    """Moves between the disks of a node copy nothing while more than their rate was copied lately.

    So over any time they copy what the rate allows for it and for one window, and a slice. What
    followers fetch is not judged: those in sync count, and are never held up. That nothing waits
    for ever is for `Liveness`.
    """

    def __init__(self, world: World) -> None:
        """Watches all nodes."""
        self._world = world
        # Of each node before this event: its life, the rate, the samples of the window.
        self._before: dict[str, tuple[int, int, tuple[tuple[int, int], ...]]] = {}
        world.driver.observers.append(self.on_event)

    def on_event(self, host: Host) -> None:
        """Looks at what was copied in this event."""
        assert host.node is not None, f"{host.name} has no process"
        quota = host.node.broker.replicas.throttles.moves
        window = quota.window
        samples = tuple(window.samples)
        life, rate, before = self._before.get(host.name, _NEVER)
        self._before[host.name] = (host.life, quota.rate, samples)
        if life != host.life or rate == UNLIMITED or not samples or samples[-1:] == before[-1:]:
            return
        now = host.local(self._world.now)
        counted = [each for each in before if each[0] > now - window.window_ms]
        if not counted:
            return
        elapsed_ms = max(now - counted[0][0], window.sample_ms)
        copied = sum(amount for _, amount in counted)
        if copied * 1000 > rate * elapsed_ms:
            raise Violation(
                type(self).__name__,
                f"{host.name} copies on, {copied} bytes in {elapsed_ms} ms, {rate} a second",
            )
