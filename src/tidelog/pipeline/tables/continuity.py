"""Continuity: do the rows of a batch account for every offset that the batch was to read?

A batch of the ingest has a *planned range* `[start, end)` per partition, which Spark logs before
the batch reads anything. The tasks that write the rows report a *piece* per partition: the number
of rows, the first and last offset, the epochs. `judge` compares the pieces with the plan and with
the table's positions. It makes one line per partition, which goes into the table's commit and into
the table `_continuity`.

An offset of the range is a row, a row of the quarantine (it does not parse), a control record (a
transaction marker, which is not a row), or a gap. A gap is explained only where the topic is
compacted.

| status | meaning |
| --- | --- |
| `ok` | rows, quarantined and control records are exactly the range |
| `compacted` | offsets are missing, and the topic is compacted |
| `GAP` | offsets are missing without a reason, here or since the batch before |
| `EPOCH_REGRESSION` | a leader epoch is lower than one at a smaller offset |
| `DUPLICATE` | an offset came twice, or the table has it already |

The last three are violations. A duplicate is never written, because the table must hold each record
once; the other two are facts about the topic, and are written and reported. Left out: whether the
bytes of a record are right; the reader checks the CRC of every batch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog.model import NO_EPOCH, NO_OFFSET, TopicPartition
from tidelog.pipeline.spark_columns import arrow_schema
from tidelog.pipeline.values import OffsetRange

OK: Final = "ok"
COMPACTED: Final = "compacted"
GAP: Final = "GAP"
EPOCH_REGRESSION: Final = "EPOCH_REGRESSION"
DUPLICATE: Final = "DUPLICATE"
VIOLATIONS: Final = frozenset((GAP, EPOCH_REGRESSION, DUPLICATE))

CONTINUITY_SCHEMA: Final = arrow_schema(
    "topic string, partition int, start bigint, end bigint, rows bigint, control_rows bigint, "
    "gap_rows bigint, min_epoch int, max_epoch int, batch bigint, status string, app string, "
    "quarantined_rows bigint, grown_rows bigint"
)
"""`start` inclusive, `end` exclusive; the epochs are null for a range without rows; `app` names
the checkpoint whose batch it was. Null in `grown_rows` means as many as `rows`."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The records of one partition that one task observed, in its order."""

    topic: str
    partition: int
    first: int
    last: int
    """The largest offset, inclusive."""
    rows: int
    control_rows: int
    min_epoch: int
    max_epoch: int
    repeats: int
    """Records whose offset was not larger than that of the record before."""
    regressions: int
    """Records whose leader epoch was smaller than that of the record before."""
    quarantined_rows: int = 0


@dataclass(frozen=True, slots=True)
class TablePosition:
    """The position of a table in one partition."""

    end: int
    """Exclusive."""
    epoch: int
    """The highest leader epoch among its rows; -1 when there were none."""


@dataclass(frozen=True, slots=True)
class Continuity:
    """The account of one partition in one batch; a row of `CONTINUITY_SCHEMA` without `app`."""

    topic: str
    partition: int
    start: int
    end: int
    rows: int
    control_rows: int
    gap_rows: int
    min_epoch: int | None
    max_epoch: int | None
    batch: int
    status: str
    quarantined_rows: int = 0
    """Accounts of tables from before there was a quarantine do not have it."""
    grown_rows: int | None = None
    """By how many rows a table of upserts grew, of which `rows` counts the changes; `None` for a
    table that has a row for each record."""

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def is_violation(self) -> bool:
        return self.status in VIOLATIONS

    def __str__(self) -> str:
        epochs = "" if self.min_epoch is None else f", epochs {self.min_epoch} to {self.max_epoch}"
        quarantined = f"{self.quarantined_rows} quarantined, " if self.quarantined_rows else ""
        return (
            f"{self.status} `{self.topic}-{self.partition}` [{self.start}, {self.end}) in batch "
            f"{self.batch}: {self.rows} rows, {self.control_rows} control records, "
            f"{quarantined}{self.gap_rows} missing{epochs}"
        )


class Observer:
    """Counts rows as they are written, a piece per partition."""

    def __init__(self) -> None:
        # By topic and partition, in the order in which they were first seen.
        self._pieces: dict[tuple[str, int], Piece] = {}

    def observe(self, rows: pa.RecordBatch, quarantined: Any = None) -> None:
        """Takes rows with `topic, partition, offset, leader_epoch, is_control`. `quarantined` has
        a boolean for each row."""
        if quarantined is None:
            quarantined = np.zeros(len(rows), bool)
        if not len(rows):
            return
        topics = rows.column("topic").dictionary_encode()
        numbers = topics.indices.to_numpy(zero_copy_only=False)
        partitions = _ints(rows, "partition")
        changes = (np.diff(numbers) != 0) | (np.diff(partitions) != 0)
        edges = np.concatenate(([0], np.flatnonzero(changes) + 1, [len(rows)]))
        for start, end in pairwise(edges.tolist()):
            topic = topics.dictionary[int(numbers[start])].as_py()
            piece = _piece(topic, int(partitions[start]), rows.slice(start, end - start))
            bad = int(quarantined[start:end].sum())
            self._add(replace(piece, rows=piece.rows - bad, quarantined_rows=bad))

    def pieces(self) -> list[Piece]:
        return list(self._pieces.values())

    def _add(self, piece: Piece) -> None:
        key = (piece.topic, piece.partition)
        before = self._pieces.get(key)
        self._pieces[key] = piece if before is None else joined(before, piece)


def joined(before: Piece, after: Piece) -> Piece:
    """Two pieces of one partition as one; `after` was observed, or lies, behind `before`."""
    return Piece(
        before.topic,
        before.partition,
        first=min(before.first, after.first),
        last=max(before.last, after.last),
        rows=before.rows + after.rows,
        control_rows=before.control_rows + after.control_rows,
        min_epoch=min(before.min_epoch, after.min_epoch),
        max_epoch=max(before.max_epoch, after.max_epoch),
        repeats=before.repeats + after.repeats + (after.first <= before.last),
        regressions=before.regressions + after.regressions + (after.min_epoch < before.max_epoch),
        quarantined_rows=before.quarantined_rows + after.quarantined_rows,
    )


def _piece(topic: str, partition: int, rows: pa.RecordBatch) -> Piece:
    offsets, epochs = _ints(rows, "offset"), _ints(rows, "leader_epoch")
    controls = int(rows.column("is_control").true_count)
    return Piece(
        topic,
        partition,
        first=int(offsets.min()),
        last=int(offsets.max()),
        rows=len(rows) - controls,
        control_rows=controls,
        min_epoch=int(epochs.min()),
        max_epoch=int(epochs.max()),
        repeats=int((np.diff(offsets) <= 0).sum()),
        regressions=int((np.diff(epochs) < 0).sum()),
    )


def _ints(rows: pa.RecordBatch, name: str) -> Any:
    return rows.column(name).to_numpy(zero_copy_only=False).astype(np.int64)


def judge(
    planned: Sequence[OffsetRange],
    pieces: Iterable[Piece],
    before: Mapping[TopicPartition, TablePosition],
    *,
    compacted: bool,
    batch: int,
) -> list[Continuity]:
    """The account of a batch: a line per planned range, and one for each partition that was read
    without a plan. A planned start of -1 is unknown, because the partition is new. The range then
    begins where the table ends, or at the first record that was read."""
    found: dict[TopicPartition, Piece] = {}
    for piece in sorted(pieces, key=lambda one: (one.topic, one.partition, one.first, one.last)):
        tp = TopicPartition(piece.topic, piece.partition)
        found[tp] = joined(found[tp], piece) if tp in found else piece
    ranges = {one.tp: one for one in planned}
    for tp in found.keys() - ranges.keys():
        ranges[tp] = OffsetRange(*tp, found[tp].first, found[tp].first)
    account = []
    for tp, wanted in sorted(ranges.items()):
        seen, known = found.get(tp), before.get(tp)
        if wanted.start == NO_OFFSET:
            first = wanted.end if seen is None else seen.first
            wanted = replace(wanted, start=first if known is None else known.end)
        rows, control_rows = (0, 0) if seen is None else (seen.rows, seen.control_rows)
        quarantined = 0 if seen is None else seen.quarantined_rows
        low, high = (None, None) if seen is None else (seen.min_epoch, seen.max_epoch)
        gaps = wanted.length - rows - quarantined - control_rows
        status = _status(wanted, seen, known, gaps, compacted=compacted)
        counts = rows, control_rows, max(gaps, 0)
        line = Continuity(*tp, wanted.start, wanted.end, *counts, low, high, batch, status)
        account.append(replace(line, quarantined_rows=quarantined))
    return account


def _status(
    wanted: OffsetRange,
    piece: Piece | None,
    before: TablePosition | None,
    gap_rows: int,
    *,
    compacted: bool,
) -> str:
    """The first status that holds, from the worst on."""
    if before is not None and wanted.start < before.end:
        return DUPLICATE
    if piece is not None:
        if piece.repeats or piece.first < wanted.start or piece.last >= wanted.end:
            return DUPLICATE
        if piece.regressions or (before is not None and piece.min_epoch < before.epoch):
            return EPOCH_REGRESSION
    if before is not None and wanted.start > before.end:
        return GAP
    if gap_rows:
        return COMPACTED if compacted else GAP
    return OK


def positions_after(
    before: Mapping[TopicPartition, TablePosition], account: Iterable[Continuity]
) -> dict[TopicPartition, TablePosition]:
    """The table's positions after the commit of the batch of this account."""
    after = dict(before)
    for line in account:
        known = after.get(line.tp, TablePosition(line.start, NO_EPOCH))
        epoch = NO_EPOCH if line.max_epoch is None else line.max_epoch
        after[line.tp] = TablePosition(max(known.end, line.end), max(known.epoch, epoch))
    return after


def continuity_table(account: Iterable[Continuity], app: str) -> pa.Table:
    """The account as rows of `CONTINUITY_SCHEMA`."""
    rows = [{**asdict(line), "app": app} for line in account]
    return pa.Table.from_pylist(rows, schema=CONTINUITY_SCHEMA)
