"""Runs of records that a share group has treated alike, and how two sets of them become one.

A leader reports what has changed; the coordinator lays it over what it knows. Where runs overlap,
the one that was delivered more often counts, and of two that were delivered equally often the one
with the higher state: a settled record stays settled, whichever report comes last.

Source: KIP-932; Kafka's PersisterStateBatchCombiner for what wins.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from tidelog.model import NO_OFFSET


class StateBatch(NamedTuple):
    """A run of records in one state."""

    first_offset: int
    last_offset: int
    """Inclusive."""
    delivery_state: int
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int


def combined(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Runs in order, without overlap, none of them below the start offset (-1 is none); neighbours
    in one state are one run."""
    pending = sorted(
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in batches
        if start_offset == NO_OFFSET or batch.last_offset >= start_offset
    )
    edges = sorted({edge for each in pending for edge in (each.first_offset, each.last_offset + 1)})
    # Those that reach beyond the present edge, the one that counts first; ended ones go when they
    # come up.
    open_: list[tuple[int, int, int]] = []
    found: list[StateBatch] = []
    taken = 0
    for edge, next_edge in pairwise(edges):
        while taken < len(pending) and pending[taken].first_offset == edge:
            _, last, state, count = pending[taken]
            heappush(open_, (-count, -state, last))
            taken += 1
        while open_ and open_[0][2] < edge:
            heappop(open_)
        if open_:
            _extend(found, StateBatch(edge, next_edge - 1, -open_[0][1], -open_[0][0]))
    return tuple(found)


def _extend(found: list[StateBatch], batch: StateBatch) -> None:
    """Puts a run behind the others."""
    last = found[-1] if found else None
    if last is not None and last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
        found[-1] = last._replace(last_offset=batch.last_offset)
    else:
        found.append(batch)
