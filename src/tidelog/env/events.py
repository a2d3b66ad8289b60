"""The events of a node: which decisions are kept for analysis, and the fields that each has.

Rooms speak through the trace. Most of what they say is for people; some lines are state changes
that somebody will want to add up over hours: who led, who was in sync, why the high watermark stood
still. `event_of` picks those out and gives them fixed names and types, so that a log line can be
reworded without breaking an analysis: only this table has to follow. What no line says, because
it would be said a hundred times a second, comes through `Trace.measure`.

The driver adds what a core cannot know (clocks, incarnation, number) and writes; nothing here
reads a clock. `docs/health.md` describes every kind and field.

Invariants: a kind's fields have one type each, whoever emits it; lists of replicas and lists
about them (`followers`, `log_ends`) have one order.
"""

from collections.abc import Callable
from typing import Final

from tidelog.env.event import Event, EventRecord, Payload, record_of
from tidelog.env.event import Kind as Kind
from tidelog.env.trace import TraceEvent

NodeEvent = EventRecord


def _as_is(event: TraceEvent) -> Payload:
    payload = dict(event.values)
    if event.reason:
        payload["reason"] = event.reason
    return payload


def _of_broker(event: TraceEvent) -> Payload:
    """The subject is `broker 2` or `node 2`."""
    return {"node": int(event.subject.split()[-1]), **_as_is(event)}


_Shape = Callable[[TraceEvent], Payload]

_TABLE: Final[dict[tuple[str, str], tuple[Kind, _Shape]]] = {
    ("detector", "suspected"): (Kind.SUSPECTED, _of_broker),
    ("detector", "reached"): (Kind.REACHED, _of_broker),
    # What `Trace.measure` says comes with its kind.
    ("measure", Kind.LOST_CONTACT): (Kind.LOST_CONTACT, _of_broker),
}
"""Which decisions of which handlers are events. The quorum's own log is left out: its subject is
no partition of a topic."""

_OF_THE_CLUSTER: Final = frozenset(
    (
        Kind.CONTROLLER_ACTIVE,
        Kind.CONTROLLER_INACTIVE,
        Kind.FENCED,
        Kind.UNFENCED,
        Kind.CONTROLLED_SHUTDOWN,
        Kind.SUSPECTED,
        Kind.REACHED,
        Kind.LOST_CONTACT,
    )
)


def event_of(traced: Event | TraceEvent) -> NodeEvent | None:
    """The event that a trace line stands for; `None` for a line that is only for people."""
    if isinstance(traced, Event):
        return record_of(traced)
    row = _TABLE.get((traced.handler, traced.decision))
    if row is None:
        return None
    kind, shape = row
    if kind in _OF_THE_CLUSTER:
        return NodeEvent(kind, None, None, None, shape(traced))
    if kind is Kind.TOPIC_DELETED:
        return NodeEvent(kind, traced.subject, None, None, shape(traced))
    topic, _, number = traced.subject.rpartition("-")
    if not topic or not number.isdecimal():
        return None
    payload = shape(traced)
    epoch = payload.pop("leader_epoch", None)
    return NodeEvent(kind, topic, int(number), epoch if isinstance(epoch, int) else None, payload)
