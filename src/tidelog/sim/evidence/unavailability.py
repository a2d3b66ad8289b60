"""How long clients had no answer, partition by partition.

A wait begins with the first send that got no good answer, or with the last good answer if that was
later, and ends with the next good answer. Short waits are the normal course of things and are not
counted.
"""

from typing import Final

from tidelog.sim.evidence.history import History, Key, Kind, Op, Outcome

LONG_MS: Final = 200
"""A wait of clients that counts."""


def unavailable_ms(history: History) -> tuple[int, ...]:
    """The long waits of clients, over all partitions, in the order of their ends."""
    first_failed: dict[Key, int] = {}
    last_answered: dict[Key, int] = {}
    found = []
    for op in history.ops:
        if op.kind is not Kind.SEND:
            continue
        for key in dict.fromkeys(sent.key for sent in op.sent):
            if not _was_answered(op, key):
                first_failed[key] = min(first_failed.get(key, op.invoked_at), op.invoked_at)
                continue
            begun = min(first_failed.pop(key, op.invoked_at), op.invoked_at)
            waited_ms = op.completed_at - max(begun, last_answered.get(key, 0))
            if waited_ms >= LONG_MS:
                found.append(waited_ms)
            last_answered[key] = op.completed_at
    return tuple(found)


def _was_answered(op: Op, key: Key) -> bool:
    """An offset came back: also of sends that ask for less than all acknowledgements."""
    return op.outcome is Outcome.OK or any(sent.key == key and sent.offset >= 0 for sent in op.sent)
