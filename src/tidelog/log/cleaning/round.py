"""One round of cleaning of one log, in steps that its caller may spread over any time.

Two passes. The first reads the dirty part and notes the newest offset of each key; it ends early
when the map is full. The second rewrites the log from its first segment up to where the first has
come, several small segments into one, by the rules of `rewriting.py`. Each new segment takes the
place of the old ones as soon as it is complete (`swap.py`).

Between two steps the log goes on: appends go to the active segment, which no round touches, and
readers have the old segments until the new one is in place. Retention stays away meanwhile (it
looks at `cleaning`), and a cut of the log ends the round (`end_for_cut`).

Invariants
- *CleansDecided* (`choosing.py`).
- The value of every key below the end is the same before and after, and so are all offsets.
- A log that is copied batch by batch has the leader epochs of the cleaned one (`rewriting.py`).
- A round that ends early, for whatever reason, has replaced whole groups of segments or nothing.

Source: Kafka's `Cleaner.doClean`, `groupSegmentsBySize`.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

from tidelog.limits import RECORDS_CLEANED_PER_STEP, RECORDS_OF_RUNS_PER_WORK
from tidelog.log.batch_file import MAX_RELATIVE_OFFSET, ScannedBatch
from tidelog.log.cleaning.choosing import Cleanable
from tidelog.log.cleaning.offset_map import OffsetMap
from tidelog.log.cleaning.rewriting import Rules, records_in, rewritten
from tidelog.log.cleaning.swap import CleanedFlush, Swap
from tidelog.log.cleaning.transactions import SeenTransactions
from tidelog.log.replacement import CLEANED_SUFFIX
from tidelog.log.segment import BatchSpan, Segment
from tidelog.log.state import LogState
from tidelog.log.txn_index import AbortedTxn
from tidelog.records.batch import BatchHeader, read_header
from tidelog.records.record_runs import Irregular, key_runs, keys_of, offsets_of
from tidelog.records.walking import walk_records

_BATCH_WORK: Final = 10
_WORK_BYTES: Final = 1000


class CleaningRound:
    """Cleans one log once."""

    def __init__(
        self,
        state: LogState,
        part: Cleanable,
        newest: OffsetMap,
        *,
        number: int,
        wall_ms: int,
        buffer_bytes: int,
        put_aside: Callable[[int], None],
    ) -> None:
        """`number` is another one for each round. `put_aside` takes the base offset of each
        segment whose files are now `.deleted`. Raises `StorageError`."""
        stable = state.last_stable_offset
        assert part.end <= stable, f"CleansDecided: {state.path} to {part.end}, stable is {stable}"
        self._state = state
        self._part = part
        self._newest = newest
        self._number = number
        self._wall_ms = wall_ms
        self._buffer_bytes = buffer_bytes
        self._put_aside = put_aside
        # The new segment that is being written; `None` before and after.
        self._written: Segment | None = None
        # Where leader epochs, and the new segment, began that the second pass has not reached; the
        # first one last.
        self._starts: list[int] = []
        # What puts a complete one in place; `None` while there is none.
        self._swap: Swap | None = None
        # Bytes that were read and written so far.
        self.moved_bytes = 0
        # Whether everything is done, or will not be.
        self.is_over = False
        self._work = self._steps()
        state.note_gaps()
        state.cleaning = self

    @property
    def waits(self) -> bool:
        """Whether it goes on only when a flush is answered."""
        return self._swap is not None and not self._swap.is_done

    @property
    def got_nowhere(self) -> bool:
        """Whether it has looked at no offset: its first batch is not wholly below the end, or has
        more records than the map."""
        return self._newest.end_offset <= self._part.dirty_start

    def step(self, work: int) -> None:
        """Goes on for so much work or until it waits. Raises `StorageError`, `LogDamaged`, and
        `CorruptBatch` for records that cannot be read; give it up then."""
        while work > 0 and not self.waits and not self.is_over:
            work -= next(self._work, work)

    def on_flushed(self, subject: CleanedFlush) -> None:
        """A file is durable. Raises `StorageError`."""
        if self._swap is not None:
            self._swap.on_flushed(subject)

    def give_up(self) -> None:
        """Ends the round. What is complete stays; of the rest nothing is left."""
        self._end()
        if self._written is not None:
            self._written.delete()
            self._written = None
        if self._swap is not None:
            self._swap.undo_or_finish()

    def end_for_cut(self) -> None:
        """The log is about to be cut."""
        self.give_up()

    def abandon(self) -> None:
        """The log was closed or its directory has another name: only releases the files."""
        self._end()
        if self._written is not None:
            self._written.close()
        if self._swap is not None:
            self._swap.close()

    def _end(self) -> None:
        self.is_over = True
        self._work.close()
        if self._state.cleaning is self:
            self._state.cleaning = None

    # The two passes -------------------------------------------------------------------------

    def _steps(self) -> Generator[int, None, None]:
        """The whole round; yields the work done since the last time."""
        yield from self._note_keys()
        yield from self._newest.mark_newest()
        end = self._newest.end_offset
        seen = SeenTransactions()
        rules = self._rules()
        self._starts = [start for _, start in reversed(self._state.epochs.entries)]
        for group in self._groups(end):
            yield from self._rewrite(group, rules, seen)
            yield 1
        self._state.cleaned_to = max(self._state.cleaned_to, end)
        self.is_over = True
        self._state.cleaning = None

    def _note_keys(self) -> Iterator[int]:
        start, end = self._part.dirty_start, self._part.end
        newest, seen = self._newest, SeenTransactions()
        newest.begin(start)
        segments = [one for one in self._segments_from(start) if one.base_offset < end]
        for segment in segments:
            # The marker of one that has ended before would never be met.
            aborted = self._aborted_in(segment)
            seen.expect(one for one in aborted if one.last_offset >= start)
            position = segment.locate(start)
            for batch in segment.batches.scan(position) if position is not None else ():
                header = batch.header
                if header.last_offset >= end or not newest.has_room(header.record_count):
                    # Offsets that are missing in front of it count as looked at.
                    newest.end_offset = max(newest.end_offset, min(header.base_offset, end))
                    return
                self.moved_bytes += header.size_bytes
                yield _work_of(header)
                if header.is_control:
                    seen.on_control(header, batch.data)
                elif not seen.on_data(header):
                    yield from self._note_keys_of(batch)
                newest.end_offset = header.last_offset + 1
        # Offsets that are missing at the end of the last segment count as looked at.
        newest.end_offset = end

    def _note_keys_of(self, batch: ScannedBatch) -> Iterator[int]:
        """Of one batch; yields the work."""
        newest, header = self._newest, batch.header
        base_offset, count = header.base_offset, header.record_count
        newest.begin_batch(header)
        body, at = records_in(batch)
        if base_offset >= self._part.dirty_start:
            with suppress(Irregular):
                for run, held in key_runs(body, count, RECORDS_CLEANED_PER_STEP, at):
                    if run.has_keys:
                        offsets = offsets_of(run, base_offset)
                        newest.put_all(keys_of(run, held), offsets, has_values=run.has_values)
                    yield len(run.deltas) // RECORDS_OF_RUNS_PER_WORK
                return
        # What was noted already is noted once more.
        records = walk_records(body, count, at)
        while some := list(islice(records, RECORDS_CLEANED_PER_STEP)):
            newest.put(some, base_offset)
            yield len(some)

    def _segments_from(self, offset: int) -> list[Segment]:
        return self._state.segments.covering(offset)[:-1]

    def _aborted_in(self, segment: Segment) -> list[AbortedTxn]:
        """Aborted transactions that touch a segment."""
        state = self._state
        upper = next(
            (one.base_offset for one in state.segments if one.base_offset > segment.base_offset),
            state.log_end_offset,
        )
        found: list[AbortedTxn] = []
        for one in state.segments.covering(segment.base_offset):
            if one.txn_index.collect(segment.base_offset, upper, found):
                break
        return found

    def _rules(self) -> Rules:
        state = self._state
        last = {
            entry.producer_id: (entry.last_offset, entry.producer_epoch)
            for entry in state.producers.by_id.values()
        }
        kept_ends = frozenset((self._newest.end_offset, state.high_watermark, state.log_end_offset))
        retention_ms = state.config.delete_retention_ms
        decided_end, wall_ms = self._part.end, self._wall_ms
        return Rules(self._newest, decided_end, wall_ms, retention_ms, kept_ends, last)

    def _groups(self, end: int) -> Iterator[list[Segment]]:
        """Neighbours that fit one segment together, the oldest first."""
        config = self._state.config
        group: list[Segment] = []
        size_bytes = index_bytes = 0
        segments = self._state.segments
        sealed = [one for one in segments if one.base_offset < end and one is not segments.active]
        ends = [*(one.base_offset for one in list(segments)[1:]), self._state.log_end_offset]
        for segment, next_base in zip(sealed, ends, strict=False):
            its_index_bytes = max(8 * len(segment.offset_index), 12 * len(segment.time_index))
            fits = (
                size_bytes + segment.size_bytes <= config.segment_bytes
                and index_bytes + its_index_bytes <= config.segment_index_bytes
                and bool(group)
                and next_base - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET
            )
            if group and not fits:
                yield group
                group, size_bytes, index_bytes = [], 0, 0
            group.append(segment)
            size_bytes += segment.size_bytes
            index_bytes += its_index_bytes
        if group:
            yield group

    def _rewrite(self, group: list[Segment], rules: Rules, seen: SeenTransactions) -> Iterator[int]:
        state = self._state
        written = Segment(
            state.env.disk,
            state.path,
            group[0].base_offset,
            state.config,
            second_suffix=CLEANED_SUFFIX,
        )
        self._written = written
        written.file.truncate(0)
        written.txn_index.reset()
        # Its end shows a start which segments it stands for, and it never has no batches at all.
        # Its first batch shows its epoch to a follower, when the log begins here one day.
        rules = replace(rules, kept_ends=rules.kept_ends | {_end_of(group)})
        self._starts.append(group[0].base_offset)
        pending: list[bytes] = []
        pending_bytes = 0
        for segment in group:
            seen.expect(self._aborted_in(segment))
            for batch in segment.batches.scan():
                header = batch.header
                kept: bytes | int = b""
                used = rules
                if self._reaches_start(header):
                    used = replace(rules, kept_ends=rules.kept_ends | {header.last_offset + 1})
                for kept in rewritten(batch, used, seen):
                    if isinstance(kept, int):
                        yield kept
                assert isinstance(kept, bytes), "a batch without an outcome"
                for transaction in seen.kept:
                    written.txn_index.append(transaction)
                seen.kept.clear()
                self.moved_bytes += header.size_bytes
                if kept:
                    pending.append(kept)
                    pending_bytes += len(kept)
                    if pending_bytes >= self._buffer_bytes:
                        self._append(pending)
                        pending_bytes = 0
                yield _work_of(header)
        self._append(pending)
        self._begin_swap(group)
        yield 1

    def _reaches_start(self, header: BatchHeader) -> bool:
        """Whether a leader epoch or the new segment begins with this batch, or in a hole before."""
        starts, count = self._starts, len(self._starts)
        while starts and starts[-1] <= header.last_offset:
            starts.pop()
        return len(starts) < count

    def _append(self, pending: list[bytes]) -> None:
        """Writes the batches that stay, and forgets them."""
        if not pending:
            return
        assert self._written is not None, "no segment is being written"
        spans = []
        for data in pending:
            header = read_header(data)
            spans.append(
                BatchSpan(header.base_offset, header.last_offset, header.max_timestamp, len(data))
            )
        whole = b"".join(pending)
        self._written.append(whole, spans, self._state.config.index_interval_bytes)
        self.moved_bytes += len(whole)
        pending.clear()

    def _begin_swap(self, group: list[Segment]) -> None:
        written, self._written = self._written, None
        assert written is not None, "no segment was written"
        self._swap = Swap(self._state, self._number, group, written, self._put_aside)
        self._swap.begin()


def _work_of(header: BatchHeader) -> int:
    """The work of one batch besides its records."""
    return _BATCH_WORK + header.size_bytes // _WORK_BYTES


def _end_of(group: list[Segment]) -> int:
    """One past the last batch of neighbours."""
    for segment in reversed(group):
        if segment.size_bytes:
            return segment.next_offset()
    return group[-1].base_offset
