"""A room's deadline, looked for once between two things that happen there.

A node asks all its rooms for their deadlines at the beginning and at the end of every tick, and
most ticks are about one room. So a room that has much to look through keeps the answer, and forgets
it with every input and every piece of work that may have changed it.

Invariant: what is known is what a look would find (`check`). Left out: knowing by itself when to
forget; that is the room's to say.
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
