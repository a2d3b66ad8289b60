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


def _proposal(event: TraceEvent) -> Payload:
    payload = _as_is(event)
    if "replica" in payload:
        replica, log_end = payload.pop("replica"), payload.pop("log_end")
        return {**payload, "followers": (replica,), "log_ends": (log_end,)}
    return {**payload, "followers": payload.pop("leaving")}


def _truncation(event: TraceEvent) -> Payload:
    payload = _as_is(event)
    before, _, after = str(payload.pop("log_end")).partition("->")
    return {
        "from": int(before),
        "to": int(after),
        "high_watermark": payload["high_watermark"],
        "reason": event.reason,
    }


def _stall(event: TraceEvent) -> Payload:
    payload = _as_is(event)
    log_ends = payload.pop("log_ends", None)
    if isinstance(log_ends, dict):
        payload |= {"followers": tuple(log_ends), "log_ends": tuple(log_ends.values())}
    return payload


def _follows(event: TraceEvent) -> Payload:
    payload = dict(event.values)
    return {**payload, "was_leader": bool(event.reason)}


def _offline(event: TraceEvent) -> Payload:
    return {"reason": event.reason}


_Shape = Callable[[TraceEvent], Payload]

_TABLE: Final[dict[tuple[str, str], tuple[Kind, _Shape]]] = {
    ("maybe_expand_isr", "proposed"): (Kind.ISR_PROPOSAL, _proposal),
    ("maybe_shrink_isr", "proposed"): (Kind.ISR_PROPOSAL, _proposal),
    ("become_leader", "leads"): (Kind.LEADING, _as_is),
    ("become_follower", "follows"): (Kind.FOLLOWING, _follows),
    ("become_follower", "waits"): (Kind.FOLLOWING, _follows),
    ("check_isrs", "high watermark stands still"): (Kind.HW_STALL, _stall),
    ("truncate", "truncated"): (Kind.TRUNCATE, _truncation),
    ("truncate", "truncated below the high watermark"): (Kind.TRUNCATE, _truncation),
    ("go_offline", "offline"): (Kind.REPLICA_OFFLINE, _offline),
    # What `Trace.measure` says comes with its kind.
    **{
        ("measure", kind): (kind, _as_is)
        for kind in (
            Kind.APPEND,
            Kind.HW_ADVANCE,
            Kind.FETCH_LAG,
        )
    },
}
"""Which decisions of which handlers are events. The quorum's own log is left out: its subject is
no partition of a topic."""


def event_of(traced: Event | TraceEvent) -> NodeEvent | None:
    """The event that a trace line stands for; `None` for a line that is only for people."""
    if isinstance(traced, Event):
        return record_of(traced)
    row = _TABLE.get((traced.handler, traced.decision))
    if row is None:
        return None
    kind, shape = row
    if kind is Kind.TOPIC_DELETED:
        return NodeEvent(kind, traced.subject, None, None, shape(traced))
    topic, _, number = traced.subject.rpartition("-")
    if not topic or not number.isdecimal():
        return None
    payload = shape(traced)
    epoch = payload.pop("leader_epoch", None)
    return NodeEvent(kind, topic, int(number), epoch if isinstance(epoch, int) else None, payload)
