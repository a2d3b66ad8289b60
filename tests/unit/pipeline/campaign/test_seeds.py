"""One row per seed, whatever the seed does to the process that runs it."""

import os
import select
import signal
from collections.abc import Iterator

import pytest

from tests.unit.pipeline.seed_runs import (
    FAILS,
    HANGS,
    IS_KILLED,
    LEAVES,
    RAISES,
    hang,
    revision,
    run,
    run_with_pid,
)
from tidelog.pipeline.campaign.runs import runs_of
from tidelog.pipeline.campaign.seeds import RunKind, SeedProcess, SeedRunner, end_idle, run_task

_PATIENT = RunKind("cluster", "all", 60.0, revision)


@pytest.fixture(autouse=True)
def _no_child_of_another_test() -> Iterator[None]:
    yield
    end_idle()


def _verdicts(seeds, kind=_PATIENT, what=run):
    rows = SeedRunner(kind, what).rows(seeds)
    return {row["seed"]: (row["verdict"], row["violation"]) for row in rows}


def _pids(seeds, what=run_with_pid):
    """Which process ran each of the seeds, in one task."""
    return [row["acknowledged"] for row in SeedRunner(_PATIENT, what).rows(seeds)]


def test_every_ending_is_a_verdict_on_its_seed_alone():
    assert _verdicts(range(1, 13)) == {
        **dict.fromkeys(range(1, 13), ("clean", None)),
        FAILS: ("violation", "NothingLost: seed 3"),
        RAISES: ("crash", "Crash: SystemExit('the process had enough')"),
        LEAVES: ("crash", "Crash: the process exited with code 9"),
        IS_KILLED: ("crash", "Crash: the process was ended by SIGKILL"),
    }


def test_a_seed_that_never_ends_is_given_up_and_the_next_one_runs():
    found = _verdicts((HANGS, HANGS + 1), RunKind("cluster", "all", 0.05, revision), hang)
    expected = ("timeout", "TimeLimit: no verdict within 0.05 s")
    assert found == {HANGS: expected, HANGS + 1: expected}


def test_a_row_has_the_kind_of_the_run_and_its_result():
    (row,) = SeedRunner(RunKind("quorum", "kills", 60.0, revision), run).rows([1])
    assert [row[name] for name in ("tier", "scenario", "revision")] == ["quorum", "kills", "now"]
    assert (row["events"], row["faults"], row["marks"]) == (10, {"kill": 2}, ("low",))
    assert row["election_ms"] == (1,)


def test_a_task_adds_its_rows_to_the_table_in_files_of_bounded_size(tmp_path):
    assert run_task(range(20, 270), _PATIENT, run, str(tmp_path)) == 250
    found = [one["seed"] for one in runs_of(str(tmp_path), "cluster", "all", "now")]
    assert sorted(found) == list(range(20, 270))
    assert len(list(tmp_path.iterdir())) == 3


def test_a_child_serves_task_after_task():
    (child,) = set(_pids(range(3)))
    assert set(_pids(range(3, 6))) == {child}
    assert child != os.getpid()


def test_another_function_gets_another_child_and_the_old_one_ends():
    (child,) = set(_pids([1]))
    _verdicts([1])
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert _pids([1]) != [child]


def test_a_child_that_died_while_it_waited_costs_no_seed():
    (child,) = set(_pids([1]))
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    (other,) = set(_pids([1, 2]))
    assert other not in (child, 0)


def test_a_task_that_is_ended_between_seeds_leaves_its_child_to_the_next_one():
    rows = SeedRunner(_PATIENT, run_with_pid).rows(range(9))
    child = next(rows)["acknowledged"]
    rows.close()
    assert _pids([1]) == [child]


def test_a_child_ends_with_its_process():
    """The other end of a pipe closes when the last process that has it is gone."""
    ours, theirs = os.pipe()
    parent = os.fork()
    if parent == 0:
        SeedProcess(run).run(1, 60.0)
        os._exit(0)
    os.close(theirs)
    os.waitpid(parent, 0)
    readable, _, _ = select.select([ours], [], [], 60.0)
    assert readable
    assert os.read(ours, 1) == b""
    os.close(ours)
