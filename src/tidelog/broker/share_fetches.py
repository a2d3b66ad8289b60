"""A fetch of a member of a share group: what it asks for, what it has got, and whether it waits.

The records are read by a fetch of the replicas (`replication/fetch_path.py`), from the offset on at
which each share partition has something to deliver. So a member waits as any other consumer does:
for its `min_bytes`, until its deadline, woken by the high watermark. When a share partition has
something to deliver at another offset, because records were released, the read is begun anew.

Between a read and its answer another member may have acquired the records. Nothing is lost by that:
what is acquired is decided when the answer is there, and a member that got nothing reads again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tidelog.env.effects import Chunk
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.committed import contiguous
from tidelog.records.batch import LOG_OVERHEAD_BYTES, BatchHeader, iter_headers
from tidelog.replication.interest import Interest
from tidelog.sharing.acquiring import acquire
from tidelog.sharing.share_partition import SharePartition
from tidelog.sharing.values import Acquired, AcquireRequest, ShareKey, Span
from tidelog.wire.fetch import AbortedTransaction, FetchedPartition
from tidelog.wire.share_fetch import ShareFetched


@dataclass(slots=True, eq=False, kw_only=True)
class ShareFetchCall:
    """A fetch under way."""

    # What the member may acquire in each partition, but for what it has got of the others.
    request: AcquireRequest
    # The share partitions in the order in which they are served, with the names of their topics.
    wanted: dict[ShareKey, str]
    max_bytes: int
    min_bytes: int
    # When it is answered at the latest.
    deadline: Instant
    # Takes the answers of all partitions that have one; called once.
    on_done: Callable[[list[ShareFetched], Instant], None]
    # Whether the member is still there.
    is_open: Callable[[], bool]
    # What there is to say, by share partition.
    answers: dict[ShareKey, ShareFetched] = field(default_factory=dict)
    # Records acquired so far.
    count: int = 0
    # Whether it waits for nothing any more: something was acquired, or has failed.
    is_ready: bool = False
    is_done: bool = False
    # The read that is under way; the answers of others come too late.
    read: "ShareRead | None" = None
    # Of all its reads: a new one takes the place of the last one.
    interest: Interest = field(default_factory=lambda: Interest(by_id=False, standing=False))

    def fail(self, key: ShareKey, code: ErrorCode) -> None:
        """Nothing can be had of a partition."""
        self.answers[key] = ShareFetched(key.topic_id, key.partition, code, code.name)
        self.is_ready = True

    def take(
        self, share: SharePartition, offset: int, found: FetchedPartition, now: Instant
    ) -> None:
        """Acquires of what was read from an offset on."""
        data = _whole(found.records)
        batches = list(iter_headers(data))
        spans = [Span(header.base_offset, header.last_offset) for _, header in batches]
        request = self.request._replace(max_records=self.request.max_records - self.count)
        aborted = aborted_spans((header for _, header in batches), found.aborted or ())
        acquired = acquire(share, request, offset, spans, now, aborted)
        answer = ShareFetched(share.key.topic_id, share.key.partition)
        self.answers[share.key] = answer
        if not acquired:
            return
        self.count += sum(last - first + 1 for first, last, _ in acquired)
        self.is_ready = True
        begin, end = _bounds(batches, acquired, len(data))
        answer.acquired = acquired
        answer.records, answer.records_bytes = [memoryview(data)[begin:end]], end - begin


@dataclass(frozen=True, slots=True, eq=False)
class ShareRead:
    """A read under way: the `reply_to` of its fetch."""

    call: ShareFetchCall
    # What it reads for and where, by topic and partition number. A share partition that is loaded
    # anew does not know what was acquired, and takes nothing of what lies behind that.
    offsets: dict[tuple[str, int], tuple[SharePartition, int]]

    def is_at(self, topic: str, share: SharePartition) -> bool:
        """Whether it reads at the offset at which there is something to deliver."""
        return self.offsets.get((topic, share.key.partition)) == (share, share.next_offset())


def _whole(chunks: Sequence[Chunk]) -> bytes | memoryview:
    """The chunks as one; what was read of the tail of the log is one already."""
    if len(chunks) == 1 and isinstance(chunks[0], bytes | memoryview):
        return chunks[0]
    return contiguous(chunks)


def _bounds(
    batches: Iterable[tuple[int, BatchHeader]], acquired: Sequence[Acquired], size_bytes: int
) -> tuple[int, int]:
    """Where the record batches begin and end that hold what was acquired."""
    first, last = acquired[0].first, acquired[-1].last
    begin, end = 0, size_bytes
    for position, header in batches:
        if header.base_offset > last:
            end = position
            break
        if header.base_offset <= first:
            begin = position
        end = position + header.length + LOG_OVERHEAD_BYTES
    return begin, end


def aborted_spans(
    headers: Iterable[BatchHeader], aborted: Sequence[AbortedTransaction]
) -> list[Span]:
    """The record batches of aborted transactions, by what a read says of these."""
    if not aborted:
        return []
    ahead = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    open_by: set[int] = set()
    found: list[Span] = []
    for header in headers:
        while ahead and ahead[-1].first_offset <= header.last_offset:
            open_by.add(ahead.pop().producer_id)
        if header.is_control:
            open_by.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_by:
            found.append(Span(header.base_offset, header.last_offset))
    return found
