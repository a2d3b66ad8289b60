"""The state of share partitions, read from and written to share coordinators by their leaders.

The calls are those of `share_calls.py`, in their order: a coordinator keeps the newest word about
an offset. Otherwise a release could arrive behind the acceptance of the next delivery, and undo it.
Writes that wait behind another leave together, up to the first two that are about the same offset.

Bound: `limits.MAX_SHARE_STATE_CALLS`.

Source: KIP-932.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.broker.peers import Purpose
from tidelog.broker.share_calls import ShareCall, ShareCalls
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_SHARE_STATE_CALLS
from tidelog.sharing.in_flight import Change
from tidelog.sharing.share_partition import SharePartition
from tidelog.sharing.values import ShareKey, ShareState, StateBatch
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

OnRead = Callable[[ShareState | ErrorCode, Instant], None]
OnWritten = Callable[[ErrorCode, Instant], None]


@dataclass(slots=True, eq=False)
class _Write(ShareCall):
    """A change of a share partition."""

    share: SharePartition
    change: Change


class SharePersister(ShareCalls):
    """The calls of one node."""

    purpose = Purpose.SHARE_STATE
    client = "shares"

    @property
    def is_full(self) -> bool:
        """Whether no further call is taken."""
        return self._count >= MAX_SHARE_STATE_CALLS

    def read(self, key: ShareKey, leader_epoch: int, on_done: OnRead, now: Instant) -> None:
        """Asks for a state, behind all that is to be written before."""

        def on_row(code: ErrorCode, row: Entity, now: Instant) -> None:
            on_done(_state_of(row) if code is ErrorCode.NONE else code, now)

        fields = {"leader_epoch": leader_epoch}
        api = ApiKey.READ_SHARE_GROUP_STATE
        self._add(key, ShareCall(api, self._deadline_of(now), on_row, fields))

    def write(
        self, share: SharePartition, change: Change, on_done: OnWritten, now: Instant
    ) -> None:
        """Writes a change, with the start of the share partition as it is when it leaves."""

        def on_row(code: ErrorCode, _: Entity, now: Instant) -> None:
            on_done(code, now)

        api = ApiKey.WRITE_SHARE_GROUP_STATE
        self._add(share.key, _Write(api, self._deadline_of(now), on_row, {}, share, change))

    def _take(self, waiting: deque[ShareCall]) -> list[ShareCall]:
        """A read, or writes of one leadership about different offsets."""
        first = waiting.popleft()
        taken = [first]
        if not isinstance(first, _Write):
            return taken
        covered = list(first.change.batches)
        while waiting:
            call = waiting[0]
            if not isinstance(call, _Write) or call.share is not first.share:
                break
            if any(
                new.first <= old.last and old.first <= new.last
                for new in call.change.batches
                for old in covered
            ):
                break
            covered += call.change.batches
            taken.append(waiting.popleft())
        return taken

    def _fields_of(self, calls: Sequence[ShareCall]) -> Mapping[str, Any]:
        writes = [call for call in calls if isinstance(call, _Write)]
        if not writes:
            return super()._fields_of(calls)
        share = writes[0].share
        batches = sorted(batch for call in writes for batch in call.change.batches)
        return {
            "state_epoch": share.state_epoch,
            "leader_epoch": share.leader_epoch,
            "start_offset": share.start,
            "delivery_complete_count": share.done_in_flight,
            "state_batches": [
                {
                    "first_offset": first,
                    "last_offset": last,
                    "delivery_state": int(state),
                    "delivery_count": count,
                }
                for first, last, state, count in batches
            ],
        }


def _state_of(row: Entity) -> ShareState:
    batches = [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in row.state_batches
    ]
    return ShareState(row.state_epoch, row.start_offset, sorted(batches))
