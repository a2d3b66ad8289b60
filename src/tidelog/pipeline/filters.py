"""Filters that Spark offers to a source: comparisons, and how several narrow a column together.

Spark 4.1 and later pass simple comparisons that are joined by AND, if
`spark.sql.python.filterPushdown.enabled` is on. `topics/pushdown.py` narrows ranges of offsets by
them, `logs/segment_filters.py` leaves out files. A filter that is not understood narrows nothing.
Null equals nothing. Filters are recognised by the names of their classes, without a Spark import.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

T = TypeVar("T")

FIRST: Final = -(2**62)
LAST: Final = 2**62
EQUALS: Final = ("EqualTo", "EqualNullSafe")
RANGES: Final = (*EQUALS, "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Whole numbers that a query can still want."""

    bounds: tuple[int, int] = (FIRST, LAST)
    """Inclusive."""
    values: frozenset[int] | None = None
    """`None` for all within the bounds."""

    def narrowed(self, kind: str, value: Any) -> "Numbers | None":
        """These numbers after one more filter; `None` for a filter that is not understood."""
        listed = listed_values(kind, value, int)
        if listed is not None:
            return replace(self, values=in_both(self.values, listed))
        bounds = narrowed_bounds(self.bounds, kind, value)
        return None if bounds is None else replace(self, bounds=bounds)

    def touch(self, first: int, last: int) -> bool:
        """Whether one of the numbers from `first` to `last` is wanted."""
        first, last = max(first, self.bounds[0]), min(last, self.bounds[1])
        if self.values is None:
            return first <= last
        return any(first <= value <= last for value in self.values)


def comparison(offered: Any) -> tuple[str, str, Any]:
    """The column, the name of the comparison and the value of a filter. The column is empty for
    filters of another form, and for those of a field inside a column."""
    attribute: Sequence[str] = getattr(offered, "attribute", ())
    column = attribute[0] if len(attribute) == 1 else ""
    return column, type(offered).__name__, getattr(offered, "value", None)


def listed_values(kind: str, value: Any, wanted_type: type[T]) -> list[T] | None:
    """The values that a filter allows, if it lists them."""
    values = [value] if kind in EQUALS else list(value) if kind == "In" else None
    if values is None or any(v is not None and type(v) is not wanted_type for v in values):
        return None
    return [v for v in values if v is not None]


def in_both(known: frozenset[T] | None, listed: Iterable[T]) -> frozenset[T]:
    """The values listed that were wanted before; `known` is `None` for all there are."""
    values = frozenset(listed)
    return values if known is None else values & known


def narrowed_bounds(bounds: tuple[int, int], kind: str, value: Any) -> tuple[int, int] | None:
    """Inclusive bounds and one comparison more; `None` for what compares with no whole number."""
    if kind not in RANGES or type(value) is not int:
        return None
    low, high = bounds
    if kind in EQUALS:
        return max(low, value), min(high, value)
    if kind.startswith("Greater"):
        return max(low, value + (kind == "GreaterThan")), high
    return low, min(high, value - (kind == "LessThan"))
