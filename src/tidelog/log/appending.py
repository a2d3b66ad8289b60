"""The append path: of leaders, which stamp one batch at a time, and of followers, which copy.

Both write the file with one call, then take the batch into indexes, epoch cache, producer state and
tail cache. Every check that can refuse a batch comes before the write. What follows the write
can fail only by the device.

Invariants
- Offsets of batches strictly increase; a hole can only come from compaction on a leader, and is
  noted before it is written.
- A failed append leaves no trace: the disk cuts the file back, and nothing else was changed. From
  then on every append raises `StorageError`.

Source: KIP-98; Kafka's `UnifiedLog.append`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.env.disk import Buffer
from tidelog.errors import CorruptBatch, StorageError
from tidelog.log.batch_file import MAX_RELATIVE_OFFSET
from tidelog.log.replay import read_marker_or_none
from tidelog.log.rolling import request_flush, roll
from tidelog.log.segment import BatchSpan
from tidelog.log.state import LogState
from tidelog.log.truncation import truncate_fully_and_start_at
from tidelog.log.validation import Judged, judge
from tidelog.log.values import AppendOrigin, AppendResult, FollowerAppend
from tidelog.model import NO_TIMESTAMP
from tidelog.records import batch as batches
from tidelog.records.batch import BatchHeader, read_header
from tidelog.records.control import EndTxnMarker, read_end_txn_marker

# Leaders -----------------------------------------------------------------------------------


def append_as_leader(
    state: LogState,
    records: Buffer,
    leader_epoch: int,
    wall_ms: int,
    *,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    bumps_epoch: bool = False,
    judged: Judged | None = None,
) -> AppendResult:
    """Appends exactly one batch: validated if a client sent it, stamped always. A duplicate of an
    idempotent producer is not appended; the result has the offsets of the first append. Raises
    `ProtocolError` (`InvalidRecords` lists the refused records where it can) and leaves the log
    untouched, or `StorageError`. `records` is not kept.

    `bumps_epoch`: a marker brings the epoch of the producer's next transaction (KIP-890).
    `judged`: the batch was validated already."""
    if origin is AppendOrigin.CLIENT:
        found = judged
        if found is None:
            found = judge(records, state.topic_partition, state.config, wall_ms)
        assert found is not None, f"{state.topic_partition}: a batch was not looked into"
        state.inspection_work += found.work
        header = found.header
        if found.records is not None:
            records = found.records
    else:
        header = read_header(records)
        assert header.size_bytes == len(records), f"{len(records)} bytes, one batch expected"
    marker: EndTxnMarker | None = None
    if header.producer_id >= 0 and origin is not AppendOrigin.RAFT:
        if header.attributes & batches.CONTROL_FLAG:
            marker = read_end_txn_marker(records)
            if marker is not None:
                state.producers.check_marker(header, marker, bumps_epoch=bumps_epoch)
        else:
            earlier = state.producers.admit(header, origin)
            if earlier is not None:
                first, last = earlier.first_offset, earlier.last_offset
                is_stamped = state.config.message_timestamp_type != "CreateTime"
                append_time_ms = earlier.timestamp if is_stamped else NO_TIMESTAMP
                return AppendResult(first, last, append_time_ms, True, 0)
    return _append_stamped(state, records, header, marker, leader_epoch, wall_ms)


def _append_stamped(
    state: LogState,
    records: Buffer,
    header: BatchHeader,
    marker: EndTxnMarker | None,
    leader_epoch: int,
    wall_ms: int,
) -> AppendResult:
    latest_epoch = state.epochs.latest_epoch
    assert leader_epoch >= latest_epoch, (
        f"{state.topic_partition}: epoch {leader_epoch} < {latest_epoch}"
    )
    base_offset = state.log_end_offset
    append_time_ms = NO_TIMESTAMP
    max_timestamp = header.max_timestamp
    if state.config.message_timestamp_type == "CreateTime":
        data = batches.stamp(records, base_offset, leader_epoch)
    else:
        append_time_ms = max_timestamp = wall_ms
        data = batches.stamp_log_append_time(records, base_offset, leader_epoch, wall_ms)
    last_offset = base_offset + header.last_offset_delta
    span = BatchSpan(base_offset, last_offset, max_timestamp, len(data))
    _write(state, data, (span,), wall_ms)
    if leader_epoch != state.epochs.saved_epoch:
        state.epochs.assign(leader_epoch, base_offset)
    _take_in(state, header, span, data, marker)
    return AppendResult(base_offset, last_offset, append_time_ms, False, len(data))


# Followers ---------------------------------------------------------------------------------


class FetchedBatches(NamedTuple):
    """The batches at the head of a fetch response that may be appended, in order."""

    headers: list[BatchHeader]
    spans: list[BatchSpan]
    end: int
    """Where they end in the response."""


def append_as_follower(state: LogState, records: Buffer, max_epoch: int) -> FollowerAppend:
    """Appends whole batches as the leader sent them, offsets and epochs included.

    A cut last batch is ignored. From the first batch with an epoch above `max_epoch` (the one
    in which the fetch was made) everything is skipped: it belongs to a leadership that this
    replica has not yet reconciled with (KAFKA-18723).

    Raises `CorruptBatch`, with nothing appended, when a batch is damaged or does not lie at
    or above the log end. The exception of Kafka holds: an empty log takes a first batch that
    contains its log end, and then begins at that batch. Raises `StorageError`.
    """
    headers, spans, end = scan_fetched(records, max_epoch)
    skipped_bytes = len(records) - end
    if not spans:
        return FollowerAppend(-1, -1, 0, skipped_bytes)
    first = spans[0]
    start_offset = state.log_start_offset
    if first.base_offset < state.log_end_offset:
        _make_room_for_first(state, first)
    data = memoryview(records)[:end]
    begins_gaps = state.cleaned_to < 0 and _has_gaps(spans, state.log_end_offset)
    _write(state, data, spans, -1, begins_gaps=begins_gaps)
    pos = 0
    for header, span in zip(headers, spans, strict=True):
        if header.leader_epoch >= 0 and header.leader_epoch != state.epochs.saved_epoch:
            state.epochs.assign(header.leader_epoch, header.base_offset)
        batch = bytes(data[pos : pos + span.size_bytes])
        marker = read_marker_or_none(batch, header) if header.producer_id >= 0 else None
        _take_in(state, header, span, batch, marker)
        pos += span.size_bytes
    if state.log_start_offset < start_offset:
        state.update_high_watermark(start_offset)
        state.maybe_raise_log_start_offset(start_offset)
    return FollowerAppend(first.base_offset, spans[-1].last_offset, end, skipped_bytes)


def scan_fetched(records: Buffer, max_epoch: int) -> FetchedBatches:
    """The batches of a fetch response to append. A cut last one is normal: the leader fills the
    response up to the byte limit. Raises `CorruptBatch` when one is damaged or its offsets are not
    above those before it."""
    headers: list[BatchHeader] = []
    spans: list[BatchSpan] = []
    pos = next_offset = 0
    length = len(records)
    while True:
        size_bytes = batches.batch_size_at(records, pos)
        if size_bytes is None or (size_bytes > 0 and pos + size_bytes > length):
            break
        header = read_header(records, pos)
        if header.leader_epoch > max_epoch:
            break
        base_offset = header.base_offset
        if base_offset < next_offset:
            raise CorruptBatch(f"offset `{base_offset}` follows `{next_offset - 1}`")
        if batches.crc_of(records, pos, size_bytes) != header.crc:
            raise CorruptBatch(f"batch at offset `{base_offset}` has a wrong checksum")
        last_offset = base_offset + header.last_offset_delta
        headers.append(header)
        spans.append(BatchSpan(base_offset, last_offset, header.max_timestamp, size_bytes))
        next_offset = last_offset + 1
        pos += size_bytes
    return FetchedBatches(headers, spans, pos)


def _has_gaps(spans: Sequence[BatchSpan], next_offset: int) -> bool:
    """Whether offsets are missing before or between batches."""
    for span in spans:
        if span.base_offset > next_offset:
            return True
        next_offset = span.last_offset + 1
    return False


def _make_room_for_first(state: LogState, first: BatchSpan) -> None:
    """An empty log begins at the first batch that it gets, if that contains its log end."""
    is_empty = state.log_start_offset == state.log_end_offset
    if not is_empty or first.last_offset < state.log_end_offset:
        raise CorruptBatch(
            f"fetched offset `{first.base_offset}` is below the log end `{state.log_end_offset}`"
        )
    truncate_fully_and_start_at(state, first.base_offset)


# Both --------------------------------------------------------------------------------------


def _write(
    state: LogState,
    data: Buffer,
    spans: Sequence[BatchSpan],
    wall_ms: int,
    *,
    begins_gaps: bool = False,
) -> None:
    """Rolls when due and writes; on `StorageError` the log is as before. With `begins_gaps` these
    are the first batches with a gap before one of them."""
    if state.failure is not None:
        raise StorageError(state.path, state.failure)
    config = state.config
    active = state.segments.active
    try:
        if begins_gaps:
            state.note_gaps()
        if active.should_roll(config, incoming=spans[-1], wall_ms=wall_ms, size_bytes=len(data)):
            _roll_if_cut_is_durable(state, spans[-1].last_offset, len(data))
            active = state.segments.active
        if active.created_ms < 0:
            active.created_ms = wall_ms
        active.append(data, spans, config.index_interval_bytes)
    except StorageError as error:
        # Nothing may slip in between the failure and the end of this replica's service
        # (KAFKA-10778): what a device takes after an error proves nothing.
        state.failure = str(error)
        raise


def _roll_if_cut_is_durable(state: LogState, last_offset: int, size_bytes: int) -> None:
    """Two files keep no order in a power cut. One that undoes a cut of the active segment, and
    leaves the next one, would put records of a former leader below those of the present one, whose
    epoch then shows that the two logs agree (*LogMatching*). So the active segment takes a little
    more than it should, until a flush has made the cut durable."""
    if state.ledger.cut_is_pending and state.segments.active.can_take(last_offset, size_bytes):
        if not state.ledger.is_under_way:
            request_flush(state)
        return
    # Also where batches are missing: a start takes a hole between segments for a torn tail.
    roll(state, max(state.log_end_offset, last_offset - MAX_RELATIVE_OFFSET))


def _take_in(
    state: LogState, header: BatchHeader, span: BatchSpan, batch: bytes, marker: EndTxnMarker | None
) -> None:
    """What follows the write of a batch, its epoch aside. A leader has stamped the span."""
    base_offset, last_offset, timestamp, _ = span
    state.tail.append(base_offset, last_offset, batch)
    state.log_end_offset = last_offset + 1
    if header.producer_id < 0:
        state.producers.map_end_offset = last_offset + 1
        return
    aborted = state.producers.replay(header, base_offset, timestamp, marker)
    if aborted is None:
        return
    try:
        state.segments.active.txn_index.append(aborted)
    except StorageError as error:
        # The marker is in the log but not in the index: readers would be shown aborted data.
        state.failure = str(error)
        raise
