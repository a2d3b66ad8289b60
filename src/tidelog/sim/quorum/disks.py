"""The disk queues of all replicas: one effect after the other, each after a drawn time."""

from tidelog.env.effects import Effect, Flush, Replace
from tidelog.env.prng import Prng
from tidelog.log.values import LogFlush
from tidelog.sim.engine.timeline import Timeline
from tidelog.sim.quorum.exchange import Act
from tidelog.sim.quorum.options import Conditions
from tidelog.sim.quorum.replica import Replica


class Disks:
    """Completes flushes and replacements in order."""

    def __init__(self, timeline: Timeline, prng: Prng, conditions: Conditions, act: Act) -> None:
        self._timeline = timeline
        self._prng = prng
        self._conditions = conditions
        self._act = act

    def take(self, replica: Replica) -> None:
        """Queues what the replica asks of its disk since the last time."""
        was_idle = not replica.disk_queue
        replica.disk_queue.extend(replica.effects.take())
        if was_idle:
            self._begin(replica)

    def resume(self, replica: Replica) -> None:
        """A stalled disk goes on."""
        replica.stalled = False
        self._begin(replica)

    def _begin(self, replica: Replica) -> None:
        if replica.disk_queue and not replica.stalled:
            delay_ms = self._prng.between(0, self._conditions.flush_ms)
            self._timeline.at(delay_ms, replica.in_this_life(lambda: self._complete(replica)))

    def _complete(self, replica: Replica) -> None:
        if replica.stalled:
            return
        effect = replica.disk_queue.popleft()
        self._begin(replica)
        self._act(replica, lambda: self._carry_out(replica, effect))

    def _carry_out(self, replica: Replica, effect: Effect) -> None:
        match effect:
            case Flush(file, subject):
                replica.disk.sync(file)
                if isinstance(subject, LogFlush):
                    replica.log.on_flushed(subject)
                replica.quorum.on_flushed(subject, self._timeline.now)
            case Replace(path, data, subject):
                replica.disk.replace(path, data)
                if subject is not None:
                    replica.quorum.on_flushed(subject, self._timeline.now)
            case _:
                raise AssertionError(f"a quorum emits no {effect}")
