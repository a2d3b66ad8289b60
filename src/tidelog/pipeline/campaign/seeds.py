"""Running seeds of the simulator inside a task: a row for each, whatever it does to its process.

A seed may fail, hang, or end the process that runs it (a broken extension, no memory left). So a
forked child runs the seeds one after the other and sends the result of each; the task only waits.
A child that ends without a result is a `crash` of its seed; one that exceeds the time limit is
killed, and its seed is a `timeout`. The next seed gets a new child. Without children, Spark would
retry the task until it gives up the whole job.

A child stays for the next task of its process if that task runs the same function: codec tables and
caches that the first seed fills are filled once. The child ends with its process, because then its
pipe closes. A run is a function of its seed and of nothing that ran before it;
`tests/sim/test_determinism.py` checks that of the simulator, the campaign's test of such children.

The pipeline does not import the simulator: the caller gives the function that runs a seed, and
names for it (`RunKind.tier`, `RunKind.scenario`). The process that makes a row names its sources
(`revision.py`), not the driver: on a cluster the two may differ. It computes the revision once,
because its imported code does not change when the files do.

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
_AS_THEY_ARE: Final = (
    "violation", "events", "virtual_ms", "acknowledged", "healed_ms", "trace_hash", "marks",
    "election_ms", "unavailable_ms",
)  # fmt: skip
"""Fields of a result that are columns of its row, unchanged."""


class SeedResult(Protocol):
    """The result of one seed; the simulator's `Outcome` is one."""

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


RunSeed = Callable[[int], SeedResult]
"""Runs the seed of this number. Tasks must be able to import it."""


@dataclass(frozen=True, slots=True)
class RunKind:
    """What a campaign runs for each seed."""

    tier: str
    scenario: str
    limit_s: float
    """A seed that takes longer is a time-out."""
    revision: Callable[[], str] = source_revision
    """Names the sources of the machine on which it is called."""


class SeedProcess:
    """A process that was forked from this one, and runs seeds one after the other."""

    def __init__(self, run_seed: RunSeed) -> None:
        # A fork, because it has everything imported; the child does not use Arrow.
        context = multiprocessing.get_context("fork")
        # Our end of the pipe: seeds out, results in.
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, self._pipe, run_seed)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def run(self, seed: int, limit_s: float) -> Mapping[str, Any] | None:
        """The verdict and counts of a seed; `None` when the limit passes without a result. Raises
        `EOFError` or `OSError` when the process ended instead."""
        self._pipe.send(seed)
        if not self._pipe.poll(limit_s):
            return None
        result: Mapping[str, Any] = self._pipe.recv()
        return result

    def exit_text(self) -> str:
        """How the process ended, for messages; waits for its end."""
        self._process.join()
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    def kill(self) -> None:
        """Ends it, even while it runs a seed."""
        self._pipe.close()
        self._process.kill()
        self._process.join()


_idle: Final[dict[bytes, SeedProcess]] = {}
"""The child that waits for this process's next task, by its pickled function; one at most."""


class SeedRunner:
    """One task's seeds, one child process at a time."""

    def __init__(self, kind: RunKind, run_seed: RunSeed) -> None:
        self._kind = kind
        self._run_seed = run_seed
        self._revision = _imported_sources(kind.revision)
        # Identifies the function, to find an idle child that runs it.
        self._name = pickle.dumps(run_seed)
        # The child that waits for a seed; `None` while it runs one, before the first seed and
        # after a child was lost.
        self._child: SeedProcess | None = None

    def rows(self, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
        """Runs the seeds; when the iterator ends or is closed, the child waits for another task
        of this process."""
        try:
            for seed in seeds:
                yield self._row(seed)
        finally:
            if self._child is not None:
                _keep_idle(self._name, self._child)
                self._child = None

    def _row(self, seed: int) -> dict[str, Any]:
        begun = time.monotonic()
        result = self._run(seed)
        return {
            **_NO_COUNTS,
            "tier": self._kind.tier,
            "scenario": self._kind.scenario,
            "revision": self._revision,
            "seed": seed,
            **result,
            "wall_ms": round(1000 * (time.monotonic() - begun)),
        }

    def _run(self, seed: int) -> Mapping[str, Any]:
        """The result of the child, or the verdict on a child that was lost."""
        child = self._child or _take_idle(self._name) or SeedProcess(self._run_seed)
        self._child = None
        try:
            result = child.run(seed, self._kind.limit_s)
        except (EOFError, OSError):
            lost = _no_result(CRASH, "Crash", f"the process {child.exit_text()}")
            child.kill()
            return lost
        except BaseException:
            # Spark ends the task while the seed runs.
            child.kill()
            raise
        if result is not None:
            self._child = child
            return result
        child.kill()
        limit = f"no verdict within {self._kind.limit_s:g} s"
        return _no_result(TIMEOUT, "TimeLimit", limit)


def run_task(seeds: Sequence[int], kind: RunKind, run_seed: RunSeed, table: str) -> int:
    """Runs the seeds and adds their rows to the table of runs; returns how many there were."""
    made: list[dict[str, Any]] = []
    for row in SeedRunner(kind, run_seed).rows(seeds):
        made.append(row)
        if len(made) == _FLUSH_ROWS:
            add_runs(table, made)
            made = []
    add_runs(table, made)
    return len(seeds)


def end_idle() -> None:
    """Ends the child that waits, if there is one."""
    while _idle:
        _idle.popitem()[1].kill()


def _take_idle(name: bytes) -> SeedProcess | None:
    """The waiting child if it lives and runs the same function; any other one is ended."""
    child = _idle.pop(name, None)
    end_idle()
    if child is None or child.is_alive:
        return child
    child.kill()
    return None


def _keep_idle(name: bytes, child: SeedProcess) -> None:
    end_idle()
    _idle[name] = child


@cache
def _imported_sources(revision: Callable[[], str]) -> str:
    return revision()


def _serve(pipe: Connection, other_end: Connection, run_seed: RunSeed) -> None:
    """The child: a seed in, its result out, until the pipe closes."""
    # Only our end may be open, else the child would not see the end of the task.
    other_end.close()
    # The task decides when to end; Spark's worker would turn the signal into an exception.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Each seed collects garbage when it ends; what was imported before is not garbage.
    gc.freeze()
    while True:
        try:
            seed = pipe.recv()
        except EOFError:
            return
        pipe.send(_result(run_seed, seed))


def _result(run_seed: RunSeed, seed: int) -> dict[str, Any]:
    begun = time.process_time()
    try:
        result = run_seed(seed)
    except BaseException as error:  # Any exception is the verdict on this seed.
        return _no_result(CRASH, "Crash", repr(error))
    counters = {"faults": result.faults, "fired": result.fired}
    return {
        "verdict": CLEAN if result.violation is None else VIOLATION,
        "property": result.violated,
        "cpu_ms": round(1000 * (time.process_time() - begun)),
        **{name: getattr(result, name) for name in _AS_THEY_ARE},
        **{name: dict(sorted(counts.items())) for name, counts in counters.items()},
    }


def _no_result(verdict: str, name: str, text: str) -> dict[str, Any]:
    return {"verdict": verdict, "property": name, "violation": f"{name}: {text}"}


_NO_COUNTS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("events", "virtual_ms", "acknowledged", "cpu_ms"), 0),
    **dict.fromkeys(("faults", "fired", "marks", "election_ms", "unavailable_ms"), ()),
    "healed_ms": -1,
    "trace_hash": "",
}
"""The counts of a seed that did not run to its end."""
