"""Rolling: sealing the active segment and opening the next; and what a flush must cover.

Sealing a segment writes its indexes and a producer snapshot and requests a flush by itself.

Durability is asynchronous: `request_flush` emits `Flush` effects, and their answers move the
recovery point (`flushing.py`). A truncation in between voids them.
"""

from tidelog.env.disk import Disk
from tidelog.log.checkpoint import PARTITION_METADATA_FILE, encode_partition_metadata
from tidelog.log.file_names import TEMPORARY_SUFFIX
from tidelog.log.segment import Segment
from tidelog.log.state import UNCUT, LogState
from tidelog.model import TopicId


def roll(state: LogState, base_offset: int) -> None:
    """Seals the active segment; the next one begins at `base_offset`. An empty one is replaced."""
    sealed = state.segments.active
    if sealed.size_bytes:
        indexes = sealed.write_indexes()
        state.ledger.add(*indexes)
        if len(state.segments) == 1 and not state.claimed_end:
            # Names are made durable in any order: after a crash the log would begin at the second.
            state.env.disk.sync(indexes[0])
    write_snapshot(state, base_offset)
    segment = Segment(state.env.disk, state.path, base_offset, state.config)
    segment.batches.contiguous &= state.cleaned_to < 0
    if not sealed.size_bytes:
        sealed.delete()
        state.segments.drop_active()
    state.segments.add(segment)
    state.env.trace.debug(state.topic_partition, "roll", "rolled", base_offset=base_offset)
    request_flush(state)


def write_snapshot(state: LogState, offset: int, *, anew: bool = False) -> None:
    """Writes the producer state as of `offset`, not yet durable; one that is there only `anew`."""
    if anew or offset not in state.snapshots:
        state.producers.map_end_offset = offset
        state.ledger.add(state.snapshots.write(offset, state.producers.encode_snapshot()))


def assign_topic_id(
    state: LogState, topic_id: TopicId, *, is_new: bool = False, sibling: str | None = None
) -> None:
    """Gives the log its `partition.metadata`, not yet durable; it was made just now (`is_new`), or
    its file was lost. A new log shares the file of its `sibling`, the directory of another log of
    the topic: no program writes to such a file, an id that changes is another file."""
    disk, path = state.env.disk, f"{state.path}/{PARTITION_METADATA_FILE}"
    source = f"{sibling}/{PARTITION_METADATA_FILE}"
    if not is_new or sibling is None or not disk.link(source, path):
        _write_identity(disk, path, topic_id, is_new=is_new)
    state.topic_id = topic_id
    state.identity_is_unsynced = True


def _write_identity(disk: Disk, path: str, topic_id: TopicId, *, is_new: bool) -> None:
    """The file has its name only when it is complete: Kafka does not start with half of it."""
    temporary = path + TEMPORARY_SUFFIX
    if not is_new:
        disk.delete(temporary)
    file = disk.new_file(temporary)
    file.append((encode_partition_metadata(topic_id),))
    file.close()
    if not is_new:
        disk.delete(path)
    disk.rename(temporary, path)


def _hand_in_identity(state: LogState) -> None:
    if state.identity_is_unsynced:
        state.identity_is_unsynced = False
        state.ledger.add(state.env.disk.open(f"{state.path}/{PARTITION_METADATA_FILE}"))


def _has_new_epochs(state: LogState) -> bool:
    """Whether there are records, whose epochs no file has yet."""
    return state.epochs.is_new and state.log_end_offset > state.log_start_offset


def request_flush(state: LogState) -> int:
    """Emits `Flush` effects for everything not yet durable; returns the offset they cover. None is
    emitted when an earlier request covers all, or the recovery point has arrived already. The
    identity of a log that never had records is not worth one: it is part of the first. Without it
    a log that lost its records to retention would be taken for another one's, and begin at 0."""
    if state.log_end_offset or state.ledger.is_due(state.segments):
        _hand_in_identity(state)
        if _has_new_epochs(state):
            state.epochs.save_first()
    state.ledger.request(state.segments, state.log_end_offset, state.topic_id)
    # Effects keep their order, so what is saved from now on comes after the flush.
    state.unflushed_cut = UNCUT
    return state.log_end_offset


def request_flush_of_name(state: LogState) -> None:
    """The same, and the name of its directory becomes durable even if it never had a record. May
    raise `StorageError`."""
    _hand_in_identity(state)
    request_flush(state)


def is_saved(state: LogState) -> bool:
    """Whether a clean stop has nothing to write of this log, and nothing to make durable."""
    if state.identity_is_unsynced or state.ledger.is_due(state.segments):
        return False
    return not _has_records(state) or (
        state.segments.active.indexes_are_saved and state.log_end_offset in state.snapshots
    )


def _has_records(state: LogState) -> bool:
    """Whether it has, or had: one that never had any has no indexes and no snapshot."""
    return bool(state.log_end_offset or state.ledger.was_truncated)


def prepare_close(state: LogState, *, sync_later: bool = False) -> None:
    """Writes what the disk lacks of indexes, producer snapshot and first epochs, for a clean stop,
    and requests the flush. With `sync_later` it is the caller who makes everything durable."""
    if _has_records(state):
        if not state.segments.active.indexes_are_saved:
            state.ledger.add(*state.segments.active.write_indexes())
        write_snapshot(state, state.log_end_offset)
    if _has_new_epochs(state):
        state.ledger.add(state.epochs.write_first(state.env.disk))
    if sync_later:
        state.ledger.close_written()
        state.unflushed_cut = UNCUT
        return
    request_flush_of_name(state)
