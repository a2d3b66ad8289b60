"""One partition's health, event by event: what the streaming form keeps in its state.

The rules are those of `transforms.py`, but event by event: not "where did the flag change in this
table" but "does this event change the flag". The tracker follows two histories side by side,
because no clock orders them: the controllers' events about the partition, in the order of
`partition_epoch`, and each leader's own events, in the order of its `seq`. Leader epochs join them.

Everything is bounded: a few open intervals, the elections that wait for their first advance (the
newest `MOST_WAITING`), one sampled append and one stall per broker's life, and of those the newest
`MOST_LIVES`. What the bound drops is never reported as closed.

A row goes out when something begins (`end` null) and again when it ends, under the same `(kind,
start)`: the last row per key is what the batch form computes. No Spark import, and the state is
plain JSON.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tidelog.env.event import Kind

Event = Mapping[str, Any]
Row = dict[str, Any]

CONDITIONS: Final = ("under_replicated", "under_min_isr", "leaderless")
"""Conditions of a partition that the controllers' events show."""
STATE_KINDS: Final = (Kind.ELECTION, Kind.ISR_CHANGE, Kind.PARTITION_STATE)
"""The events in which a controller reports the whole state of a partition."""
MOST_WAITING: Final = 16
MOST_LIVES: Final = 16
_OF_LEADERS: Final = (Kind.LEADING, Kind.FOLLOWING, Kind.APPEND, Kind.HW_ADVANCE, Kind.HW_STALL)


def in_order(events: Sequence[Event]) -> list[Event]:
    """The order in which a tracker takes events that came together."""

    def place(event: Event) -> tuple[Any, ...]:
        if event["kind"] in STATE_KINDS:
            return (0, event["payload"]["partition_epoch"], event["ts_us"])
        return (1, event["broker"], event["incarnation"], event["seq"])

    return sorted((one for one in events if one["kind"] in (*STATE_KINDS, *_OF_LEADERS)), key=place)


class Tracker:
    """Follows one partition."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        """Goes on from `state`, what an earlier tracker's `state` was."""
        known = state or {}
        # Conditions that hold, by name: the row without an end, and the moment it began.
        self._open: dict[str, Row] = dict(known.get("open", {}))
        # Elections whose leader has not advanced yet, by leader epoch as text (JSON keys).
        self._waiting: dict[str, Row] = dict(known.get("waiting", {}))
        # The last event of each broker's life: its seq, its term, its sample, its stall.
        self._lives: dict[str, Row] = dict(known.get("lives", {}))
        # All there is to remember, as JSON has it. The partition epoch is that of the newest event
        # of a controller; older ones come too late.
        self.state: Final[dict[str, Any]] = {
            "partition_epoch": known.get("partition_epoch", -1),
            "open": self._open,
            "waiting": self._waiting,
            "lives": self._lives,
        }

    def take(self, event: Event) -> Iterator[Row]:
        if event["kind"] in STATE_KINDS:
            yield from self._on_state(event)
        else:
            yield from self._on_leader(event)

    def _on_state(self, event: Event) -> Iterator[Row]:
        payload = event["payload"]
        if payload["partition_epoch"] < self.state["partition_epoch"]:
            return
        self.state["partition_epoch"] = payload["partition_epoch"]
        size = len(payload["isr"])
        holds = {
            "under_replicated": size < len(payload["replicas"]),
            "under_min_isr": size < payload["min_isr"],
            "leaderless": payload["leader"] < 0,
        }
        for kind in CONDITIONS:
            if holds[kind] and kind not in self._open:
                self._open[kind] = _begun(event, kind, payload["cause"])
                yield self._open[kind]
            elif not holds[kind] and kind in self._open:
                yield _ended(self._open.pop(kind), event)
        changed = payload["leader"] != payload.get("old_leader")
        if event["kind"] == Kind.ELECTION and changed and payload["leader"] >= 0:
            self._waiting[str(event["leader_epoch"])] = _begun(event, "election", payload["cause"])
            while len(self._waiting) > MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]

    def _on_leader(self, event: Event) -> Iterator[Row]:
        name = f"{event['broker']}/{event['incarnation']}"
        life: Row = self._lives.pop(name, {"seq": -1, "term": None, "append": None, "stall": None})
        self._lives[name] = life
        while len(self._lives) > MOST_LIVES:
            del self._lives[next(iter(self._lives))]
        if event["seq"] <= life["seq"]:
            return
        life["seq"] = event["seq"]
        if event["leader_epoch"] is not None:
            life["term"] = event["leader_epoch"]
        if event["kind"] == Kind.HW_STALL:
            if life["stall"] is None:
                stall = _begun(_since_stall(event, life["term"]), "hw_stalled", _cause(event))
                life["stall"] = stall
                yield stall
            return
        if event["kind"] == Kind.APPEND:
            life["append"] = {
                **_begun(event, "commit", None),
                "required": event["payload"]["required"],
            }
            return
        if life["stall"] is not None:
            yield _ended(life["stall"], event)
            life["stall"] = None
        if event["kind"] == Kind.HW_ADVANCE:
            yield from self._on_advance(event, life)

    def _on_advance(self, event: Event, life: Row) -> Iterator[Row]:
        waiting = self._waiting.pop(str(event["leader_epoch"]), None)
        if waiting is not None:
            yield _ended(waiting, event)
        sample = life["append"]
        if sample is not None and sample["required"] == event["payload"].get("required"):
            yield _ended(sample, event)
            life["append"] = None


def _since_stall(event: Event, term: int | None) -> Event:
    """The stall began before it was reported."""
    before_us = event["payload"]["for_ms"] * 1000
    return {
        **event,
        "ts_us": event["ts_us"] - before_us,
        "mono_us": event["mono_us"] - before_us,
        "leader_epoch": term,
    }


def _cause(event: Event) -> str:
    payload = event["payload"]
    waited = ",".join(map(str, payload.get("followers") or ()))
    return f"{payload['reason']}: {waited}" if waited else str(payload["reason"])


def _begun(event: Event, kind: str, cause: str | None) -> Row:
    return {
        "kind": kind,
        "leader_epoch": event["leader_epoch"],
        "start_us": event["ts_us"],
        "end_us": None,
        "duration_ms": None,
        "cause": cause,
        "broker": event["broker"],
        "mono_us": event["mono_us"],
        "clock": event["clock"],
    }


def _ended(row: Row, event: Event) -> Row:
    """The row with its end; its duration only where one clock saw both."""
    same = row["clock"] == event["clock"]
    took = (event["mono_us"] - row["mono_us"]) / 1000.0 if same else None
    return {**row, "end_us": event["ts_us"], "duration_ms": took}
