"""What may be missing of a log that a cleaner was in, and what may not.

A cleaner rewrites batches and drops records, so a compacted log cannot be compared with the true
log batch by batch. It is compared by content: what is there is the truth, and what is not there is
gone for the right reason.

| missing | right reason |
| --- | --- |
| a record with a value | a committed record of the same key is newer |
| a tombstone | the same, or `delete.retention.ms` has passed since it was written |
| a record without a key | none is needed |
| a record of an aborted transaction | none is needed |
| a control batch | none is needed: what depends on it is judged by what readers are shown |

Of a transaction that is still open nothing may be missing, and nothing in it supersedes others.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.log.log import Log
from tidelog.model import NO_PRODUCER_ID
from tidelog.records.batch import decode_body, iter_headers
from tidelog.records.control import EndTxnMarker, read_end_txn_marker
from tidelog.records.record import Record


class CleanedBatch(NamedTuple):
    """A batch, and what is in it."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    records: tuple[Record, ...]
    """None of a control batch."""
    transaction_of: int = NO_PRODUCER_ID
    """The producer whose transaction it belongs to, or ends."""
    marker: EndTxnMarker | None = None


def read_batches(data: bytes) -> Iterator[CleanedBatch]:
    """The batches of a piece of a log."""
    for position, header in iter_headers(data):
        yield CleanedBatch(
            header.base_offset,
            header.last_offset,
            header.leader_epoch,
            () if header.is_control else tuple(decode_body(data, position, header)),
            header.producer_id if header.is_transactional else NO_PRODUCER_ID,
            read_end_txn_marker(data, position) if header.is_control else None,
        )


def _fates(batches: list[CleanedBatch]) -> dict[int, bool]:
    """Of the batches by their base offset: whether their transaction was committed; without one
    they count as committed. Those of open transactions are left out."""
    fates: dict[int, bool] = {}
    undecided: dict[int, list[int]] = {}
    for batch in batches:
        if batch.marker is not None:
            ended = undecided.pop(batch.transaction_of, [])
            fates |= dict.fromkeys(ended, batch.marker.is_commit)
        elif batch.transaction_of == NO_PRODUCER_ID:
            fates[batch.base_offset] = True
        else:
            undecided.setdefault(batch.transaction_of, []).append(batch.base_offset)
    return fates


def complaint(
    log: Log, held: list[CleanedBatch], true: list[CleanedBatch], end: int, wall_ms: int
) -> str | None:
    """What is wrong with the batches that a cleaned log holds of a part of the true log, up to
    `end`; `true` has at least that part, and all that is committed behind it."""
    known = {batch.base_offset: batch for batch in true}
    fates = _fates(true)
    newest = {
        record.key: record.offset
        for batch in true
        if fates.get(batch.base_offset)
        for record in batch.records
    }
    there: set[int] = set()
    for batch in held:
        original = known.get(batch.base_offset)
        if original is None or original[:3] != batch[:3]:
            return f"it has {batch[:3]}, committed is {original and original[:3]}"
        if not set(batch.records) <= set(original.records):
            return f"records of the batch at {batch.base_offset} are not those that are committed"
        there |= {record.offset for record in batch.records}
    for batch in true:
        for record in batch.records if batch.last_offset < end else ():
            if record.offset in there or record.key is None:
                continue
            is_committed = fates.get(batch.base_offset)
            if is_committed is None:
                return f"a record of an open transaction is missing, offset {record.offset}"
            if not is_committed or record.offset < newest[record.key]:
                continue
            retention_ms = log.config.delete_retention_ms
            if record.value is None and record.timestamp + retention_ms <= wall_ms:
                continue
            return f"the newest record of {record.key!r} is missing, offset {record.offset}"
    return None
