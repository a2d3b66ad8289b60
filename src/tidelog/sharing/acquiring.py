"""Which of the records that were read a member gets.

What is in flight and available comes first; then, if the read reaches beyond the end of the share
partition and locks are left, what is new.

- The limit of records is rounded up to whole record batches, because members handle whole batches
  best, unless it is *strict*: then what is left of a batch is available to others.
- What is new is cut into ranges of about `batch_size` offsets, at the borders of record batches.
  Members acknowledge ranges best as a whole.
- Where `max_locks` records are in flight nothing new is acquired. What is available in between is.
- A record that was delivered half as often as it may be (`throttled_from`) is delivered in company
  of fewer others from one delivery to the next, and alone at its last one. So one record that no
  member can process does not use up the deliveries of its neighbours.
- With `committed_only` the records of aborted transactions are archived, not delivered.

Source: KIP-932, KIP-1206; Kafka's rules for throttled deliveries.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tidelog.env.instant import Instant
from tidelog.sharing.in_flight import Batch
from tidelog.sharing.share_partition import SharePartition
from tidelog.sharing.values import Acquired, AcquireRequest, RecordState, Span


def acquire(
    share: SharePartition,
    request: AcquireRequest,
    fetch_offset: int,
    spans: Sequence[Span],
    now: Instant,
    aborted: Iterable[Span] = (),
) -> list[Acquired]:
    """Acquires of the record batches that a read from `fetch_offset` on gave; `aborted` are those
    of them whose transactions were aborted. Returns the offsets that the member has now, ascending.
    """
    if request.max_records <= 0 or not spans or spans[-1].last < share.start:
        return []
    first, last = spans[0].first, spans[-1].last
    most = min(request.max_records, share.settings.max_locks - share.in_flight)
    if most <= 0:
        if fetch_offset >= share.end:
            return []
        most = min(request.max_records, share.end - fetch_offset)
        last = min(last, share.end - 1)
    if fetch_offset < first and share.archive(fetch_offset, first - 1, RecordState.AVAILABLE):
        # The log has none of these batches any more.
        share.advance()
    taking = _Taking(share, request, spans, most, now)
    taking.take_available(first, last)
    taking.take_new(first, last)
    kept = taking.acquired
    for span in aborted:
        if share.archive(span.first, span.last, RecordState.ACQUIRED):
            kept = _without(kept, span)
    if kept is not taking.acquired:
        share.advance()
    return kept


@dataclass(slots=True, eq=False)
class _Taking:
    """One member's turn."""

    share: SharePartition
    request: AcquireRequest
    # The record batches that were read.
    spans: Sequence[Span]
    # Records that may be taken; what is taken may go beyond it, by part of a record batch.
    most: int
    now: Instant
    acquired: list[Acquired] = field(default_factory=list)
    # How many of them there are.
    count: int = 0

    def take_available(self, first: int, last: int) -> None:
        """Takes what was released, or never acquired, within a range."""
        limit = self.share.settings.throttled_from
        for batch in self.share.overlapping(first, last):
            if self.count >= self.most:
                return
            counts = [
                part.delivery_count
                for part in batch.parts
                if part.is_available and part.last >= first and part.first <= last
            ]
            if not counts:
                continue
            throttled = max(counts) >= limit
            if throttled and self.count:
                # It comes by itself, in the next turn.
                self.most = 0
                return
            self._take_of(batch, first, last)
            if throttled:
                self.most = 0

    def _take_of(self, batch: Batch, first: int, last: int) -> None:
        """Takes what is available of a batch."""
        settings = self.share.settings
        until = Instant(self.now + settings.lock_ms)
        taken, cap = 0, None
        for part in batch.within(first, last):
            if not part.is_available:
                continue
            count, size = part.delivery_count, part.last - part.first + 1
            is_last_time = settings.delivery_count_limit > 2 and (
                count == settings.delivery_count_limit - 1
            )
            if is_last_time and taken:
                break
            if count >= settings.throttled_from and cap is None:
                cap = max(1, batch.size >> (count - settings.throttled_from + 1))
            if is_last_time:
                size = 1
            if cap is not None:
                size = min(size, cap - taken)
            if self.request.strict:
                size = min(size, self.most - self.count)
            elif count == 0:
                size = min(size, self._rounded(part.first, self.most - self.count))
            if size <= 0:
                break
            batch.cut(part, size)
            part.acquire(self.request.member_id, until)
            self.share.note_lock(until)
            self._note(part.first, part.last, part.delivery_count, fresh=not taken)
            taken += size
            if is_last_time or taken == cap:
                break
        batch.join()

    def _note(self, first: int, last: int, delivery_count: int, *, fresh: bool) -> None:
        """The member has these; neighbours of one batch that were delivered as often are one."""
        self.count += last - first + 1
        if not fresh and self.acquired[-1][1:] == (first - 1, delivery_count):
            first = self.acquired.pop().first
        self.acquired.append(Acquired(first, last, delivery_count))

    def _rounded(self, first: int, count: int) -> int:
        """At least `count` offsets from `first` on, up to the end of a record batch."""
        if count <= 0:
            return 0
        wanted = first + count - 1
        for span in self.spans:
            if span.first <= wanted <= span.last:
                return span.last - first + 1
        return count

    def take_new(self, first: int, last: int) -> None:
        """Takes what was never acquired, at the end of the share partition."""
        share = self.share
        begin = max(first, share.end)
        count = self.most - self.count
        if count <= 0 or begin > last:
            return
        if last - begin + 1 > count:
            last = begin + self._rounded(begin, count) - 1
        if self.request.strict:
            count = min(count, last - begin + 1)
            share.append([Span(begin, last)], count, self.request.member_id, self.now)
            self._note(begin, begin + count - 1, 1, fresh=True)
            return
        pieces = self._pieces(begin, last)
        share.append(pieces, last - begin + 1, self.request.member_id, self.now)
        for piece in pieces:
            self._note(piece.first, piece.last, 1, fresh=True)

    def _pieces(self, begin: int, last: int) -> list[Span]:
        """A range, cut at record batches into pieces of at least the wanted size."""
        pieces: list[Span] = []
        size = self.request.batch_size
        if last - begin + 1 > size:
            for span in self.spans:
                if span.first > last:
                    break
                if span.first - begin >= size:
                    pieces.append(Span(begin, span.first - 1))
                    begin = span.first
        pieces.append(Span(begin, last))
        return pieces


def _without(acquired: Iterable[Acquired], gone: Span) -> list[Acquired]:
    """What is left of ranges without the offsets of a record batch."""
    kept: list[Acquired] = []
    for first, last, count in acquired:
        if last < gone.first or first > gone.last:
            kept.append(Acquired(first, last, count))
            continue
        if first < gone.first:
            kept.append(Acquired(first, gone.first - 1, count))
        if last > gone.last:
            kept.append(Acquired(gone.last + 1, last, count))
    return kept
