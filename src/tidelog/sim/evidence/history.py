"""What clients did and what came of it: the input of the log checker.

An operation is one request of one process (a client's thread of control) with everything that the
client may conclude from the answer, or from its absence.

    outcome  meaning
    OK       it happened, and the answer says how
    FAIL     it surely did not happen
    INFO     unknown: no answer, or an error that may come after the append

The distinction is what makes a checker sound: a lost connection is never a failure, and neither is
NOT_LEADER_OR_FOLLOWER (KAFKA-13574). A write with acks below "all" that was answered is INFO with
a known offset: its loss is allowed.

Values are unique per key, so a value names its write. A key is one partition of one topic id: a
topic that is deleted and created again is another key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple


class Outcome(Enum):
    """What a client knows of an operation."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Kind(Enum):
    """What a client did."""

    SEND = "send"
    POLL = "poll"
    TXN = "txn"
    """Sends and polls that are one, in this order."""
    ASSIGN = "assign"


class Key(NamedTuple):
    """One partition of one incarnation of a topic."""

    topic: str
    """Name and the beginning of the topic id."""
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Sent(NamedTuple):
    """One value of a send and where it landed; -1 when unknown."""

    key: Key
    offset: int
    value: str


class Polled(NamedTuple):
    """One value that a poll returned."""

    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Op:
    """One completed operation."""

    index: int
    """Position in the history, in order of completion."""
    process: str
    kind: Kind
    outcome: Outcome
    sent: tuple[Sent, ...] = ()
    polled: Mapping[Key, tuple[Polled, ...]] = field(default_factory=dict)
    assigned: tuple[Key, ...] = ()
    """What an ASSIGN leaves assigned."""
    sought: bool = False
    """An ASSIGN that moves positions: what follows may go back."""
    rebalanced: frozenset[Key] = frozenset()
    """Keys that changed hands during a poll: their order says nothing."""
    connection: int = 0
    """Of a send: the connection that it went over; 0 where its order holds over all of them."""
    invoked_at: int = 0
    completed_at: int = 0
    reason: str = ""
    """Of an outcome that is not OK."""


class History:
    """Operations in order of completion."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        # Values whose acknowledgement promised that they stay, by key: value to offset.
        self.acknowledged: dict[Key, dict[str, int]] = {}
        # Keys about which nothing is promised any more, because a client asked to delete them.
        self.abandoned: set[str] = set()
        # Up to which offset a client asked to delete records, by topic and partition.
        self.deleted_below: dict[tuple[str, int], int] = {}

    def send(
        self,
        process: str,
        outcome: Outcome,
        sent: Sequence[Sent],
        *,
        invoked_at: int,
        completed_at: int,
        reason: str = "",
        connection: int = 0,
    ) -> None:
        """A produce request came to its end."""
        self._append(
            process,
            Kind.SEND,
            outcome,
            sent=tuple(sent),
            connection=connection,
            invoked_at=invoked_at,
            completed_at=completed_at,
            reason=reason,
        )
        if outcome is Outcome.OK:
            for key, offset, value in sent:
                self.acknowledged.setdefault(key, {})[value] = offset

    def poll(
        self,
        process: str,
        polled: Mapping[Key, tuple[Polled, ...]],
        *,
        invoked_at: int,
        completed_at: int,
    ) -> None:
        """A fetch returned records."""
        times = {"invoked_at": invoked_at, "completed_at": completed_at}
        self._append(process, Kind.POLL, Outcome.OK, polled=polled, **times)

    def assign(self, process: str, keys: Sequence[Key], *, sought: bool, at: int) -> None:
        """A consumer changed what it reads, or from where."""
        known = {"assigned": tuple(keys), "sought": sought}
        self._append(process, Kind.ASSIGN, Outcome.OK, **known, invoked_at=at, completed_at=at)

    def _append(self, process: str, kind: Kind, outcome: Outcome, **more: Any) -> None:
        self.ops.append(Op(len(self.ops), process, kind, outcome, **more))

    @property
    def acknowledged_count(self) -> int:
        """How many records were acknowledged by all in-sync replicas."""
        return sum(len(values) for values in self.acknowledged.values())
