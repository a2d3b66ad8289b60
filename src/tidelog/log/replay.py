"""Rebuilding producer state: the newest usable snapshot, then every batch after it.

Used when a log is opened and when it was cut. Only headers and checksums matter; of bodies only
those of control batches are opened. A snapshot that cannot be read is deleted and the one before
it is taken; without any, the whole log is replayed, also what lies below the log start in its first
segment: a producer whose records were deleted may still repeat them. Kafka forgets it.

A snapshot holds one batch of each producer, and a client may have five in flight. Taken as it is,
a retry of the second but last would be refused as out of order by a replica that restarted or was
cut, though its records are there. So the windows of producers that were active lately are
completed from the batches right before the snapshot's offset (`DedupWindow`). Kafka does not.

Source: KIP-98; Kafka's `ProducerStateManager`, `UnifiedLog.rebuildProducerState`.
"""

from collections.abc import Collection, Iterable

from tidelog.env.trace import Trace
from tidelog.errors import CorruptBatch
from tidelog.limits import DEDUP_ENOUGH_BATCHES, DEDUP_HORIZON_MS, DEDUP_WINDOW_BYTES
from tidelog.log.pieces import Pieces, Walk
from tidelog.log.producer_snapshots import ProducerSnapshots, SnapshotDamaged
from tidelog.log.producer_state import ProducerStates
from tidelog.log.segment import Segment
from tidelog.records.batch import BatchHeader
from tidelog.records.control import EndTxnMarker, read_end_txn_marker


def read_marker_or_none(batch: bytes, header: BatchHeader) -> EndTxnMarker | None:
    """The transaction marker of a control batch; `None` for other batches. An unreadable marker is
    taken as none: the batch is in the leader's log with a right checksum, so refusing it would stop
    replication and recovery without repairing anything."""
    if not header.is_control:
        return None
    try:
        return read_end_txn_marker(batch)
    except CorruptBatch:
        return None


def rebuild_producers(
    producers: ProducerStates,
    trace: Trace,
    segments: Iterable[Segment],
    snapshots: ProducerSnapshots,
    *,
    log_end_offset: int,
    rebuilt_bases: Collection[int] = (),
    wall_ms: int = -1,
) -> Pieces[None]:
    """Makes `producers` the state as of `log_end_offset`. Raises `LogDamaged`: with a state that
    lacks batches a leader would take retries for new records. Aborted transactions are added to the
    index of segments in `rebuilt_bases`, whose indexes were emptied. A `wall_ms` of -1 knows of no
    time, and takes every producer for a recent one."""
    segments = list(segments)
    newest = min((log_end_offset, *rebuilt_bases))
    from_offset = first_base = segments[0].base_offset
    producers.clear(first_base)
    for offset in reversed([known for known in snapshots.offsets if first_base <= known <= newest]):
        try:
            producers.load_snapshot(snapshots.read(offset), offset)
            from_offset = offset
            _complete_windows(producers, segments, offset, wall_ms)
            break
        except SnapshotDamaged as error:
            place, what = snapshots.directory, "snapshot dropped"
            trace.warn(place, "rebuild_producers", what, str(error), offset=offset)
            snapshots.drop(offset)
            producers.clear(first_base)
    for index, segment in enumerate(segments if from_offset < log_end_offset else ()):
        is_last = index == len(segments) - 1
        if is_last or segments[index + 1].base_offset > from_offset:
            rebuilt = segment.base_offset in rebuilt_bases
            yield from _replay_segment(producers, segment, from_offset, rebuilt)
    producers.map_end_offset = log_end_offset


def _complete_windows(
    producers: ProducerStates, segments: list[Segment], offset: int, wall_ms: int
) -> None:
    """Gives producers that may still retry the batches that the snapshot left out."""
    recent = {
        entry.producer_id
        for entry in producers.by_id.values()
        if wall_ms < 0 or wall_ms - entry.last_timestamp <= DEDUP_HORIZON_MS
    }
    if not recent:
        return
    for window_bytes in DEDUP_WINDOW_BYTES:
        headers, has_all = _headers_before(segments, offset, window_bytes)
        if has_all or len(headers) >= DEDUP_ENOUGH_BATCHES:
            break
    producers.complete_windows([header for header in headers if header.producer_id in recent])


def _headers_before(
    segments: list[Segment], offset: int, window_bytes: int
) -> tuple[list[BatchHeader], bool]:
    """The batches of about so many bytes before `offset`, and whether there are no others."""
    spans: list[tuple[Segment, int]] = []
    position = 0
    for segment in reversed(segments):
        if segment.base_offset >= offset:
            continue
        if window_bytes <= 0:
            break
        end = segment.locate(offset)
        end = segment.size_bytes if end is None else end
        _, position = segment.offset_index.entry_below(end - window_bytes)
        window_bytes -= end - position
        spans.append((segment, position))
    headers = [
        batch.header
        for segment, start in reversed(spans)
        for batch in segment.batches.scan(start)
        if batch.header.base_offset < offset
    ]
    return headers, bool(spans) and spans[-1][0] is segments[0] and position == 0


def _replay_segment(
    producers: ProducerStates, segment: Segment, from_offset: int, rebuilt: bool
) -> Pieces[None]:
    position = segment.locate(from_offset)
    if position is None:
        return
    walk = Walk()
    for batch in segment.batches.scan(position):
        header = batch.header
        marker = read_marker_or_none(batch.data, header)
        aborted = producers.replay(header, header.base_offset, header.max_timestamp, marker)
        if aborted is not None and rebuilt:
            segment.txn_index.append(aborted)
        if spent := walk.passed(header.size_bytes):
            yield spent
