"""One row per seed, whatever the seed does to the process that plays it."""

import os
import select
import signal
from collections.abc import Iterator

import pytest

from tests.unit.pipeline.seed_plays import (
    FAILS,
    HANGS,
    IS_KILLED,
    LEAVES,
    RAISES,
    hang,
    play,
    play_with_pid,
    revision,
)
from tidelog.pipeline.campaign.runs import runs_of
from tidelog.pipeline.campaign.seeds import Child, Played, SeedRunner, end_waiting, play_task

_PATIENT = Played("cluster", "all", 60.0, revision)


@pytest.fixture(autouse=True)
def _no_child_of_another_test() -> Iterator[None]:
    yield
    end_waiting()


def _verdicts(seeds, played=_PATIENT, what=play):
    rows = SeedRunner(played, what).rows(seeds)
    return {row["seed"]: (row["verdict"], row["violation"]) for row in rows}


def _pids(seeds, what=play_with_pid):
    """Which process played each of the seeds, in one task."""
    return [row["acknowledged"] for row in SeedRunner(_PATIENT, what).rows(seeds)]


def test_every_ending_is_a_verdict_on_its_seed_alone():
    assert _verdicts(range(1, 13)) == {
        **dict.fromkeys(range(1, 13), ("clean", None)),
        FAILS: ("violation", "NothingLost: seed 3"),
        RAISES: ("crash", "Crash: SystemExit('the process had enough')"),
        LEAVES: ("crash", "Crash: the process exited with code 9"),
        IS_KILLED: ("crash", "Crash: the process was ended by SIGKILL"),
    }


def test_a_seed_that_never_ends_is_given_up_and_the_next_one_is_played():
    found = _verdicts((HANGS, HANGS + 1), Played("cluster", "all", 0.05, revision), hang)
    expected = ("timeout", "TimeLimit: no verdict within 0.05 s")
    assert found == {HANGS: expected, HANGS + 1: expected}


def test_a_row_has_what_was_played_and_what_it_told():
    (row,) = SeedRunner(Played("quorum", "kills", 60.0, revision), play).rows([1])
    assert [row[name] for name in ("tier", "scenario", "revision")] == ["quorum", "kills", "now"]
    assert (row["events"], row["faults"], row["marks"]) == (10, {"kill": 2}, ["low"])
    assert row["election_ms"] == [1]


def test_a_task_adds_its_rows_to_the_table_in_files_of_bounded_size(tmp_path):
    assert play_task(range(20, 270), _PATIENT, play, str(tmp_path)) == 250
    found = [run["seed"] for run in runs_of(str(tmp_path), "cluster", "all", "now")]
    assert sorted(found) == list(range(20, 270))
    assert len(list(tmp_path.iterdir())) == 3


def test_a_child_plays_task_after_task():
    (child,) = set(_pids(range(3)))
    assert set(_pids(range(3, 6))) == {child}
    assert child != os.getpid()


def test_another_play_gets_another_child_and_the_old_one_ends():
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
    rows = SeedRunner(_PATIENT, play_with_pid).rows(range(9))
    child = next(rows)["acknowledged"]
    rows.close()
    assert _pids([1]) == [child]


def test_a_child_ends_with_its_process():
    """The other end of a pipe closes when the last process that has it is gone."""
    ours, theirs = os.pipe()
    parent = os.fork()
    if parent == 0:
        Child(play).ask(1, 60.0)
        os._exit(0)
    os.close(theirs)
    os.waitpid(parent, 0)
    readable, _, _ = select.select([ours], [], [], 60.0)
    assert readable
    assert os.read(ours, 1) == b""
    os.close(ours)
