"""Events: what a node decides and measures, as small typed values.

Theory. A component that decides something makes an event where it decides: a dataclass with
typed fields, declared with `event` in the `events.py` of its package (or in its package `events/`),
and hands it to its `Trace`. All readers of decisions use that value, and none of them parses text:

- the log line and the line of the simulator's trace: `Event.text`;
- a record of `events.jsonl`: `record_of`, for events that have a `kind`;
- the simulator's marks, by the event's type and its `reason`;
- checkers and tests, by the event's fields.

So words can change without a reader noticing, and a field that a reader needs cannot vanish
without the type checker noticing.

An event class is declared with `event`: the function under which it is decided (`handler`), what it
decides (`decision`), how loud the event is (`level`) and, if event files keep it, its `kind`. Its
fields are the numbers at that moment. Where several reasons are possible, the field `reason` is
mostly a `StrEnum`, which related events may share (`RoleReason`), or an `ErrorCode` or text from
elsewhere; an event with one reason only has it as a `ClassVar`. Example::

    @event("truncate", "truncated", Kind.TRUNCATE)
    class Truncated(PartitionEvent):
        "A follower cut records that its leader does not have."

        reason: TruncationReason
        high_watermark: int

Invariants: a kind's payload fields have one type each in all events; an event is never
changed after it was made.

Left out: clocks, node ids, incarnations and numbers, which a core cannot know; drivers add them.
`docs/reference/events.md` is made from these classes.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum
from operator import attrgetter
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, cast, dataclass_transform

from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition

Payload = dict[str, object]

_Values = Callable[[Any], tuple[object, ...]]

_SHOWN: Final[dict[type, tuple[tuple[str, ...], _Values]]] = {}
"""The names of an event class's fields that its line shows, and what takes them from an event; from
the first use on."""


class Level(IntEnum):
    """How loud an event is. DEBUG: routine. INFO: a state change. WARN: a fault was met. MEASURE:
    for event files and marks only, never a log line; most are figures."""

    MEASURE = 5
    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40


class Kind(StrEnum):
    """The events that event files keep, by the name that they have there."""

    STARTED = "started"
    """A process began; written by the driver."""
    CONTROLLER_ACTIVE = "controller_active"
    CONTROLLER_INACTIVE = "controller_inactive"
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    LOST_CONTACT = "lost_contact"
    """A connection to the node was cut or refused; nothing is decided yet."""
    SUSPECTED = "suspected"
    REACHED = "reached"
    ELECTION = "election"
    """The controller chose a leader, or none (-1)."""
    UNCLEAN_ELECTION = "unclean_election"
    ISR_CHANGE = "isr_change"
    """The controller changed the in-sync replicas and not the leader."""
    PARTITION_STATE = "partition_state"
    """A new controller found a partition that was not whole."""
    TOPIC_DELETED = "topic_deleted"
    ISR_PROPOSAL = "isr_proposal"
    """A leader asks for a change, with the offsets that are its reason."""
    LEADING = "leading"
    FOLLOWING = "following"
    APPEND = "append"
    """Sampled: the log end after an append that is now waited for."""
    HW_ADVANCE = "hw_advance"
    """Sampled: the high watermark moved; `required` names the append that is now committed."""
    HW_STALL = "hw_stall"
    FETCH_LAG = "fetch_lag"
    TRUNCATE = "truncate"
    REPLICA_OFFLINE = "replica_offline"


class Event:
    """One decision of one node. Subclasses are declared with `event`."""

    __slots__ = ()

    level: ClassVar[Level] = Level.INFO
    kind: ClassVar[Kind | None] = None
    """The name in event files; `None` for an event that they do not keep."""
    about: ClassVar[tuple[str, ...]] = ()
    """The field that `subject` is made of, and others that the line shows in other places; neither
    the rest of the line nor the payload repeats them."""
    noun: ClassVar[str] = ""
    """What stands before the field in `subject`: `broker`; empty where the field says enough."""

    @property
    def subject(self) -> str:
        """What it is about: `orders-3`, `quorum`, `broker 2`, `connection 17`."""
        return f"{self.noun} {getattr(self, self.about[0])}".strip()

    @property
    def handler(self) -> str:
        """The function under which it was decided: `on_fetch`, `become_leader`. A helper function
        of it may be what makes the event."""
        raise NotImplementedError

    @property
    def decision(self) -> str:
        """What was decided, in one or two words: `ignored`, `elected`, `shrunk`."""
        raise NotImplementedError

    @property
    def place(self) -> tuple[str | None, int | None]:
        """The topic and partition that an event file notes; `None` where it is about neither."""
        return None, None

    def why(self) -> str:
        """The reason in words, of an error code its name; empty when the decision says it."""
        reason = getattr(self, "reason", "")
        return reason.name if isinstance(reason, ErrorCode) else str(reason)

    def shown(self) -> tuple[tuple[str, object], ...]:
        """The (key, value) pairs of the log line: all fields that no other part of it shows."""
        shown = _SHOWN.get(type(self))
        if shown is None:
            every, hidden = fields(cast(Any, self)), (*self.about, "reason")
            names = tuple(each.name for each in every if each.name not in hidden)
            shown = _SHOWN[type(self)] = names, _values_of(names)
        names, values_of = shown
        return tuple(zip(names, values_of(self), strict=True))

    def payload(self) -> Payload:
        """The fields as event files keep them, reason included."""
        found: Payload = dict(self.shown())
        reason = self.why()
        if reason:
            found["reason"] = reason
        return found

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __repr__(self) -> str:
        pairs = zip(fields(cast(Any, self)), self._values(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{f.name}={v!r}' for f, v in pairs)})"

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, field.name) for field in fields(cast(Any, self)))

    def text(self) -> str:
        """The line without the node's name."""
        why = self.why()
        reason = f" ({why})" if why else ""
        values = "".join(f" {key}={value}" for key, value in self.shown())
        return f"{self.subject} {self.handler}: {self.decision}{reason}{values}"


def _values_of(names: tuple[str, ...]) -> _Values:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda event: tuple(getattr(event, name) for name in names)


Declared = TypeVar("Declared", bound=type[Event])


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event(
    handler: str | None = None,
    decision: str | None = None,
    kind: Kind | None = None,
    *,
    level: Level | None = None,
    about: tuple[str, ...] | None = None,
    noun: str | None = None,
) -> Callable[[Declared], Declared]:
    """Declares an event class: a slotted dataclass with keywords only, which type checkers take for
    frozen. What is not given is inherited. A process declares some two hundred of them when it
    starts. So equality and `repr` are those of `Event`, and nothing is generated to freeze an
    event: that is two thirds of the time."""
    given = (handler, decision, kind, level, about, noun)
    names = ("handler", "decision", "kind", "level", "about", "noun")

    def declare(event_type: Declared) -> Declared:
        for name, value in zip(names, given, strict=True):
            if value is not None:
                setattr(event_type, name, value)
        made = dataclass(slots=True, kw_only=True, eq=False, repr=False)(event_type)
        return cast(Declared, made)

    return declare


@event(about=("partition",))
class PartitionEvent(Event):
    """An event about one partition or replica of it, with its `leader_epoch` if it knows that."""

    partition: TopicPartition

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.partition


@event(about=("node_id",), noun="broker")
class BrokerEvent(Event):
    """An event about another node."""

    node_id: int

    def payload(self) -> Payload:
        """With the node first."""
        return {"node": self.node_id, **Event.payload(self)}


class EventRecord(NamedTuple):
    """One event as event files keep it, without what the driver adds."""

    kind: Kind
    topic: str | None
    partition: int | None
    leader_epoch: int | None
    payload: Payload


def record_of(event: Event) -> EventRecord | None:
    """The record of an event; `None` for one that event files do not keep."""
    if event.kind is None:
        return None
    payload = event.payload()
    epoch = payload.pop("leader_epoch", None)
    assert epoch is None or isinstance(epoch, int), f"leader epoch {epoch!r}"
    return EventRecord(event.kind, *event.place, epoch, payload)
