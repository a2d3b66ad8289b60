"""Seeds with known results: what a campaign runs in tests, in place of the simulator."""

import os
import signal
from collections import Counter
from dataclasses import dataclass, field

FAILS, RAISES, LEAVES, IS_KILLED, HANGS = 3, 5, 7, 11, 13
"""Seeds that end badly; every other one is clean."""


@dataclass
class KnownResult:
    """The result of a seed, with the fields of the simulator's outcome."""

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


def run(seed: int) -> KnownResult:
    """Every kind of ending but the one that never comes."""
    if seed == RAISES:
        raise SystemExit("the process had enough")
    if seed == LEAVES:
        os._exit(9)
    if seed == IS_KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed % 100 == FAILS:
        return KnownResult(seed, violation=f"NothingLost: seed {seed}")
    return KnownResult(
        seed, marks=("low",) if seed < 1_000 else ("low", "high"), election_ms=(seed,)
    )


def hang(seed: int) -> KnownResult:
    """Never returns."""
    while True:
        signal.pause()


def revision() -> str:
    """The same even if the sources change meanwhile."""
    return "now"


def run_with_pid(seed: int) -> KnownResult:
    """Names the process that ran it."""
    return KnownResult(seed, acknowledged=os.getpid())
