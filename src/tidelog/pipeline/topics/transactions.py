"""What a `read_committed` reader must not see: the records of aborted transactions.

A Fetch with that isolation level ends below the last stable offset, so every transaction in it is
decided, and its answer lists the aborted ones that reach into it, even those begun before: producer
and first offset. A transaction of a producer ends at its marker, a control batch. So, walking the
batches in order: a producer is *aborting* from the first offset of an entry on, until its next
marker; its transactional batches meanwhile are invisible. One producer may abort several times in
one answer, with committed transactions between.

Such batches are not cut out but *hidden*: they get the control flag. So the decoder leaves them out
with the markers, and a caller that accounts for every offset gets both.
Source: KIP-98, `AbortedTransactions` of Fetch.
"""

from collections.abc import Sequence

import numpy as np

from tidelog.pipeline.batches import BatchTable
from tidelog.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from tidelog.wire.fetch import AbortedTransaction


def hide_aborted(table: BatchTable, aborted: Sequence[AbortedTransaction]) -> BatchTable:
    """The same batches, those of aborted transactions with the control flag in their row; the
    bytes in the buffer stay as they are."""
    if not aborted:
        return table
    attributes, producers = table.field("attributes"), table.field("producer_id")
    lasts = table.last_offsets
    pending = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
    aborting: set[int] = set()
    hidden = []
    for row in np.flatnonzero(attributes & TRANSACTIONAL_FLAG).tolist():
        while pending and pending[-1].first_offset <= lasts[row]:
            aborting.add(pending.pop().producer_id)
        producer = int(producers[row])
        if attributes[row] & CONTROL_FLAG:
            aborting.discard(producer)
        elif producer in aborting:
            hidden.append(row)
    headers = table.headers.copy()
    headers["attributes"][hidden] |= CONTROL_FLAG
    return BatchTable(table.buffer, table.positions, headers, table.end)
