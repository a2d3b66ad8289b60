"""How long things stood still in a run: partitions without a leader, clients without an answer.

Two clocks for the same misfortune. *Election*: from the end of the process that led a partition
until another (or the same, restarted) says that it leads. *Unavailability*: what a partition's
clients saw, from the first send that nobody answered well, or the last good answer if that was
later, until the next good answer; short waits are the normal course of things and not counted.

Left out: leaders that were cut off or paused (their process lives, and they may not know).
"""

from typing import Final

from tidelog.env.event import Event
from tidelog.env.trace import TraceEvent
from tidelog.sim.history import History, Key, Kind, Op, Outcome

LONG_MS: Final = 200
"""A wait of clients that counts."""


class Elections:
    """Follows the leaders of partitions through their words and the ends of their processes."""

    __slots__ = ("_leaders", "_lost_at", "durations_ms")

    def __init__(self) -> None:
        # Who last said that it leads, by partition.
        self._leaders: dict[str, str] = {}
        # When the process of that one ended, for partitions that nobody leads since.
        self._lost_at: dict[str, int] = {}
        # In the order of their ends.
        self.durations_ms: list[int] = []

    def note(self, event: Event | TraceEvent, host: str, now: int) -> None:
        """Looks at one decision of a node."""
        if event.handler != "become_leader" or event.decision != "leads":
            return
        lost_at = self._lost_at.pop(event.subject, None)
        # Epoch 0 is a new partition, perhaps under the name of a deleted one.
        if lost_at is not None and dict(event.shown()).get("leader_epoch") != 0:
            self.durations_ms.append(now - lost_at)
        self._leaders[event.subject] = host

    def process_ended(self, host: str, now: int) -> None:
        """The process of a host is gone, whichever way."""
        for partition, leader in self._leaders.items():
            if leader == host:
                self._lost_at.setdefault(partition, now)


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
