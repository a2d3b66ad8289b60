"""Seeds whose fate is known: what a campaign plays in tests, in place of the simulator."""

import os
import signal
from collections import Counter
from dataclasses import dataclass, field

FAILS, RAISES, LEAVES, IS_KILLED, HANGS = 3, 5, 7, 11, 13
"""Seeds that end badly; every other one is clean."""


@dataclass
class Told:
    """What a seed tells, as the simulator's outcome does."""

    seed: int
    violation: str | None = None
    events: int = 10
    virtual_ms: int = 1_000
    acknowledged: int = 2
    healed_ms: int = 30
    trace_hash: str = "abc"
    faults: Counter[str] = field(default_factory=lambda: Counter({"kill": 2}))
    fired: Counter[str] = field(default_factory=Counter)
    marks: tuple[str, ...] = ()
    election_ms: tuple[int, ...] = ()
    unavailable_ms: tuple[int, ...] = ()

    @property
    def violated(self) -> str | None:
        return None if self.violation is None else self.violation.partition(":")[0]


def play(seed: int) -> Told:
    """Every kind of ending but the one that takes for ever."""
    if seed == RAISES:
        raise SystemExit("the process had enough")
    if seed == LEAVES:
        os._exit(9)
    if seed == IS_KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed % 100 == FAILS:
        return Told(seed, violation=f"NothingLost: seed {seed}")
    return Told(seed, marks=("low",) if seed < 1_000 else ("low", "high"), election_ms=(seed,))


def hang(seed: int) -> Told:
    """Never comes back."""
    while True:
        signal.pause()


def revision() -> str:
    """The same whatever somebody writes meanwhile."""
    return "now"


def play_with_pid(seed: int) -> Told:
    """Tells which process played it."""
    return Told(seed, acknowledged=os.getpid())
