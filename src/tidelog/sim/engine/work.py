"""What work costs in virtual time: a node has one event loop, and what it does keeps it busy.

Without this a simulated node does everything in no time, and the simulator cannot see what a long
turn does to a cluster: while a node works it answers no request, sends no heartbeat and no fetch,
and its peers take it for dead. So each turn of a node costs what it did. The product does not know:
the driver counts from outside (operations of the disk, inputs, effects, records of metadata,
changes of role) and multiplies by a table (`COSTS_US`) that was measured on the real thing.

A turn begins when the first input or timer reaches a node that is free. Its state changes then, so
checkers and crashes see it at that instant. Its effects leave when it is over, as those of the real
driver do, which takes them last. Whatever arrives in between waits, in order, and is the next turn.
Timers fire late. Virtual time goes in milliseconds, costs in microseconds: what a turn spends below
a millisecond is carried over to the next one, so many short turns keep a node as busy as one long
turn does.

Left out: what is not in the table is free, above all the partitions within one request (a fetch of
thousands of partitions costs what its bytes do), the records of a snapshot, which are read in
slices, and the processor's share of other processes.
Flushes are not in here: another thread carries them out, and the driver draws how long they take.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from tidelog.env.memory_disk import Operation
from tidelog.kraft.messages import SnapshotId

T = TypeVar("T")


class Work(Enum):
    """What a node does beside the operations of its disk, as far as a driver can count it."""

    TURN = "turn"
    """A turn in which nothing happens."""
    INPUT = "input"
    """An input: a small request, an answer of a peer, a finished flush."""
    INPUT_MIB = "input of a MiB"
    """The bytes of an input: what a produce of a MiB takes longer than a small one."""
    EFFECT = "effect"
    """A send, a connect, a flush that is asked for."""
    READ_MIB = "read of a MiB"
    APPEND_MIB = "append of a MiB"
    METADATA_DECIDED = "metadata record decided"
    """A record that came to the metadata log: a controller decided it, or a follower copied it."""
    METADATA_REPLAYED = "metadata record replayed"
    """A committed record that became part of the image."""
    ROLE_CHANGE = "change of role"
    """A replica began to lead or to follow, or was dropped."""


Costs = dict[Operation | Work, int]
"""Microseconds by what is done."""

MIB: Final = 1 << 20

# Source: `make bench-work-costs`, medians of four runs at 32c2610 on a virtual machine with two
# cores (AMD EPYC) that other work shared, its log directories on ext4. A disk that nothing has
# warmed up takes two or three times as long for new directories and files.
COSTS_US: Final[Mapping[Operation | Work, int]] = {
    Operation.LOOK: 10,
    Operation.READ: 3,
    Operation.CREATE: 240,
    Operation.APPEND: 8,
    Operation.TRUNCATE: 20,
    Operation.SYNC: 350,
    Operation.REPLACE: 700,
    Operation.RENAME: 60,
    Operation.DELETE: 390,
    Operation.MAKE_DIR: 210,
    Operation.LINK: 30,
    Work.TURN: 6,
    Work.INPUT: 61,
    Work.INPUT_MIB: 970,
    Work.EFFECT: 1,
    Work.READ_MIB: 107,
    Work.APPEND_MIB: 300,
    Work.METADATA_DECIDED: 20,
    Work.METADATA_REPLAYED: 13,
    Work.ROLE_CHANGE: 61,
}


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the machines of a run are like."""

    factor: int = 1
    """So many times what the table says."""
    slow: Mapping[Operation, int] = field(default_factory=dict)
    """Operations of the disk that take so many microseconds instead."""
    flush_ms: tuple[int, int] | None = None
    """How long its flushes take, if that is special."""

    def costs(self) -> Costs:
        """What everything costs here."""
        return {work: self.factor * cost for work, cost in COSTS_US.items()} | dict(self.slow)


SLOW_MS: Final = 100
"""What one operation of a very slow disk takes."""
FREE, USUAL, SLOW = "free", "usual", "slow"
SLOW_MAKE_DIR, SLOW_SYNC = "slow-make-dir", "slow-sync"
HARDWARE: Final[dict[str, Hardware | None]] = {
    FREE: None,
    USUAL: Hardware(),
    SLOW: Hardware(factor=5),
    SLOW_MAKE_DIR: Hardware(slow={Operation.MAKE_DIR: SLOW_MS * 1000}),
    SLOW_SYNC: Hardware(
        slow={Operation.SYNC: SLOW_MS * 1000, Operation.REPLACE: SLOW_MS * 1000},
        flush_ms=(SLOW_MS, SLOW_MS),
    ),
}
"""By name; where work is free, nodes do everything in no time."""


class EventLoop(Generic[T]):
    """The event loop of a machine's process: what its turns cost, and whether it is free. `T` is
    what a turn sends."""

    __slots__ = (
        "_costs",
        "_decided",
        "_free_at_us",
        "_read",
        "_replayed",
        "factor",
        "is_uneven",
        "spent_us",
        "turn_us",
        "under_way",
    )

    def __init__(self, hardware: Hardware) -> None:
        self.move_to(hardware)
        # What the turn that goes on has cost by now, its disk not included.
        self.spent_us = 0
        # Connections that were read in it.
        self._read: set[int] = set()
        # When the last turn was over, or will be.
        self._free_at_us = 0
        # Exclusive ends of the metadata log and of the image when they were last looked at.
        self._decided = self._replayed = 0
        # What the newest turn cost.
        self.turn_us = 0
        # What a turn that is not over is going to send; `None` while the loop is free.
        self.under_way: list[T] | None = None

    def move_to(self, hardware: Hardware) -> None:
        """What its turns cost from now on."""
        self._costs = hardware.costs()
        # Of the hardware: a bound that was measured on usual machines is so many times larger.
        self.factor = hardware.factor
        # Whether single operations of the disk take as long as many others.
        self.is_uneven = bool(hardware.slow)

    @property
    def costs(self) -> Costs:
        """For the disk, which counts its own operations."""
        return self._costs

    def is_over(self, now: int) -> bool:
        """Whether the newest turn is."""
        return self._free_at_us // 1000 <= now

    def begin_life(self, decided: int, replayed: int) -> None:
        """A new process, whose start has read its metadata to these offsets."""
        self.spent_us = 0
        self._read.clear()
        self._decided, self._replayed = decided, replayed

    def end_life(self) -> None:
        """The process is gone, in the middle of a turn perhaps."""
        self.under_way = None
        self.spent_us = self._free_at_us = 0

    def on_input(self, size_bytes: int, connection: int | None = None) -> None:
        """An input is handled. All that a connection brings in a turn is one read."""
        costs = self._costs
        self.spent_us += size_bytes * costs[Work.INPUT_MIB] // MIB
        if connection is None or connection not in self._read:
            self.spent_us += costs[Work.INPUT]
        if connection is not None:
            self._read.add(connection)

    def on_role_change(self) -> None:
        """A replica changes its role."""
        self.spent_us += self._costs[Work.ROLE_CHANGE]

    def end_turn(
        self,
        now: int,
        disk_us: int,
        effect_count: int,
        *,
        decided: int,
        replayed: int,
        snapshot: SnapshotId | None = None,
    ) -> int:
        """Adds up what the turn has cost; returns the time at which it is over. `decided` and
        `replayed` are the ends of the metadata log and of the image behind it. Neither came record
        by record below the end of `snapshot`, the newest one, if it was not there before."""
        costs = self._costs
        snapshot_end = 0 if snapshot is None else snapshot.end_offset
        spent_us = self.spent_us + disk_us + costs[Work.TURN] + effect_count * costs[Work.EFFECT]
        if decided != self._decided:
            before = max(self._decided, snapshot_end)
            spent_us += max(0, decided - before) * costs[Work.METADATA_DECIDED]
            self._decided = decided
        if replayed != self._replayed:
            before = max(self._replayed, snapshot_end)
            spent_us += max(0, replayed - before) * costs[Work.METADATA_REPLAYED]
            self._replayed = replayed
        self.spent_us = 0
        self._read.clear()
        self.turn_us = spent_us
        self._free_at_us = max(now * 1000, self._free_at_us) + spent_us
        return self._free_at_us // 1000
