"""The deadline of a component, cached between two changes of that component.

A node asks all its components for their deadlines at the beginning and at the end of every tick,
and most ticks change one component. So a component with an expensive search keeps the result. It
calls `forget` with every input and every piece of work that may change the deadline.

Invariant: a cached deadline is what a search would find (`check`).
"""

from collections.abc import Callable

from tidelog.env.instant import Instant


class KnownDeadline:
    """What `find` returned since the last `forget`."""

    __slots__ = ("_find", "_is_known", "_value")

    def __init__(self, find: Callable[[], Instant | None]) -> None:
        # Looks for the deadline; changes nothing.
        self._find = find
        # What it returned, if `_is_known`.
        self._value: Instant | None = None
        self._is_known = False

    def get(self) -> Instant | None:
        """The deadline; `None` when nothing is due ever."""
        if not self._is_known:
            self._value = self._find()
            self._is_known = True
        return self._value

    def forget(self) -> None:
        """Something has happened that may have changed it."""
        self._is_known = False

    def check(self) -> None:
        """Asserts that nothing was overlooked."""
        if self._is_known:
            found = self._find()
            assert self._value == found, f"{self._value} is known, the deadline is {found}"
