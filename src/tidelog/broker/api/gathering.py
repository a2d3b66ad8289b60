"""An answer about several groups, whose coordinators answer one by one and in any order."""

from collections.abc import Callable
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class Gathering(Generic[T]):
    """The parts of one answer, in their order. `finish` gets them when the last one is there."""

    def __init__(self, count: int, finish: Callable[[list[T]], None]) -> None:
        # Those that have come; `None` in the place of one that has not.
        self._parts: list[T | None] = [None] * count
        self._missing = count
        self._finish = finish
        if not count:
            finish([])

    def part(self, index: int) -> Callable[[T], None]:
        """Takes one part; to be called once."""

        def take(part: T) -> None:
            assert self._parts[index] is None, f"part {index} came twice"
            self._parts[index] = part
            self._missing -= 1
            if not self._missing:
                self._finish(cast(list[T], self._parts))

        return take
