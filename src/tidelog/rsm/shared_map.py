"""A map that never changes: a changed map shares with the old one what did not change.

A state machine keeps the committed state and one state for each batch that waits (`kernel.py`). If
its state is a large map, copying that map for each batch would cost as much as the map is large. A
`SharedMap` lies in buckets on two levels; a change copies the root, one page and one bucket, and
leaves the rest to be shared. Many changes at once, as when a log is loaded, copy each of them once.

Which bucket a key lies in follows from its bytes and not from `hash`, which Python seeds anew for
each process: so the order of iteration is the same in every run.
"""

from binascii import crc32
from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar

Value = TypeVar("Value")

_FAN_OUT: Final = 64
_EMPTY_PAGE: Final[tuple[dict[str, object], ...]] = ({},) * _FAN_OUT


class SharedMap(Generic[Value]):
    """Texts to values."""

    __slots__ = ("_count", "_pages")

    def __init__(self) -> None:
        # Pages of buckets; no bucket is ever changed once it is in one.
        self._pages: tuple[tuple[dict[str, Value], ...], ...] = (
            (_EMPTY_PAGE,) * _FAN_OUT  # type: ignore[assignment]
        )
        # How many keys there are.
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, key: str) -> Value | None:
        """The value of a key."""
        page, bucket = _place(key)
        return self._pages[page][bucket].get(key)

    def items(self) -> Iterator[tuple[str, Value]]:
        """All pairs, in an order that depends on the keys and how they came."""
        for page in self._pages:
            if page is not _EMPTY_PAGE:
                for bucket in page:
                    yield from bucket.items()

    def changed(self, changes: Mapping[str, Value | None]) -> "SharedMap[Value]":
        """A map with other values for these keys; `None` removes one."""
        if not changes:
            return self
        pages = list(self._pages)
        fresh_pages: dict[int, list[dict[str, Value]]] = {}
        fresh_buckets: set[tuple[int, int]] = set()
        count = self._count
        for key, value in changes.items():
            page, index = place = _place(key)
            buckets = fresh_pages.get(page)
            if buckets is None:
                buckets = fresh_pages[page] = list(pages[page])
            if place not in fresh_buckets:
                fresh_buckets.add(place)
                buckets[index] = dict(buckets[index])
            bucket = buckets[index]
            count -= len(bucket)
            if value is None:
                bucket.pop(key, None)
            else:
                bucket[key] = value
            count += len(bucket)
        for page, buckets in fresh_pages.items():
            pages[page] = tuple(buckets)
        made: SharedMap[Value] = SharedMap()
        made._pages, made._count = tuple(pages), count
        return made


def _place(key: str) -> tuple[int, int]:
    return divmod(crc32(key.encode()) % (_FAN_OUT * _FAN_OUT), _FAN_OUT)
