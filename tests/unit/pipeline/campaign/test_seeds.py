"""One row per seed, whatever the seed does to the process that plays it."""

import multiprocessing

import pyarrow as pa

from tests.unit.pipeline.seed_plays import (
    FAILS,
    HANGS,
    IS_KILLED,
    LEAVES,
    RAISES,
    hang,
    play,
    revision,
)
from tidelog.pipeline.campaign.seeds import RUN_SCHEMA, Played, SeedRunner, play_seeds

_PATIENT = Played("cluster", "all", 60.0)


def _verdicts(seeds, played=_PATIENT, what=play):
    rows = SeedRunner(played, what).rows(seeds)
    return {row["seed"]: (row["verdict"], row["violation"]) for row in rows}


def test_every_ending_is_a_verdict_on_its_seed_alone():
    assert _verdicts(range(1, 13)) == {
        **dict.fromkeys(range(1, 13), ("clean", None)),
        FAILS: ("violation", "NothingLost: seed 3"),
        RAISES: ("crash", "Crash: SystemExit('the process had enough')"),
        LEAVES: ("crash", "Crash: the process exited with code 9"),
        IS_KILLED: ("crash", "Crash: the process was ended by SIGKILL"),
    }


def test_a_seed_that_never_ends_is_given_up_and_the_next_one_is_played():
    found = _verdicts((HANGS, HANGS + 1), Played("cluster", "all", 0.05), hang)
    expected = ("timeout", "TimeLimit: no verdict within 0.05 s")
    assert found == {HANGS: expected, HANGS + 1: expected}


def test_a_row_has_what_was_played_and_what_it_told():
    (row,) = SeedRunner(Played("quorum", "kills", 60.0, revision), play).rows([1])
    assert [row[name] for name in ("tier", "scenario", "revision")] == ["quorum", "kills", "now"]
    assert (row["events"], row["faults"], row["marks"]) == (10, {"kill": 2}, ["low"])
    assert row["election_ms"] == [1]


def test_rows_come_in_arrow_batches_of_bounded_size():
    batches = [pa.RecordBatch.from_pydict({"seed": list(range(20, 150))}) for _ in range(2)]
    made = list(play_seeds(iter(batches), _PATIENT, play))
    assert [len(batch) for batch in made] == [100, 100, 60]
    assert all(batch.schema == RUN_SCHEMA for batch in made)


def test_no_child_outlives_its_task():
    rows = SeedRunner(_PATIENT, play).rows(range(20, 30))
    next(rows)
    assert multiprocessing.active_children()
    rows.close()
    assert multiprocessing.active_children() == []
