"""Events that come in thousands, as one line of the log.

A broker that dies changes thousands of partitions, and each change is an event. For programs every
one of them counts, and they read values (`env/event.py`). For people the first few say it all, and
thousands of lines would cost more than the changes themselves. So of events of one sort the log has
as many lines a second as `LINES_A_SECOND`; from the next one on they are held, and counted in one
line when the burst is over:

    b1 orders-17, orders-18, orders-21 and 1011 more become_leader: leads leader_epoch=7 \
epoch_start=0..4711 last=orders-1023 within_ms=2140

*One sort* are the events of a class with the same decision and reason, or the lines of a handler
with them. A value that is the same in all is shown; of numbers that differ the least and the
greatest are; what else differs is not shown.

A burst is over when no such event has come for a second, and at the latest after `LONGEST_MS`; then
the next begins. A process that is killed takes the lines of the bursts under way with it.
"""

from dataclasses import dataclass, field
from typing import Final

from tidelog.env.event import Event
from tidelog.env.trace import Level, TraceLine

LINES_A_SECOND: Final = 10
"""Lines of one sort, before the next are held."""

LONGEST_MS: Final = 10_000
"""A burst that lasts longer is counted in several lines."""

_SECOND_MS: Final = 1000
_EXAMPLES: Final = 3
_MOST_SORTS: Final = 1000


class _Differs:
    """A value that is not the same in all events."""


@dataclass(slots=True, eq=False)
class _Held:
    """The events of one burst that have no line."""

    first: Event | TraceLine
    began_ms: int
    last: Event | TraceLine
    count: int = 0
    subjects: list[str] = field(default_factory=list)
    # By key: the value of all, the least and greatest of numbers, or `_Differs`.
    values: dict[str, object] = field(default_factory=dict)

    def add(self, event: Event | TraceLine) -> None:
        """One more."""
        self.last = event
        if self.count < _EXAMPLES:
            self.subjects.append(event.subject)
        pairs = event.shown() if isinstance(event, Event) else event.values.items()
        if self.count == 0:
            self.values = dict(pairs)
        else:
            for key, value in pairs:
                known = self.values.get(key)
                if known != value and known is not _Differs:
                    self.values[key] = _merged(known, value)
        self.count += 1

    def text(self, now_ms: int) -> str:
        """The line of all of them."""
        event = self.first
        if self.count == 1:
            return event.text()
        why = event.why()
        reason = f" ({why})" if why else ""
        shown = [
            (key, f"{value[0]}..{value[1]}" if isinstance(value, _Range) else value)
            for key, value in self.values.items()
            if value is not _Differs
        ]
        more = self.count - len(self.subjects)
        rest = f" and {more} more" if more else ""
        pairs = [*shown, ("last", self.last.subject), ("within_ms", now_ms - self.began_ms)]
        values = "".join(f" {key}={value}" for key, value in pairs)
        return f"{', '.join(self.subjects)}{rest} {event.handler}: {event.decision}{reason}{values}"


class _Range(tuple[int, int]):
    """The least and the greatest of numbers."""

    __slots__ = ()


def _merged(known: object, value: object) -> object:
    if not isinstance(value, int) or isinstance(value, bool):
        return _Differs
    if isinstance(known, _Range):
        return (
            known
            if known[0] <= value <= known[1]
            else _Range((min(known[0], value), max(known[1], value)))
        )
    if not isinstance(known, int) or isinstance(known, bool):
        return _Differs
    return _Range((min(known, value), max(known, value)))


@dataclass(slots=True, eq=False)
class _Sort:
    """What came of one sort lately."""

    # When the second began that is counted, how many came in it, and when the last one came.
    second_at_ms: int
    count: int = 0
    last_ms: int = 0
    held: _Held | None = None


class Bursts:
    """The sorts of events of one log."""

    __slots__ = ("_look_at_ms", "_sorts")

    def __init__(self) -> None:
        # Sorts of which one came within the last second, or of which some are held.
        self._sorts: dict[tuple[object, ...], _Sort] = {}
        # When to look for bursts that are over.
        self._look_at_ms = 0

    @property
    def has_any(self) -> bool:
        """Whether any event came lately."""
        return bool(self._sorts)

    def holds(self, event: Event | TraceLine, now_ms: int) -> bool:
        """Whether the event has no line of its own: it is counted in that of its burst."""
        key = (
            type(event) if isinstance(event, Event) else event.handler,
            event.decision,
            event.why(),
            event.level,
        )
        sort = self._sorts.get(key)
        if sort is None:
            if len(self._sorts) >= _MOST_SORTS:
                return False
            sort = self._sorts[key] = _Sort(now_ms)
        elif now_ms - sort.second_at_ms >= _SECOND_MS:
            sort.second_at_ms = now_ms
            sort.count = 0
        sort.count += 1
        sort.last_ms = now_ms
        if sort.held is None:
            if sort.count <= LINES_A_SECOND:
                return False
            sort.held = _Held(event, now_ms, event)
        sort.held.add(event)
        return True

    def take_over(self, now_ms: int, *, all_of_them: bool = False) -> list[tuple[Level, str]]:
        """The lines of the bursts that are over, or of all."""
        if now_ms < self._look_at_ms and not all_of_them:
            return []
        self._look_at_ms = now_ms + _SECOND_MS // 4
        lines = []
        for key, sort in list(self._sorts.items()):
            held, is_quiet = sort.held, now_ms - sort.last_ms >= _SECOND_MS
            is_over = is_quiet or all_of_them
            if held is not None and (is_over or now_ms - held.began_ms >= LONGEST_MS):
                lines.append((held.first.level, held.text(now_ms)))
                sort.held = None
            if is_quiet and sort.held is None:
                del self._sorts[key]
        return lines
