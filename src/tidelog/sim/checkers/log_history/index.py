"""What a history says, put in order: writers, readers, the raw log and the order of versions.

- A write *must have committed* when its answer said so, or when anything that its operation sent
  was read: one visible part proves the whole.
- The *raw log* of a key maps each offset to the values that were seen there: by any poll, and by
  the answers of sends that must have committed.
- The *version order* is the raw log without its holes: one value per offset, densely numbered.
  Holes are control records and transactions that no consumer may see.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.sim.evidence.history import Key, Kind, Op, Outcome


class Anomaly(NamedTuple):
    """One thing that is wrong with a history."""

    name: str
    key: Key | None
    message: str

    def __str__(self) -> str:
        where = "" if self.key is None else f" {self.key}"
        return f"{self.name}{where}: {self.message}"


@dataclass(slots=True)
class KeyIndex:
    """One key."""

    writers: dict[str, Op] = field(default_factory=dict)
    """Value to the operation that sent it."""
    readers: dict[str, list[Op]] = field(default_factory=dict)
    """Value to the operations that polled it."""
    read_ok: dict[str, Op] = field(default_factory=dict)
    """Value to the first operation that polled it and is OK."""
    log: dict[int, list[str]] = field(default_factory=dict)
    """The raw log: offset to different values, in the order in which they were seen."""
    order: list[str] = field(default_factory=list)
    """The version order."""
    position: dict[str, int] = field(default_factory=dict)
    """Value to its index in the version order; the last one when it is there twice."""
    first_position: dict[str, int] = field(default_factory=dict)
    """The first one."""

    def see(self, offset: int, value: str) -> None:
        """Notes a value at an offset."""
        values = self.log.setdefault(offset, [])
        if value not in values:
            values.append(value)

    def put_in_order(self) -> None:
        """Makes the version order of the raw log."""
        self.order = [self.log[offset][0] for offset in sorted(self.log)]
        for index, value in enumerate(self.order):
            self.position[value] = index
            self.first_position.setdefault(value, index)


class LogIndex:
    """A whole history."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = [op for op in ops if op.kind is not Kind.ASSIGN]
        self.all_ops = list(ops)
        self.keys: dict[Key, KeyIndex] = {}
        # Values that were read and that no process wrote.
        self.unknown: list[Anomaly] = []
        for op in self.ops:
            self._take_writes(op)
        for op in self.ops:
            self._take_reads(op)
        for op in self.ops:
            self._take_offsets(op)
        for index in self.keys.values():
            index.put_in_order()

    def of(self, key: Key) -> KeyIndex:
        """The index of a key."""
        return self.keys.setdefault(key, KeyIndex())

    def must_commit(self, op: Op) -> bool:
        """Whether what an operation sent is certainly in the log."""
        if op.outcome is Outcome.OK:
            return True
        return op.outcome is Outcome.INFO and any(
            sent.value in self.of(sent.key).read_ok for sent in op.sent
        )

    def _take_writes(self, op: Op) -> None:
        for sent in op.sent:
            writers = self.of(sent.key).writers
            assert sent.value not in writers, f"values must be unique: {sent}"
            writers[sent.value] = op

    def _take_reads(self, op: Op) -> None:
        for key, values in op.polled.items():
            index = self.of(key)
            for polled in values:
                index.readers.setdefault(polled.value, []).append(op)
                if op.outcome is Outcome.OK:
                    index.read_ok.setdefault(polled.value, op)
                if polled.value not in index.writers:
                    message = f"`{polled.value}` at {polled.offset} was read and never written"
                    self.unknown.append(Anomaly("unknown-value", key, message))

    def _take_offsets(self, op: Op) -> None:
        # A poll must be right whatever becomes of the operation around it.
        for key, values in op.polled.items():
            for polled in values:
                self.of(key).see(polled.offset, polled.value)
        if self.must_commit(op):
            for sent in op.sent:
                if sent.offset >= 0:
                    self.of(sent.key).see(sent.offset, sent.value)
