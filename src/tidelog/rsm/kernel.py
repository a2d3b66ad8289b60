"""The replicated-state-machine kernel: decide, append, replay, and answer once it is committed.

Theory. A coordinator (the controller today, group and transaction coordinators later) is a pure
function of a log. Until it leads, and also to load, it *replays* the committed batches that others
wrote. While it leads, each request is *decided* against the newest state, which may
still be uncommitted; the decision is a list of records and a response. The records are appended
in one step with being *replayed* into the next newest state, so that the next request sees them.
The response waits until the log has committed the decision's last record: no client ever
learns of something that a failover could take back.

A decision without records was made from uncommitted state as well. It therefore waits for
everything appended before it, which also keeps all answers in the order of their decisions.

States are immutable values. The kernel holds the committed one, and for each batch that waits the
state after it; committing a batch drops the older state, losing leadership goes back to the
committed one by assignment. Going back is therefore free, and a large state is built from maps that
share what did not change. Batches appended by this node are never decoded again.

What is committed arrives in one of two ways. A quorum hands out batches, this node's own among them
(`on_committed`). A partition's leader knows its own batches and only learns how far they are
committed (`on_high_watermark`); it has replayed the log below its first batch before.

Invariants:
- CommittedOnly: no response leaves before its offset is committed, or after leadership was lost.
- InOrder: responses leave in the order of their decisions, exactly one per decision that has a
  `reply_to`.
- Speculation: states on the tail have strictly rising last offsets, and `latest` is the last one.

Left out: timers and the meaning of records (the owner's), log reads, making snapshots.

Source: KIP-500, KIP-631; Kafka's coordinator runtime (KIP-848) follows the same cycle.
"""

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tidelog.kraft.messages import NotLeader
from tidelog.limits import MAX_PENDING_DECISIONS

State = TypeVar("State")
Rec = TypeVar("Rec")
Raw = TypeVar("Raw")
"""A record as the log has it: the value of one without a key, or a key and a value."""
RawOut = TypeVar("RawOut", covariant=True)
RawIn = TypeVar("RawIn", contravariant=True)
Response = TypeVar("Response")


class Committed(Protocol[RawOut]):
    """One committed record batch."""

    @property
    def base_offset(self) -> int:
        """The offset of its first record."""

    @property
    def last_offset(self) -> int:
        """The offset of its last record, inclusive."""

    @property
    def epoch(self) -> int:
        """The leader epoch that wrote it."""

    @property
    def records(self) -> Sequence[RawOut]:
        """Its records, in offset order."""

    @property
    def is_control(self) -> bool:
        """Whether it is not for the state machine: only its offset passes."""


class ReplicatedLog(Protocol[RawIn]):
    """The log as its leader sees it."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""

    def append(self, records: Sequence[RawIn]) -> int:
        """Appends one batch; returns the offset of its last record.

        Raises `kraft.messages.NotLeader` when leadership is gone; nothing is appended then.
        """


class StateMachine(Protocol[State, Rec, Raw]):
    """What a coordinator gives the kernel: records to what the log holds and back, and their
    effect."""

    def encode(self, record: Rec) -> Raw:
        """The record as the log has it. Raises `ProtocolError` for one that no log can have."""

    def decode(self, raw: Raw) -> Rec:
        """The inverse of `encode`."""

    def replay(self, state: State, records: Sequence[Rec], last_offset: int, epoch: int) -> State:
        """The state after a batch whose last offset is `last_offset`. Never fails for records
        that are in the log. Without records only the offset passes (a control batch)."""


# No slots: calling a generic alias sets an attribute, which Python 3.11 refuses on frozen slots.
@dataclass(frozen=True)
class Decision(Generic[Rec, Response]):
    """What a request shall do and what its sender shall receive."""

    response: Response | None
    """`None` when no request asked for the decision."""
    records: Sequence[Rec] = ()
    atomic: bool = True
    """Whether a failover must see all records or none. A list that need not be atomic is split
    into batches of bounded size; each prefix of it must then leave a valid state."""
    encoded: Sequence[Any] = ()
    """The records as the log has them, if they were encoded before."""


class _Speculation(NamedTuple, Generic[State]):
    """One appended batch that is not committed yet."""

    last_offset: int
    # The state with the batch replayed.
    state: State


class _Waiting(NamedTuple, Generic[Response]):
    """A response held until `offset` is committed."""

    offset: int
    reply_to: Hashable
    response: Response


class Kernel(Generic[State, Rec, Raw, Response]):
    """One coordinator's cycle over one log."""

    def __init__(
        self,
        machine: StateMachine[State, Rec, Raw],
        log: ReplicatedLog[Raw],
        *,
        initial: State,
        max_batch_records: int,
        max_pending: int = MAX_PENDING_DECISIONS,
        compacted: bool = False,
    ) -> None:
        """`compacted` says that the log may lack offsets between batches, and at its beginning."""
        self._machine = machine
        self._log = log
        # What is decided as a whole has no more records than that.
        self.max_batch_records = max_batch_records
        self._max_pending = max_pending
        # Whether batches may be missing between two committed ones.
        self._compacted = compacted
        # The fold of everything committed. Never goes back.
        self._committed: State = initial
        # The last committed offset that arrived here, inclusive; -1 before the first.
        self.committed_offset = -1
        # Appended and not committed, oldest first; empty unless active.
        self._tail: deque[_Speculation[State]] = deque()
        # Responses by rising offset; empty unless active.
        self._waiting: deque[_Waiting[Response]] = deque()
        # Responses that may leave, in order.
        self._replies: list[tuple[Hashable, Response]] = []
        # The leader epoch under which this node appends; `None` while it does not lead.
        self._epoch: int | None = None

    @property
    def active(self) -> bool:
        """Whether this node decides."""
        return self._epoch is not None

    @property
    def committed(self) -> State:
        """The state that every reader may be shown."""
        return self._committed

    @property
    def latest(self) -> State:
        """The state against which to decide: the committed one and all appended records."""
        return self._tail[-1].state if self._tail else self._committed

    @property
    def next_offset(self) -> int:
        """The offset of the next decision's first record."""
        return self._log.end_offset

    @property
    def has_room(self) -> bool:
        """Whether one more response may wait. The owner refuses requests at the bound, so that
        a quorum that commits nothing cannot fill the memory."""
        return len(self._waiting) < self._max_pending

    @property
    def has_uncommitted(self) -> bool:
        """Whether anything that was appended here waits for its commit."""
        return bool(self._tail)

    def become_active(self, epoch: int) -> None:
        """Starts deciding; everything before this leadership must have been committed here."""
        assert not self.active, f"already active in epoch {self._epoch}"
        assert not self._tail, f"{len(self._tail)} batches left from an earlier leadership"
        assert not self._waiting, f"{len(self._waiting)} responses left from an earlier leadership"
        assert self._log.end_offset > self.committed_offset, (
            f"log ends at {self._log.end_offset}, committed through {self.committed_offset}"
        )
        self._epoch = epoch

    def resign(self, refusal: Response) -> None:
        """Leadership is gone: back to the committed state, `refusal` to every waiting request."""
        self._epoch = None
        self._tail.clear()
        while self._waiting:
            self._replies.append((self._waiting.popleft().reply_to, refusal))

    def submit(
        self, decision: Decision[Rec, Response], reply_to: Hashable | None = None
    ) -> int | None:
        """Appends and replays a decision; its response leaves when it is committed.

        Returns the offset that must be committed first, or `None` when leadership turned out to
        be lost: then the response is not kept, and the owner must resign at once. Raises
        `ProtocolError` for records that cannot be written: nothing of the decision is, then.
        """
        assert self._epoch is not None, "only an active kernel decides"
        offset = self._tail[-1].last_offset if self._tail else self.committed_offset
        try:
            for records, encoded in self._batches(self.prepared(decision)):
                offset = self._append(records, encoded, self._epoch)
        except NotLeader:
            return None
        if reply_to is None:
            return offset
        assert decision.response is not None, f"no response for {reply_to}"
        if offset <= self.committed_offset:
            self._replies.append((reply_to, decision.response))
        else:
            self._waiting.append(_Waiting(offset, reply_to, decision.response))
        return offset

    def prepared(self, decision: Decision[Rec, Response]) -> Decision[Rec, Response]:
        """The same with all its records encoded, for an owner that must know before it submits it
        whether it can be written. Raises `ProtocolError`."""
        records, encoded = decision.records, decision.encoded
        if not encoded and records:
            encoded = [self._machine.encode(record) for record in records]
            decision = replace(decision, encoded=encoded)
        assert len(encoded) == len(records), f"{len(encoded)} of {len(records)} are encoded"
        return decision

    def on_committed(self, batch: Committed[Raw]) -> None:
        """Takes the next committed batch, its own ones too; also how a log is loaded."""
        expected, last_offset = self.committed_offset + 1, batch.last_offset
        assert batch.base_offset == expected or (
            self._compacted and batch.base_offset > expected
        ), f"expected offset {expected}, got {batch.base_offset}"
        if self._tail and self._tail[0].last_offset <= last_offset:
            self._commit_through(last_offset)
            # The state after it is known. The log may join decisions, it splits none.
            assert self.committed_offset == last_offset, (
                f"appended through {self.committed_offset}, committed {last_offset}"
            )
            return
        assert not self._tail or batch.is_control, (
            f"foreign records at {batch.base_offset} while active in epoch {self._epoch}"
        )
        decode = self._machine.decode
        records = () if batch.is_control else [decode(raw) for raw in batch.records]
        self._committed = self._machine.replay(self._committed, records, last_offset, batch.epoch)
        self.committed_offset = last_offset
        self._release()

    def on_high_watermark(self, high_watermark: int) -> None:
        """Everything that this node appended below `high_watermark` (exclusive) is committed."""
        self._commit_through(high_watermark - 1)

    def _commit_through(self, last_offset: int) -> None:
        while self._tail and self._tail[0].last_offset <= last_offset:
            self.committed_offset, self._committed = self._tail.popleft()
        self._release()

    def _release(self) -> None:
        """Hands out the responses that waited for what is committed now."""
        while self._waiting and self._waiting[0].offset <= self.committed_offset:
            waiting = self._waiting.popleft()
            self._replies.append((waiting.reply_to, waiting.response))

    def load(self, state: State, last_offset: int) -> None:
        """A state that contains everything committed so far takes its place: that of a snapshot,
        or one that was folded elsewhere."""
        assert not self.active, f"a snapshot at {last_offset} while active in epoch {self._epoch}"
        assert last_offset >= self.committed_offset, (
            f"a snapshot at {last_offset}, committed through {self.committed_offset}"
        )
        self._committed = state
        self.committed_offset = last_offset

    @property
    def has_replies(self) -> bool:
        """Whether `take_replies` has something."""
        return bool(self._replies)

    def take_replies(self) -> list[tuple[Hashable, Response]]:
        """All (reply_to, response) pairs that became due, in order."""
        replies = self._replies
        self._replies = []
        return replies

    def check(self) -> None:
        """Asserts the invariants of the module's docstring."""
        tail = [speculation.last_offset for speculation in self._tail]
        assert tail == sorted(set(tail)), f"Speculation: offsets do not rise: {tail}"
        assert not tail or tail[0] > self.committed_offset, (
            f"Speculation: {tail[0]} is committed already, through {self.committed_offset}"
        )
        offsets = [waiting.offset for waiting in self._waiting]
        assert offsets == sorted(offsets), f"InOrder: {offsets}"
        assert not offsets or offsets[0] > self.committed_offset, (
            f"CommittedOnly: {offsets[0]} waits, committed through {self.committed_offset}"
        )
        assert self.active or not (tail or offsets), "Speculation: work left without leadership"

    def _batches(
        self, decision: Decision[Rec, Response]
    ) -> Iterator[tuple[Sequence[Rec], Sequence[Raw]]]:
        records, encoded, size = decision.records, decision.encoded, self.max_batch_records
        assert not decision.atomic or len(records) <= size, (
            f"{len(records)} records cannot be atomic, bound {size}"
        )
        for start in range(0, len(records), size):
            yield records[start : start + size], encoded[start : start + size]

    def _append(self, records: Sequence[Rec], encoded: Sequence[Raw], epoch: int) -> int:
        base = self._log.end_offset
        last = self._log.append(encoded)
        assert last == base + len(records) - 1, f"{len(records)} records at {base} end at {last}"
        # After the append: were it refused, the newest state must not contain the records.
        state = self._machine.replay(self.latest, records, last, epoch)
        self._tail.append(_Speculation(last, state))
        return last
