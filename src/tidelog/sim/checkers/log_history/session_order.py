"""Order within one operation, between the operations of one process, and in real time.

A consumer that keeps its assignment reads every version after the one it read last: a step of more
than one is a skip, a step of less than one goes back or stands still. Keys that changed hands
during a poll are left out of that poll, an assignment ends the memory of keys that it does not
keep (of all keys, when it moves positions).

Between sends of one process only acknowledged ones count: one without an answer may still be
under way when the next one is sent, and land after it.
"""

from collections.abc import Iterator
from itertools import pairwise

from tidelog.sim.checkers.log_history.index import Anomaly, LogIndex
from tidelog.sim.evidence.history import Key, Kind, Op, Outcome


def _step(index: LogIndex, key: Key, before: str, after: str) -> int:
    """How far `after` is behind `before` in the version order; 1 when that is unknown."""
    position = index.of(key).position
    if before not in position or after not in position:
        return 1
    return position[after] - position[before]


def _between(index: LogIndex, key: Key, before: str, after: str) -> list[str]:
    position = index.of(key).position
    return index.of(key).order[position[before] + 1 : position[after]]


def internal_polls(index: LogIndex) -> Iterator[Anomaly]:
    """int-poll-skip, int-nonmonotonic-poll: inside one operation."""
    for op in index.ops:
        for key, values in op.polled.items():
            if key in op.rebalanced:
                continue
            for before, after in pairwise(values):
                step = _step(index, key, before.value, after.value)
                where = f"op {op.index}: `{before.value}` then `{after.value}`"
                if step > 1:
                    skipped = _between(index, key, before.value, after.value)
                    message = f"{where} without {', '.join(skipped[:5])}"
                    yield Anomaly("int-poll-skip", key, message)
                elif step < 1:
                    yield Anomaly("int-nonmonotonic-poll", key, where)


def internal_sends(index: LogIndex) -> Iterator[Anomaly]:
    """int-send-skip, int-nonmonotonic-send: inside one operation."""
    for op in index.ops:
        last: dict[Key, str] = {}
        for sent in op.sent:
            before = last.get(sent.key)
            last[sent.key] = sent.value
            if before is None:
                continue
            step = _step(index, sent.key, before, sent.value)
            where = f"op {op.index}: `{before}` then `{sent.value}`"
            if step > 1:
                yield Anomaly("int-send-skip", sent.key, f"{where} with others between")
            elif step < 1:
                yield Anomaly("int-nonmonotonic-send", sent.key, where)


def external_polls(index: LogIndex) -> Iterator[Anomaly]:
    """poll-skip, nonmonotonic-poll: between operations of one process."""
    # What each process read last of each key.
    memory: dict[str, dict[Key, tuple[Op, str]]] = {}
    for op in index.all_ops:
        known = memory.setdefault(op.process, {})
        if op.outcome is not Outcome.OK:
            continue
        if op.kind is Kind.ASSIGN:
            keep = {} if op.sought else {key: known[key] for key in op.assigned if key in known}
            memory[op.process] = keep
            continue
        for key, values in op.polled.items():
            if not values:
                continue
            if key in known and key not in op.rebalanced:
                yield from _external_step(index, key, known[key], op)
            known[key] = (op, values[-1].value)


def _external_step(index: LogIndex, key: Key, last: tuple[Op, str], op: Op) -> Iterator[Anomaly]:
    earlier, before = last
    after = op.polled[key][0].value
    step = _step(index, key, before, after)
    where = f"{op.process}: `{before}` in op {earlier.index}, then `{after}` in op {op.index}"
    if step > 1:
        skipped = _between(index, key, before, after)
        yield Anomaly("poll-skip", key, f"{where} without {', '.join(skipped[:5])}")
    elif step < 1:
        yield Anomaly("nonmonotonic-poll", key, where)


def external_sends(index: LogIndex) -> Iterator[Anomaly]:
    """nonmonotonic-send: acknowledged sends of one process, in the order of their beginning."""
    last: dict[tuple[str, Key], tuple[int, str]] = {}
    sends = [op for op in index.ops if op.outcome is Outcome.OK and op.sent]
    for op in sorted(sends, key=lambda op: (op.invoked_at, op.index)):
        ends: dict[Key, tuple[str, str]] = {}
        for sent in op.sent:
            first = ends[sent.key][0] if sent.key in ends else sent.value
            ends[sent.key] = (first, sent.value)
        for key, (first, final) in ends.items():
            known = last.get((op.process, key))
            if known is not None and known[0] < op.invoked_at:
                step = _step(index, key, known[1], first)
                if step < 1:
                    message = f"{op.process}: `{known[1]}`, then `{first}` in op {op.index}"
                    yield Anomaly("nonmonotonic-send", key, message)
            last[op.process, key] = (op.completed_at, final)


def append_order(index: LogIndex) -> Iterator[Anomaly]:
    """realtime-append: an append that began after another had been acknowledged lies before it.

    A partition is a register of appends: its order must agree with real time, whichever process
    sent (V2). For one key this is checkable in one pass: going down the version order, the earliest
    acknowledgement above an append must not be before the append began.
    """
    for key, one in index.keys.items():
        earliest: Op | None = None
        for value in reversed(one.order):
            op = one.writers.get(value)
            if op is None:
                continue
            if earliest is not None and earliest.completed_at < op.invoked_at:
                message = (
                    f"`{value}` of op {op.index}, begun at {op.invoked_at}, lies before something "
                    f"of op {earliest.index}, acknowledged at {earliest.completed_at}"
                )
                yield Anomaly("realtime-append", key, message)
            if op.outcome is Outcome.OK and (
                earliest is None or op.completed_at < earliest.completed_at
            ):
                earliest = op
