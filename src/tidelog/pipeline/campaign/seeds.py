"""Playing seeds of the simulator inside a task: a row for each, whatever it does to its process.

A seed may fail, hang, or end the process that plays it (a broken extension, no memory left). So
seeds are played one after the other in a forked child, which sends what came of each; the task
only waits. A child that ends without an answer is a `crash` of the seed it was at, a child that is
silent beyond the time limit is killed and the seed a `timeout`; the next seed gets a new child.
Without that, Spark would retry the task until it gives up the whole job.

Spark gives its Python processes one task after the other. A child stays for the next task of its
process, when that plays the same: what a first seed makes ready (tables of the codecs, caches) is
made once. It ends with its process, whose end of the pipe it sees close. A run is a function of
its seed and of nothing that ran before it; `tests/sim/test_determinism.py` holds the simulator to
that, and the campaign's test holds reused children to it.

The pipeline knows nothing of the simulator: what plays a seed comes as a function, together with a
name for it (`Played.tier`, `Played.scenario`). Which sources a row was made by says the process
that made it (`revision.py`), not the driver: on a cluster the two may differ. It says so once, for
what it has imported does not change when the files do.

Invariants: one row per seed, in the order of the seeds; a row is in the table at the latest
`_FLUSH_ROWS` rows after it was made, so memory stays flat. No Spark import here.
"""

import gc
import multiprocessing
import pickle
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from typing import Any, Final, Protocol

from tidelog.pipeline.campaign.revision import source_revision
from tidelog.pipeline.campaign.runs import add_runs

CLEAN: Final = "clean"
VIOLATION: Final = "violation"
CRASH: Final = "crash"
TIMEOUT: Final = "timeout"

_FLUSH_ROWS: Final = 100


class Result(Protocol):
    """What a played seed has to tell; the simulator's `Outcome` does."""

    violation: str | None
    """The property and what happened; `None` for a clean run."""
    events: int
    virtual_ms: int
    acknowledged: int
    healed_ms: int
    trace_hash: str
    faults: Counter[str]
    fired: Counter[str]
    marks: tuple[str, ...]
    election_ms: tuple[int, ...]
    unavailable_ms: tuple[int, ...]

    @property
    def violated(self) -> str | None:
        """The name of the property."""


Play = Callable[[int], Result]
"""Plays the seed of this number. Must be importable where tasks run."""


@dataclass(frozen=True, slots=True)
class Played:
    """What is played in a campaign."""

    tier: str
    scenario: str
    limit_s: float
    """A seed that takes longer is given up."""
    revision: Callable[[], str] = source_revision
    """Names the sources of the machine on which it is called."""


class Child:
    """A process that was forked from this one, and plays seeds one after the other."""

    def __init__(self, play: Play) -> None:
        # A fork, because it has everything imported; nothing of Arrow is touched in the child.
        context = multiprocessing.get_context("fork")
        # Our end of the pipe: seeds out, what came of them in.
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._pipe, play), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.is_alive()

    def ask(self, seed: int, limit_s: float) -> Mapping[str, Any] | None:
        """What it says of a seed; `None` when it is silent beyond the limit.

        Raises `EOFError` or `OSError` when it ended instead.
        """
        self._pipe.send(seed)
        if not self._pipe.poll(limit_s):
            return None
        told: Mapping[str, Any] = self._pipe.recv()
        return told

    def ending(self) -> str:
        """How it ended, of which it has given notice; for messages."""
        self._process.join()
        return _ending(self._process.exitcode)

    def end(self) -> None:
        """Ends it, whatever it is doing."""
        self._pipe.close()
        self._process.kill()
        self._process.join()


_waiting: Final[dict[bytes, Child]] = {}
"""The child that waits for this process's next task, by the pickled function that it plays; one
at most."""


class SeedRunner:
    """One task's seeds, one child process at a time."""

    def __init__(self, played: Played, play: Play) -> None:
        self._played = played
        self._play = play
        self._revision = _imported_sources(played.revision)
        # What is played, for a child that plays it already.
        self._name = pickle.dumps(play)
        # The child that waits for a seed; `None` while it plays one, before the first seed and
        # after a child was lost.
        self._child: Child | None = None

    def rows(self, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
        """Plays the seeds; when the iterator ends or is closed, the child waits for another task
        of this process."""
        try:
            for seed in seeds:
                yield self._row(seed)
        finally:
            if self._child is not None:
                _keep_waiting(self._name, self._child)
                self._child = None

    def _row(self, seed: int) -> dict[str, Any]:
        begun = time.monotonic()
        told = self._ask(seed)
        return {
            **_blank(),
            "tier": self._played.tier,
            "scenario": self._played.scenario,
            "revision": self._revision,
            "seed": seed,
            **told,
            "wall_ms": round(1000 * (time.monotonic() - begun)),
        }

    def _ask(self, seed: int) -> Mapping[str, Any]:
        """What the child says of a seed, or what became of the child."""
        child = self._child or _take_waiting(self._name) or Child(self._play)
        self._child = None
        try:
            told = child.ask(seed, self._played.limit_s)
        except (EOFError, OSError):
            lost = _lost(CRASH, "Crash", f"the process {child.ending()}")
            child.end()
            return lost
        except BaseException:
            # The task is being ended while the seed is played.
            child.end()
            raise
        if told is not None:
            self._child = child
            return told
        child.end()
        limit = f"no verdict within {self._played.limit_s:g} s"
        return _lost(TIMEOUT, "TimeLimit", limit)


def play_task(seeds: Sequence[int], played: Played, play: Play, table: str) -> int:
    """Plays the seeds and adds their rows to the table of runs; how many there were."""
    made: list[dict[str, Any]] = []
    for row in SeedRunner(played, play).rows(seeds):
        made.append(row)
        if len(made) == _FLUSH_ROWS:
            add_runs(table, made)
            made = []
    add_runs(table, made)
    return len(seeds)


def end_waiting() -> None:
    """Ends the child that waits, if there is one."""
    while _waiting:
        _waiting.popitem()[1].end()


def _take_waiting(name: bytes) -> Child | None:
    """The waiting child if it plays the same and lives, else none, and then none waits."""
    child = _waiting.pop(name, None)
    end_waiting()
    if child is None or child.is_alive:
        return child
    child.end()
    return None


def _keep_waiting(name: bytes, child: Child) -> None:
    end_waiting()
    _waiting[name] = child


@cache
def _imported_sources(revision: Callable[[], str]) -> str:
    return revision()


def _serve(pipe: Connection, other_end: Connection, play: Play) -> None:
    """The child: a seed in, what came of it out, until the pipe closes."""
    # Ours alone must be open, else the end of the task would not be seen.
    other_end.close()
    # The task decides when to end; Spark's worker would turn the signal into an exception.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # What was imported before is no garbage: each seed looks for some when it ends.
    gc.freeze()
    while True:
        try:
            seed = pipe.recv()
        except EOFError:
            return
        pipe.send(_told(play, seed))


def _told(play: Play, seed: int) -> dict[str, Any]:
    begun = time.process_time()
    try:
        result = play(seed)
    except BaseException as error:  # Whatever it is, it is the verdict on this seed.
        return _lost(CRASH, "Crash", repr(error))
    return {
        "verdict": CLEAN if result.violation is None else VIOLATION,
        "property": result.violated,
        "violation": result.violation,
        "events": result.events,
        "virtual_ms": result.virtual_ms,
        "acknowledged": result.acknowledged,
        "healed_ms": result.healed_ms,
        "cpu_ms": round(1000 * (time.process_time() - begun)),
        "trace_hash": result.trace_hash,
        "faults": dict(sorted(result.faults.items())),
        "fired": dict(sorted(result.fired.items())),
        "marks": list(result.marks),
        "election_ms": list(result.election_ms),
        "unavailable_ms": list(result.unavailable_ms),
    }


def _lost(verdict: str, name: str, text: str) -> dict[str, Any]:
    """What is known of a seed that did not come to its end."""
    return {"verdict": verdict, "property": name, "violation": f"{name}: {text}"}


def _blank() -> dict[str, Any]:
    counts = dict.fromkeys(("events", "virtual_ms", "acknowledged", "cpu_ms"), 0)
    empty: dict[str, Any] = {"faults": {}, "fired": {}}
    lists: dict[str, Any] = {"marks": [], "election_ms": [], "unavailable_ms": []}
    return {**counts, "healed_ms": -1, "trace_hash": "", **empty, **lists}


def _ending(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"exited with code {exit_code}"
