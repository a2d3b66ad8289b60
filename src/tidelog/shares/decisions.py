"""What a request makes of a share partition: pure decisions.

The group coordinator initialises a share partition before it is assigned to members; before that
nothing can be read or written. The leader of the partition reads the state when it begins to serve
the group, and so fences the leaders before it; then it writes what changes.

| refused | when |
| --- | --- |
| INVALID_REQUEST | the partition's number is negative; read or written before it is initialised |
| FENCED_LEADER_EPOCH | a leader with a higher epoch has read the state |
| FENCED_STATE_EPOCH | the state has begun anew since |
| UNKNOWN_TOPIC_OR_PARTITION | the metadata does not have the partition |

-1 in place of an epoch is not compared. A state that begins without an offset begins once in each
state epoch; Kafka begins it anew, and forgets what was acknowledged since. A write becomes an
update, or a snapshot when there have been as many updates as
`share.coordinator.snapshot.update.records.per.snapshot` says.

Property
- ShareStateIsFenced: a request with a lower leader epoch or a lower state epoch than the highest
  one that was seen changes nothing.

Source: KIP-932; Kafka's share coordinator for the order of the checks.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, get_args

from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH, NO_OFFSET
from tidelog.shares.batches import StateBatch, combined
from tidelog.shares.image import ShareState
from tidelog.shares.messages import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    Request,
    StateResult,
    WriteState,
)
from tidelog.shares.records import NO_COUNT, ShareRecord, Snapshot, Update

_NEGATIVE: Final = StateResult(
    ErrorCode.INVALID_REQUEST, "The number of the partition is negative."
)
_NO_TOPIC: Final = StateResult(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)
_OLD_LEADER: Final = StateResult(
    ErrorCode.FENCED_LEADER_EPOCH, "The leader epoch in the request is older than the newest one."
)
_OLD_STATE: Final = StateResult(
    ErrorCode.FENCED_STATE_EPOCH, "The state epoch in the request is older than the newest one."
)
_DONE: Final = StateResult()


class Surroundings(NamedTuple):
    """What a decision needs to know beside the state."""

    has_partition: bool
    """Whether the metadata has the partition."""
    wall_ms: int
    updates_per_snapshot: int


class Outcome(NamedTuple):
    """An answer, and the record that must be committed first."""

    result: StateResult
    record: ShareRecord | None = None


def decide(known: ShareState | None, request: Request, around: Surroundings) -> Outcome:
    """What becomes of a request."""
    if request.partition.partition < 0:
        return Outcome(_NEGATIVE)
    return _DECIDERS[type(request)](known, request, around)


def _fenced(
    known: ShareState, leader_epoch: int = NO_EPOCH, state_epoch: int = NO_EPOCH
) -> StateResult | None:
    """ShareStateIsFenced: the refusal of one who does not know the newest epochs."""
    if NO_EPOCH != leader_epoch < known.leader_epoch:
        return _OLD_LEADER
    return _OLD_STATE if NO_EPOCH != state_epoch < known.state_epoch else None


def _initialize(
    known: ShareState | None, request: InitializeState, around: Surroundings
) -> Outcome:
    refusal = None if known is None else _fenced(known, state_epoch=request.state_epoch)
    if refusal is not None:
        return Outcome(refusal)
    if not around.has_partition:
        return Outcome(_NO_TOPIC)
    if known is not None and _is_repeated(known, request):
        return Outcome(_DONE)
    begun = Snapshot(
        snapshot_epoch=0 if known is None else known.whole.snapshot_epoch + 1,
        state_epoch=request.state_epoch,
        start_offset=request.start_offset,
        create_ms=around.wall_ms,
        write_ms=around.wall_ms,
        complete=NO_COUNT if request.start_offset == NO_OFFSET else 0,
    )
    return Outcome(_DONE, ShareRecord(request.partition, begun))


def _is_repeated(known: ShareState, request: InitializeState) -> bool:
    """Whether a state that begins nowhere in particular has begun already. A group coordinator asks
    until it is answered, and goes on when another one has its group: members may have read by then.
    An administrator's offset counts each time."""
    return request.start_offset == NO_OFFSET and request.state_epoch == known.state_epoch


def _read(known: ShareState | None, request: ReadState, around: Surroundings) -> Outcome:
    if known is None:
        return Outcome(_uninitialized("read"))
    refusal = _fenced(known, request.leader_epoch)
    if refusal is not None:
        return Outcome(refusal)
    if not around.has_partition:
        return Outcome(_NO_TOPIC)
    whole = known.whole
    result = StateResult(state=whole)
    if request.leader_epoch in (NO_EPOCH, known.leader_epoch):
        return Outcome(result)
    taken_over = whole._replace(leader_epoch=request.leader_epoch)
    return Outcome(result, _record(known, taken_over, whole.start_offset, (), around))


def _write(known: ShareState | None, request: WriteState, around: Surroundings) -> Outcome:
    if known is None:
        return Outcome(_uninitialized("written"))
    refusal = _fenced(known, request.leader_epoch, request.state_epoch)
    if refusal is not None:
        return Outcome(refusal)
    if not around.has_partition:
        return Outcome(_NO_TOPIC)
    counted = known.whole._replace(complete=request.complete)
    return Outcome(_DONE, _record(known, counted, request.start_offset, request.batches, around))


def _record(
    known: ShareState,
    after: Snapshot,
    start_offset: int,
    batches: tuple[StateBatch, ...],
    around: Surroundings,
) -> ShareRecord:
    """`after` has the epochs and counts that are to be written; it does not have the batches."""
    if known.updates < around.updates_per_snapshot:
        changed = combined(batches, start_offset)
        update = Update(
            after.snapshot_epoch, after.leader_epoch, start_offset, changed, after.complete
        )
        return ShareRecord(known.partition, update)
    start = after.start_offset if start_offset == NO_OFFSET else start_offset
    return ShareRecord(
        known.partition,
        after._replace(
            snapshot_epoch=after.snapshot_epoch + 1,
            start_offset=start,
            create_ms=around.wall_ms,
            write_ms=around.wall_ms,
            batches=combined((*after.batches, *batches), start),
        ),
    )


def _uninitialized(verb: str) -> StateResult:
    text = f"The share partition is not initialised, and cannot be {verb}."
    return StateResult(ErrorCode.INVALID_REQUEST, text)


def _delete(known: ShareState | None, request: DeleteState, around: Surroundings) -> Outcome:
    if not around.has_partition:
        return Outcome(_NO_TOPIC)
    return Outcome(_DONE, None if known is None else ShareRecord(request.partition, None))


def _summary(known: ShareState | None, request: ReadSummary, around: Surroundings) -> Outcome:
    if not around.has_partition:
        return Outcome(_NO_TOPIC)
    return Outcome(StateResult(state=Snapshot() if known is None else known.whole))


_DECIDERS: Final[Mapping[type, Callable[[ShareState | None, Any, Surroundings], Outcome]]] = {
    InitializeState: _initialize,
    ReadState: _read,
    WriteState: _write,
    DeleteState: _delete,
    ReadSummary: _summary,
}
assert set(_DECIDERS) == set(get_args(Request)), "a request has no decider"
