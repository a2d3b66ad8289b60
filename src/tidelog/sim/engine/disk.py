"""The simulator's disk: a memory disk on which everything can go wrong that goes wrong with disks.

Ends of processes
- `fuse` counts the writes (appends and replacements) that still succeed; the one after them does
  not happen, and the process dies on the spot: what it had written before stays, what it was about
  to do is never done. That is kill -9 at a chosen write, which kills between events cannot reach.
- `witness` receives every operation before it is done, and may end the process or the power at
  any of them (the crash-point sweep).

Failures that are reported. A `Trouble` makes operations of some kinds fail, once or until it is
taken away. A flush that fails loses what it should have saved, whatever later flushes say
(fsyncgate): the disk remembers it in `loses_on_exit`, and its driver lets the unsynced data
go when the process has ended.

Failures that are not reported: `damage` changes bytes that lie on the device, `misreads` changes
bytes on their way from it. Only a checksum notices.

Everything that struck is counted in `fired`, by kind. While a checker looks at the node from
outside (`observed`), nothing strikes: a checker's read is not a read of the node's.

Where work costs time (`work`), the disk adds up what its operations cost.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidelog.controller.bootstrap import BOOTSTRAP_FILE
from tidelog.env.memory_disk import MemoryDisk, Operation
from tidelog.env.prng import Prng
from tidelog.errors import StorageError
from tidelog.sim.engine.work import MIB, Costs, Work

READS: Final = frozenset((Operation.READ,))
WRITES: Final = frozenset((Operation.APPEND, Operation.CREATE, Operation.TRUNCATE))
SYNCS: Final = frozenset((Operation.SYNC, Operation.REPLACE))
SPARED_FILES: Final = ("meta.properties", BOOTSTRAP_FILE)
"""No byte of them is changed, since it takes an operator to fix them. Kafka gives the identity no
checksum, so a flipped bit of the cluster id makes the node one of another cluster, whose nodes
refuse it. A new node does not start without the first users that formatting has left."""


class ProcessKilled(BaseException):
    """The process ended inside a write. Not an `Exception`: no handler of the node may see it."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Operations that fail."""

    kind: str
    """Counted under this name."""
    operations: frozenset[Operation]
    message: str = "input/output error"
    sticky: bool = True
    """Whether the next operation fails as well."""


class Observation:
    """Looks from outside, one inside the other. A class, because a generator for each would take
    several times as long, and the simulator looks after every event."""

    __slots__ = ("depth",)

    def __init__(self) -> None:
        # How many are under way.
        self.depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


class SimDisk(MemoryDisk):
    """A memory disk that a simulation can break."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        # Writes until the process dies; `None` for never.
        self.fuse: int | None = None
        # Called with every operation before it is done.
        self.witness: Callable[[Operation, str], None] | None = None
        # Whether the process dies in the middle of its next append.
        self.tears_next_append = False
        # Whether flushes fail.
        self.failing_syncs = False
        # What fails now, the oldest first.
        self.troubles: list[Trouble] = []
        # Whether a flush has failed in this process's life.
        self.loses_on_exit = False
        # Whether anything was reported to this process, which may therefore end.
        self.hurt = False
        # Whether anything was ever reported to a process.
        self.was_hurt = False
        # Reads until one is changed on its way; `None` for never.
        self.misread_in: int | None = None
        # Draws which bit.
        self.misread_prng = Prng(0)
        # Whether a fault has changed bytes, and no scrub has found all well again.
        self.damaged = False
        # Whether a fault has ever changed bytes, on the device or on their way to the process,
        # which cannot distinguish the two.
        self.was_damaged = False
        # Operations that a disk which fails as a whole has refused.
        self.refused_count = 0
        # Called before a power cut.
        self.on_crash: Callable[[SimDisk], None] | None = None
        # How often what happened.
        self.fired: Counter[str] = Counter()
        # What each operation costs; `None` where work is free.
        self.costs: Costs | None = None
        # Microseconds that operations have cost since its driver last took them.
        self.spent_us = 0
        # Who looks from outside.
        self._observation = Observation()

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong with the device now."""
        return (
            self.failing is None
            and self.capacity_bytes is None
            and not self.failing_syncs
            and not self.troubles
        )

    @property
    def is_pending(self) -> bool:
        """Whether something is going to strike that has not yet."""
        return self.fuse is not None or self.misread_in is not None or bool(self.troubles)

    @property
    def is_sound(self) -> bool:
        """Whether it is well and holds what was written to it."""
        return self.is_well and not self.damaged

    def crash(self, prng: Prng | None = None) -> Counter[str]:
        """A power cut; what it did is counted."""
        if self.on_crash is not None:
            self.on_crash(self)
        fired = super().crash(prng)
        self.fired += fired
        return fired

    def heal(self) -> None:
        """Takes away everything that is going to strike."""
        self.fuse = self.misread_in = None
        self.troubles.clear()

    def observed(self) -> Observation:
        """Nothing strikes inside."""
        return self._observation

    def charge(self, path: str, size_bytes: int) -> None:
        """Takes space for a write, unless the fuse has burnt down."""
        if self.fuse is not None:
            if self.fuse == 0:
                self.fuse = None
                raise ProcessKilled(path)
            self.fuse -= 1
        try:
            super().charge(path, size_bytes)
        except StorageError:
            self._note_hurt()
            self.fired["no-space"] += 1
            raise

    def begin(self, operation: Operation, path: str) -> None:
        """Lets an operation fail, or the process end."""
        if self._observation.depth:
            return
        if self.costs is not None:
            self.spent_us += self.costs[operation]
        if self.witness is not None:
            self.witness(operation, path)
        if self.failing is not None:
            self._note_hurt()
            self.refused_count += 1
        super().begin(operation, path)
        if self.failing_syncs and operation in SYNCS:
            self.loses_on_exit = True
            self._note_hurt()
            raise StorageError(path, "flush failed")
        for trouble in self.troubles:
            if operation in trouble.operations:
                self._strike(trouble, operation, path)

    def _strike(self, trouble: Trouble, operation: Operation, path: str) -> None:
        if not trouble.sticky:
            self.troubles.remove(trouble)
        self.fired[trouble.kind] += 1
        self._note_hurt()
        if operation in SYNCS:
            self.loses_on_exit = True
        raise StorageError(path, trouble.message)

    def _note_hurt(self) -> None:
        self.hurt = self.was_hurt = True

    def wrote(self, path: str, data: bytearray, size_bytes: int) -> None:
        """Takes half of an append back, and the process with it."""
        if self.costs is not None:
            self.spent_us += size_bytes * self.costs[Work.APPEND_MIB] // MIB
        if self.tears_next_append:
            self.tears_next_append = False
            lost_bytes = size_bytes - size_bytes // 2
            del data[len(data) - lost_bytes :]
            self.refund(lost_bytes)
            raise ProcessKilled(path)

    def deliver(self, path: str, data: bytes) -> bytes:
        """Bytes on their way to the process; one bit of them may change."""
        if self._observation.depth:
            return data
        if self.costs is not None:
            self.spent_us += len(data) * self.costs[Work.READ_MIB] // MIB
        if self.misread_in is None or not data or path in SPARED_FILES:
            return data
        if self.misread_in:
            self.misread_in -= 1
            return data
        self.misread_in = None
        self.hurt = self.was_damaged = True
        self.fired["bit-flip-on-read"] += 1
        return flipped(data, self.misread_prng)


def flipped(data: bytes, prng: Prng) -> bytes:
    """The same bytes with one bit changed."""
    position = prng.below(len(data))
    return data[:position] + bytes((data[position] ^ 1 << prng.below(8),)) + data[position + 1 :]
