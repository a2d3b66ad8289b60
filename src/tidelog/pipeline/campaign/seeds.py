"""Playing seeds of the simulator inside a task: a row for each, whatever it does to its process.

A seed may fail, hang, or end the process that plays it (a broken extension, no memory left). So
seeds are played one after the other in a forked child, which sends what came of each; the task
only waits. A child that ends without an answer is a `crash` of the seed it was at, a child that is
silent beyond the time limit is killed and the seed a `timeout`; the next seed gets a new child.
Without that, Spark would retry the task until it gives up the whole job.

The pipeline knows nothing of the simulator: what plays a seed comes as a function, together with a
name for it (`Played.tier`, `Played.scenario`). Which sources a row was made by says the task that
made it (`revision.py`), not the driver: on a cluster the two may differ.

Invariants: one row per seed, in the order of the seeds; a row is given away at the latest
`_FLUSH_ROWS` rows after it was made, so memory stays flat. No Spark import here.
"""

import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final, Protocol

import pyarrow as pa

from tidelog.pipeline.campaign.revision import source_revision

CLEAN: Final = "clean"
VIOLATION: Final = "violation"
CRASH: Final = "crash"
TIMEOUT: Final = "timeout"

RUN_SCHEMA: Final = pa.schema(
    [
        ("tier", pa.string()),
        ("scenario", pa.string()),
        ("revision", pa.string()),
        ("seed", pa.int64()),
        ("verdict", pa.string()),
        ("property", pa.string()),
        ("violation", pa.string()),
        ("events", pa.int64()),
        ("virtual_ms", pa.int64()),
        ("acknowledged", pa.int64()),
        ("healed_ms", pa.int64()),
        ("cpu_ms", pa.int64()),
        ("wall_ms", pa.int64()),
        ("trace_hash", pa.string()),
        ("faults", pa.map_(pa.string(), pa.int64())),
        ("fired", pa.map_(pa.string(), pa.int64())),
        ("marks", pa.list_(pa.field("element", pa.string()))),
        ("election_ms", pa.list_(pa.field("element", pa.int64()))),
        ("unavailable_ms", pa.list_(pa.field("element", pa.int64()))),
    ]
)
"""A run: what was played, the verdict (`clean`, `violation`, `crash`, `timeout`), the property that
broke, what the seed counted, and how long it took."""

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


class SeedRunner:
    """One task's seeds, one child process at a time."""

    def __init__(self, played: Played, play: Play) -> None:
        self._played = played
        self._play = play
        self._revision = played.revision()
        # The child that waits for a seed, and our end of its pipe; `None` before the first seed
        # and after a child was lost.
        self._child: tuple[BaseProcess, Connection] | None = None

    def rows(self, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
        """Plays the seeds; the child is gone when the iterator ends or is closed."""
        try:
            for seed in seeds:
                yield self._row(seed)
        finally:
            self._end_child()

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
        child, pipe = self._child = self._child or _start_child(self._play)
        try:
            pipe.send(seed)
            if pipe.poll(self._played.limit_s):
                told: Mapping[str, Any] = pipe.recv()
                return told
        except (EOFError, OSError):
            child.join()
            self._end_child()
            return _lost(CRASH, "Crash", f"the process {_ending(child.exitcode)}")
        self._end_child()
        limit = f"no verdict within {self._played.limit_s:g} s"
        return _lost(TIMEOUT, "TimeLimit", limit)

    def _end_child(self) -> None:
        if self._child is None:
            return
        child, pipe = self._child
        self._child = None
        pipe.close()
        child.kill()
        child.join()


def play_seeds(
    batches: Iterable[pa.RecordBatch], played: Played, play: Play
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: batches with a column `seed` to batches of `RUN_SCHEMA`."""
    seeds = (seed for batch in batches for seed in batch.column("seed").to_pylist())
    made: list[dict[str, Any]] = []
    for row in SeedRunner(played, play).rows(seeds):
        made.append(row)
        if len(made) == _FLUSH_ROWS:
            yield pa.RecordBatch.from_pylist(made, schema=RUN_SCHEMA)
            made = []
    if made:
        yield pa.RecordBatch.from_pylist(made, schema=RUN_SCHEMA)


def _start_child(play: Play) -> tuple[BaseProcess, Connection]:
    # A fork, because it has everything imported; nothing of Arrow is touched in the child.
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_serve, args=(theirs, ours, play), daemon=True)
    child.start()
    theirs.close()
    return child, ours


def _serve(pipe: Connection, other_end: Connection, play: Play) -> None:
    """The child: a seed in, what came of it out, until the pipe closes."""
    # Ours alone must be open, else the end of the task would not be seen.
    other_end.close()
    # The task decides when to end; Spark's worker would turn the signal into an exception.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
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
