"""How long the turns of the loop are, and what took long: BoundedTurn, measured in production.

A *turn* begins with the first input after a tick and ends with the next tick: as long as it lasts,
nothing else happens in this node. It is a series of steps (`env/steps.py`): each input is one, the
parts of the tick are, and the core names others within them. The clock is read once where a step
begins, and once at the end of the turn; of what was short nothing is kept but a count and a sum.

Time is that of the clock on the wall. A turn is long as well when the disk hangs, when the machine
is busy with others, and when Python collects garbage, which the warning names. So the processor's
time of a turn is measured beside it: what a turn has of that is the node's own work.

**Garbage collections.** Python collects young objects when so many more were made than went. Where
objects take the place of old ones, as the images of ten thousand partitions do when a broker leaves
or returns, as many go as are made. It does not collect then, for seconds, and at last looks at all
of them at once: 20 to 50 ms in the middle of a turn. So the driver collects as well, between two
turns, where turns that made many objects have taken so long together.

Invariants: a turn that is over has all its time in its steps; `counts` has an entry for each turn.
"""

import gc
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tidelog.env.event import Event
from tidelog.env.steps import Steps
from tidelog.limits import MAX_TURN_MS, MAX_USUAL_TURN_MS
from tidelog.runtime.events import TurnTooLong

BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Upper ends of the classes of turns; there is one more without an end."""

_BOUNDS_NS: Final = tuple(bound * 1_000_000 for bound in BOUNDS_MS)
_SHORT_NS: Final = _BOUNDS_NS[0]
_USUAL_NS: Final = MAX_USUAL_TURN_MS * 1_000_000
_TOO_LONG_NS: Final = MAX_TURN_MS * 1_000_000
_COLLECT_AFTER_NS: Final = 10_000_000
"""Time of slow turns between two collections of young objects: then one takes some 2 ms."""
_WARNING_PAUSE_NS: Final = 1_000_000_000
_SLICE_NS: Final = 5_000_000_000
_SLICES: Final = 12


def _collect_young() -> None:
    gc.collect(1)


@dataclass(slots=True)
class SlowSteps:
    """The steps of one name that took more than a millisecond."""

    count: int = 0
    sum_ns: int = 0
    longest_ns: int = 0


class RecentLongest:
    """The longest of something in the last minute, in nanoseconds."""

    def __init__(self) -> None:
        # The longest of each of the last slices of time, by the slice's number.
        self._slices: dict[int, int] = {}

    def add(self, at_ns: int, took_ns: int) -> None:
        """One more, which ended then."""
        now = at_ns // _SLICE_NS
        self._slices[now] = max(self._slices.get(now, 0), took_ns)
        if len(self._slices) > _SLICES:
            self._forget_old(now)

    def _forget_old(self, now: int) -> None:
        self._slices = {at: took for at, took in self._slices.items() if at > now - _SLICES}

    def get(self, at_ns: int) -> int:
        """The longest in the minute before; 0 if there was none."""
        self._forget_old(at_ns // _SLICE_NS)
        return max(self._slices.values(), default=0)


class TurnTimes:
    """The turns of one driver."""

    def __init__(
        self,
        steps: Steps,
        warn: Callable[[Event], None],
        clock: Callable[[], int] = time.monotonic_ns,
        cpu_clock: Callable[[], int] = time.thread_time_ns,
        collect: Callable[[], object] = _collect_young,
    ) -> None:
        # The core's; what the driver does by itself is a step there too.
        self._steps = steps
        steps.listener = self._end_step
        # Takes the event of a turn that was too long.
        self._warn = warn
        # Monotonic nanoseconds: the core's instants come from here too.
        self.clock = clock
        # Nanoseconds for which the loop's thread has had a processor; what they were where the
        # turn began, or up to a millisecond before, and when that was.
        self._cpu_clock = cpu_clock
        self._cpu_at = 0
        self._cpu_read_at = -_BOUNDS_NS[-1]
        # Turns by class (`BOUNDS_MS`), and how long all were together.
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.sum_ns = 0
        # The longest turn since the start.
        self.longest_ns = 0
        # The longest turns of the last minute, and those that worked longest.
        self.recent = RecentLongest()
        self.recent_cpu = RecentLongest()
        # Turns that worked for more than `MAX_USUAL_TURN_MS`.
        self.laborious = 0
        # Steps that took more than a millisecond, by name.
        self.slow: dict[str, SlowSteps] = {}
        # Whether a turn has begun that has not ended.
        self._in_turn = False
        # When the turn began, and the step that it is in.
        self._turn_at = 0
        self._step_at = 0
        # The longest step of this turn: how long, name, count.
        self._worst: tuple[int, str, int] = (0, "", 0)
        # Garbage collections: how long in this turn, and when the one under way began.
        self._collected_ns = 0
        self._collection_at = 0
        # Collects young objects; and how long slow turns have been since it was called.
        self._collect = collect
        self._uncollected_ns = 0
        # Nanoseconds of steps that a client pays for, by its connection; the driver takes them.
        self.spent: dict[int, int] = {}
        # When the last warning was given, and how many long turns had none since.
        self._warned_at = -_WARNING_PAUSE_NS
        self._unwarned = 0

    def begin(self, name: str) -> int:
        """A step of the driver begins, and a turn if none is under way; returns the time."""
        at_ns = self.clock()
        if not self._in_turn:
            self._in_turn = True
            self._turn_at = at_ns
            if at_ns - self._cpu_read_at > _SHORT_NS:
                # A system call, and most turns are short: turns of a millisecond share one.
                self._cpu_read_at = at_ns
                self._cpu_at = self._cpu_clock()
            self._collected_ns = 0
        elif self._steps.connection_id:
            self._end_paid_step(at_ns)
        elif at_ns - self._step_at > _SHORT_NS:
            self._on_slow_step(at_ns - self._step_at)
        self._step_at = at_ns
        steps = self._steps
        steps.name = name
        steps.count = 0
        steps.connection_id = 0
        return at_ns

    def has_lasted(self, ns: int) -> bool:
        """Whether a turn is under way that is as long already."""
        return self._in_turn and self.clock() - self._turn_at >= ns

    def _end_step(self) -> None:
        """The core begins another step."""
        at_ns = self.clock()
        if self._steps.connection_id:
            self._end_paid_step(at_ns)
        elif at_ns - self._step_at > _SHORT_NS and self._in_turn:
            self._on_slow_step(at_ns - self._step_at)
        self._step_at = at_ns

    def _end_paid_step(self, at_ns: int) -> None:
        """A step has ended that a client pays for."""
        took_ns, connection_id = at_ns - self._step_at, self._steps.connection_id
        self.spent[connection_id] = self.spent.get(connection_id, 0) + took_ns
        if took_ns > _SHORT_NS:
            self._on_slow_step(took_ns)

    def take_spent(self) -> dict[int, int]:
        """What clients have to pay for since the last call: nanoseconds by connection."""
        spent, self.spent = self.spent, {}
        return spent

    def _on_slow_step(self, took_ns: int) -> None:
        steps = self._steps
        slow = self.slow.setdefault(steps.name, SlowSteps())
        slow.count += 1
        slow.sum_ns += took_ns
        slow.longest_ns = max(slow.longest_ns, took_ns)
        if took_ns > self._worst[0]:
            self._worst = (took_ns, steps.name, steps.count)

    def end_turn(self) -> None:
        """The turn is over."""
        self._end_step()
        took_ns = self._step_at - self._turn_at
        self._in_turn = False
        self.sum_ns += took_ns
        if took_ns <= _SHORT_NS:
            self.counts[0] += 1
        else:
            self._on_slow_turn(took_ns)

    def collect_if_due(self) -> None:
        """Collects young objects, as a turn by itself, where slow turns may have made many."""
        if self._uncollected_ns > _COLLECT_AFTER_NS:
            self.aside("collection", self._collect)
            self._uncollected_ns = 0

    def aside(self, name: str, work: Callable[[], Any]) -> Any:
        """Does something that is not an input of the core: as a step of the turn that is under way,
        or as a turn by itself."""
        was_in_turn = self._in_turn
        self.begin(name)
        try:
            return work()
        finally:
            if was_in_turn:
                self.begin("rest")
            else:
                self.end_turn()

    def _on_slow_turn(self, took_ns: int) -> None:
        cpu_ns = self._cpu_clock() - self._cpu_at
        self.counts[bisect_left(_BOUNDS_NS, took_ns)] += 1
        self.laborious += cpu_ns > _USUAL_NS
        self.longest_ns = max(self.longest_ns, took_ns)
        self._uncollected_ns += took_ns
        self.recent.add(self._step_at, took_ns)
        self.recent_cpu.add(self._step_at, cpu_ns)
        if took_ns > _TOO_LONG_NS:
            self._on_too_long(took_ns, cpu_ns)
        self._worst = (0, "", 0)

    def _on_too_long(self, took_ns: int, cpu_ns: int) -> None:
        if self._step_at - self._warned_at < _WARNING_PAUSE_NS:
            self._unwarned += 1
            return
        step_ns, name, count = self._worst
        event = TurnTooLong(
            reason=name or "many short steps",
            count=count,
            step_ms=step_ns // 1_000_000,
            turn_ms=took_ns // 1_000_000,
            cpu_ms=cpu_ns // 1_000_000,
            collecting_ms=self._collected_ns // 1_000_000,
            unreported=self._unwarned,
        )
        self._unwarned = 0
        self._warned_at = self._step_at
        self._warn(event)

    # Garbage collections ----------------------------------------------------------------------

    def watch_collections(self) -> None:
        """Has Python report its garbage collections, until the end of the process or `unwatch`."""
        gc.callbacks.append(self._on_collection)

    def unwatch_collections(self) -> None:
        """Undoes `watch_collections`."""
        gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collection_at = self.clock()
        else:
            self._collected_ns += self.clock() - self._collection_at
