"""A coordinator over the log of one partition: what those of groups and of transactions share.

Theory. A coordinator belongs to one partition of an internal topic and lives on its leader. It is a
state machine on the kernel (`kernel.py`): it decides a request against the newest state, appends
records, and answers when they are committed, which for the log of a partition means: below the high
watermark. A new coordinator first loads: its owner (`broker/coordinator_seats.py`) replays the
partition up to where the leadership began. It decides nothing before all of that is committed, so
that it never shows what another leader could take back. When the leadership is lost, all that was
not committed is gone, and everyone that waits gets NOT_COORDINATOR.

Two kinds of answers leave a coordinator. One that rests on nothing uncommitted leaves at once
(`CoordinatorEnv.answer`). One that reports something as done waits in the kernel until the record
of it is committed (`CoordinatorEnv.append`).

Invariants: those of the kernel, and
- OneAnswer: a request gets exactly one answer.
- A coordinator whose append was refused decides nothing more: its owner resigns it.

Left out: what is coordinated (`groups/`, `transactions/`), and which broker is asked (`broker/`).

Source: KIP-848 (the coordinator runtime).
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.rsm.kernel import Committed, Decision, Kernel
from tidelog.rsm.log_records import LogRecord

ReplyTo = Hashable
"""The broker's own handle of a request."""

State = TypeVar("State")
Rec = TypeVar("Rec")
Response = TypeVar("Response")
Request = TypeVar("Request")


class Refused(NamedTuple):
    """The coordinator is not here, is being loaded, or cannot write: for any request."""

    error_code: ErrorCode


NOT_COORDINATOR: Final = Refused(ErrorCode.NOT_COORDINATOR)


# No slots: they would end `super()` in the classes that derive from it.
@dataclass(eq=False, kw_only=True)
class CoordinatorEnv(Generic[State, Rec, Response]):
    """What the parts of one coordinator share: its log, its answers, its clock."""

    trace: Trace
    kernel: Kernel[State, Rec, LogRecord, Response]
    # Answers that are due, those aside that the kernel holds: to whom, and what.
    replies: list[tuple[ReplyTo, Response]] = field(default_factory=list)
    # Whether an append found that the partition is not led here any more.
    is_deposed: bool = False
    # Wall time in ms minus monotonic time in ms; set by the node.
    wall_offset_ms: int = 0

    def wall_ms(self, now: Instant) -> int:
        """Wall time."""
        return now + self.wall_offset_ms

    def answer(self, reply_to: ReplyTo, response: Response) -> None:
        """Answers at once."""
        self.replies.append((reply_to, response))

    def append(
        self,
        records: Sequence[Rec],
        response: Response | None = None,
        reply_to: Hashable | None = None,
    ) -> ErrorCode:
        """Writes the records; the answer leaves when they, and all before them, are committed. With
        an error nothing is written, and the answer is the caller's business. What is larger than a
        batch may be is refused."""
        if self.is_deposed:
            return ErrorCode.NOT_COORDINATOR
        if len(records) > self.kernel.max_batch_records:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            offset = self.kernel.submit(Decision(response, records), reply_to)
        except ProtocolError as error:
            # Larger than the partition takes a batch, with a text that no record takes, or of a
            # producer or a transaction coordinator that was deposed.
            is_too_large = error.code is ErrorCode.RECORD_LIST_TOO_LARGE
            return ErrorCode.UNKNOWN_SERVER_ERROR if is_too_large else error.code
        if offset is None:
            self.is_deposed = True
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE


E = TypeVar("E", bound=CoordinatorEnv[Any, Any, Any])


class Coordinator(ABC, Generic[E, Request, Response]):
    """The coordinator of one partition; a class of its own says what it coordinates."""

    def __init__(self, env: E) -> None:
        # What its parts share, the kernel among it.
        self._env = env

    # Views --------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether this node decides."""
        return self._env.kernel.active

    @property
    def has_uncommitted(self) -> bool:
        """Whether answers may wait for the high watermark."""
        return self._env.kernel.has_uncommitted

    @property
    def is_deposed(self) -> bool:
        """Whether an append has shown that another node leads: the owner must `resign` it."""
        return self._env.is_deposed

    @property
    @abstractmethod
    def entries(self) -> Sized:
        """What is committed, by its id: no other leader can take it back."""

    @property
    def wall_offset_ms(self) -> int:
        """Wall time in ms minus monotonic time in ms."""
        return self._env.wall_offset_ms

    @wall_offset_ms.setter
    def wall_offset_ms(self, value: int) -> None:
        self._env.wall_offset_ms = value

    # The log ------------------------------------------------------------------------------

    @property
    def only_last_counts(self) -> bool:
        """Whether, after what was loaded so far and as long as no record of a transaction comes, of
        all records with one key the last one is enough, where it stands. So it is on a log that a
        cleaner may compact."""
        return False

    def load(self, batch: Committed[LogRecord]) -> None:
        """Takes the next batches of the log, which are committed."""
        self._env.kernel.on_committed(batch)

    @abstractmethod
    def become_active(self, epoch: int, now: Instant) -> None:
        """Everything before this leadership is loaded: decides from now on."""

    def on_high_watermark(self, high_watermark: int, now: Instant) -> None:
        """Everything below is committed; what waited for it is due."""
        self._env.kernel.on_high_watermark(high_watermark)
        self._collect(now)

    @abstractmethod
    def resign(self) -> None:
        """Another node leads: all that wait get NOT_COORDINATOR."""

    # Requests -----------------------------------------------------------------------------

    def handle(self, request: Request, reply_to: ReplyTo, now: Instant) -> None:
        """Decides one request; its answer comes out of `take_replies`, now or later."""
        assert self.active, f"{type(self).__name__} is asked before it is active: {request}"
        self._decide(request, reply_to, now)
        self._collect(now)

    @abstractmethod
    def _decide(self, request: Request, reply_to: ReplyTo, now: Instant) -> None:
        """Gives the request to the part that decides it."""

    def wake(self, now: Instant) -> None:
        """Does what is due."""
        if self.active:
            self._wake(now)
            self._collect(now)

    @abstractmethod
    def _wake(self, now: Instant) -> None:
        """Ends the waits that are over."""

    @abstractmethod
    def deadline(self) -> Instant | None:
        """When something is due; `None` while nothing is."""

    def take_replies(self) -> list[tuple[ReplyTo, Response]]:
        """All answers that became due."""
        replies, self._env.replies = self._env.replies, []
        return replies

    def _collect(self, now: Instant) -> None:
        """Takes what is committed from the kernel."""
        kernel = self._env.kernel
        while kernel.has_replies:
            for reply_to, response in kernel.take_replies():
                self._on_committed(reply_to, response, now)

    @abstractmethod
    def _on_committed(self, reply_to: Hashable, response: Any, now: Instant) -> None:
        """What the kernel held for `reply_to` may leave."""

    # Invariants ---------------------------------------------------------------------------

    @abstractmethod
    def check(self) -> None:
        """Asserts the invariants; those of the kernel and the parts included."""
