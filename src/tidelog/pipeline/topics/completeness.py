"""Completeness: do the batches of a Fetch response hold every record?

Offsets of a partition have no gaps unless the topic is compacted. So batches must follow each
other without a gap, and a batch must hold as many records as it spans offsets; the decoder checks
that its records ascend within that span. Together: no record is missing. Control batches and
aborted transactions take offsets like any other.
"""

import numpy as np

from tidelog.pipeline.batches import BatchTable


def first_gap(table: BatchTable, position: int, end: int) -> str | None:
    """The first place where offsets from `position` up to `end` are missing from these batches, as
    text; `None` when all are there."""
    bases, lasts = table.base_offsets, table.last_offsets
    expected = np.concatenate(([position], lasts[:-1] + 1))
    gaps = bases > expected
    gaps |= (np.arange(len(table)) > 0) & (bases < expected)
    gaps &= expected < end
    if gaps.any():
        first = int(np.flatnonzero(gaps)[0])
        return (
            f"offset {int(expected[first])} should follow, but the next batch begins at "
            f"{int(bases[first])}"
        )
    counts = table.field("record_count")
    thinned = (counts != lasts - bases + 1) & (bases < end)
    if thinned.any():
        first = int(np.flatnonzero(thinned)[0])
        return (
            f"the batch of offsets {int(bases[first])} to {int(lasts[first])} holds "
            f"{int(counts[first])} records"
        )
    return None
