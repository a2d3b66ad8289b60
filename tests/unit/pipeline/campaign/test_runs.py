"""The table of runs: files that are there whole or not at all, and rows of one kind."""

import pytest

from tidelog.errors import UsageError
from tidelog.pipeline.campaign.runs import RUN_SCHEMA, add_runs, runs_of

_BLANK = dict.fromkeys(RUN_SCHEMA.names)


def _run(seed, **more):
    kind = {"tier": "cluster", "scenario": "all", "revision": "now"}
    return {**_BLANK, **kind, "seed": seed, "faults": {"kill": 2}, "marks": ["low"], **more}


def _seeds(table, *columns):
    return sorted(run["seed"] for run in runs_of(str(table), "cluster", "all", "now", *columns))


def test_rows_come_back_by_kind(tmp_path):
    table = tmp_path / "out" / "runs"
    assert _seeds(table) == []
    add_runs(str(table), [_run(1), _run(2, tier="quorum"), _run(3, revision="before")])
    add_runs(str(table), [_run(4, scenario="kills"), _run(5), _run(1)])
    add_runs(str(table), [])
    assert _seeds(table) == [1, 1, 5]
    assert _seeds(table, ("seed", "verdict")) == [1, 1, 5]
    assert len(list(table.iterdir())) == 2
    (row,) = runs_of(str(table), "cluster", "kills", "now")
    assert (row["faults"], row["marks"]) == ([("kill", 2)], ["low"])


def test_a_file_that_was_never_finished_is_not_in_the_table(tmp_path):
    add_runs(str(tmp_path), [_run(1)])
    (tmp_path / ".part-1.parquet.new").write_bytes(b"PAR1")
    assert _seeds(tmp_path) == [1]


def test_a_foreign_file_is_named(tmp_path):
    add_runs(str(tmp_path), [_run(1)])
    (tmp_path / "part-notes.parquet").write_text("none of ours")
    with pytest.raises(UsageError, match=r"part-notes\.parquet"):
        _seeds(tmp_path)
