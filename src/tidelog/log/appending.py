"""The append path: of leaders, which stamp one batch at a time, and of followers, which copy.

Both write the file with one call, then take the batch into indexes, epoch cache, producer state and
tail cache. Every check that can refuse a batch comes before the write. What follows the write
can fail only by the device.

Invariants
- Offsets of batches strictly increase; a hole can only come from compaction on a leader.
- A failed append leaves no trace: the disk cuts the file back, and nothing else was changed. From
  then on every append raises `StorageError`.

Source: KIP-98; Kafka's `UnifiedLog.append`.
"""

from tidelog.env.disk import Buffer
from tidelog.errors import CorruptBatch, StorageError
from tidelog.log.fetched import scan_fetched
from tidelog.log.replay import read_marker_or_none
from tidelog.log.rolling import roll
from tidelog.log.segment import BatchSpan
from tidelog.log.state import LogState
from tidelog.log.truncation import truncate_fully_and_start_at
from tidelog.log.validation import check_client_batch, recompress
from tidelog.log.values import AppendOrigin, AppendResult, FollowerAppend
from tidelog.model import NO_TIMESTAMP
from tidelog.records.batch import (
    CONTROL_FLAG,
    BatchHeader,
    read_header,
    stamp,
    stamp_log_append_time,
)
from tidelog.records.control import EndTxnMarker, read_end_txn_marker


def append_as_leader(
    state: LogState, records: Buffer, leader_epoch: int, wall_ms: int, origin: AppendOrigin
) -> AppendResult:
    """Validates, stamps and appends exactly one batch. Raises `ProtocolError`, `StorageError`."""
    config = state.config
    if origin is AppendOrigin.CLIENT:
        header = check_client_batch(records, config, wall_ms)
        if config.compression_type != "producer":
            rebuilt = recompress(records, header, config)
            if rebuilt is not None:
                records, header = rebuilt, read_header(rebuilt)
    else:
        header = read_header(records)
        assert header.size_bytes == len(records), f"{len(records)} bytes, one batch expected"
    marker: EndTxnMarker | None = None
    if header.producer_id >= 0 and origin is not AppendOrigin.RAFT:
        if header.attributes & CONTROL_FLAG:
            marker = read_end_txn_marker(records)
            if marker is not None:
                state.producers.check_marker(header, marker)
        else:
            earlier = state.producers.admit(header, origin)
            if earlier is not None:
                first, last = earlier.first_offset, earlier.last_offset
                return AppendResult(first, last, NO_TIMESTAMP, True, 0)
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
        data = stamp(records, base_offset, leader_epoch)
    else:
        append_time_ms = max_timestamp = wall_ms
        data = stamp_log_append_time(records, base_offset, leader_epoch, wall_ms)
    last_offset = base_offset + header.last_offset_delta
    span = BatchSpan(base_offset, last_offset, max_timestamp, len(data))
    _write(state, data, (span,), wall_ms)
    if leader_epoch != latest_epoch:
        state.epochs.assign(leader_epoch, base_offset)
    state.tail.append(base_offset, last_offset, data)
    state.log_end_offset = last_offset + 1
    if header.producer_id >= 0:
        _replay_producer(state, header, base_offset, max_timestamp, marker)
    else:
        state.producers.map_end_offset = last_offset + 1
    return AppendResult(base_offset, last_offset, append_time_ms, False, len(data))


def append_as_follower(state: LogState, records: Buffer, max_epoch: int) -> FollowerAppend:
    """Appends whole batches as the leader sent them. Raises `CorruptBatch`, `StorageError`."""
    found = scan_fetched(records, max_epoch)
    spans, end = found.spans, found.end
    skipped_bytes = len(records) - end
    if not spans:
        return FollowerAppend(-1, -1, 0, skipped_bytes)
    first = spans[0]
    start_offset = state.log_start_offset
    if first.base_offset < state.log_end_offset:
        _make_room_for_first(state, first)
    data = memoryview(records)[:end]
    _write(state, data, spans, -1)
    _take_in(state, data, found.headers)
    if state.log_start_offset < start_offset:
        state.update_high_watermark(start_offset)
        state.maybe_raise_log_start_offset(start_offset)
    return FollowerAppend(first.base_offset, spans[-1].last_offset, end, skipped_bytes)


def _make_room_for_first(state: LogState, first: BatchSpan) -> None:
    """An empty log begins at the first batch that it gets, if that contains its log end."""
    is_empty = state.log_start_offset == state.log_end_offset
    if not is_empty or first.last_offset < state.log_end_offset:
        raise CorruptBatch(
            f"fetched offset `{first.base_offset}` is below the log end `{state.log_end_offset}`"
        )
    truncate_fully_and_start_at(state, first.base_offset)


def _take_in(state: LogState, data: memoryview, headers: list[BatchHeader]) -> None:
    """Everything that follows the write of a follower's batches."""
    pos = 0
    for header in headers:
        size_bytes = header.size_bytes
        if header.leader_epoch >= 0 and header.leader_epoch != state.epochs.latest_epoch:
            state.epochs.assign(header.leader_epoch, header.base_offset)
        batch = bytes(data[pos : pos + size_bytes])
        last_offset = header.last_offset
        state.tail.append(header.base_offset, last_offset, batch)
        state.log_end_offset = last_offset + 1
        if header.producer_id >= 0:
            marker = read_marker_or_none(batch, header)
            _replay_producer(state, header, header.base_offset, header.max_timestamp, marker)
        else:
            state.producers.map_end_offset = last_offset + 1
        pos += size_bytes


def _replay_producer(
    state: LogState,
    header: BatchHeader,
    base_offset: int,
    timestamp: int,
    marker: EndTxnMarker | None,
) -> None:
    aborted = state.producers.replay(header, base_offset, timestamp, marker)
    if aborted is None:
        return
    try:
        state.segments.active.txn_index.append(aborted)
    except StorageError as error:
        # The marker is in the log but not in the index: readers would be shown aborted data.
        state.failure = str(error)
        raise


def _write(
    state: LogState, data: Buffer, spans: tuple[BatchSpan] | list[BatchSpan], wall_ms: int
) -> None:
    """Rolls when due and writes; on `StorageError` the log is as before."""
    if state.failure is not None:
        raise StorageError(state.path, state.failure)
    config = state.config
    active = state.segments.active
    try:
        if active.should_roll(config, incoming=spans[-1], wall_ms=wall_ms, size_bytes=len(data)):
            roll(state, max(spans[0].base_offset, state.log_end_offset))
            active = state.segments.active
        if active.created_ms < 0:
            active.created_ms = wall_ms
        active.append(data, spans, config.index_interval_bytes)
    except StorageError as error:
        # Nothing may slip in between the failure and the end of this replica's service
        # (KAFKA-10778): what a device takes after an error proves nothing.
        state.failure = str(error)
        raise
