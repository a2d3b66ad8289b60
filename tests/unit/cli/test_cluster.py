"""Goal: the cluster's verbs refuse what cannot be, before a process is started or signalled.

The life of real clusters is in `tests/process`.
"""

import os
from pathlib import Path

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.testing.test_cluster_state import example
from tidelog.testing.cluster_state import write_state


@pytest.mark.parametrize("verb", [["down"], ["status"], ["nodes", "kill", "1"]])
def test_no_cluster_is_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: list[str]
) -> None:
    done = tidelog(capsys, *verb, "--data-dir", tmp_path)
    assert done.code == 2
    assert "there is no cluster in" in done.err
    assert "hint: start one with `tidelog up`" in done.err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--config", "num.partition=1"], "did you mean `num.partitions`?"),
        (["--profile", "fast"], "unknown profile `fast`"),
        (["--brokers", "99"], "`99` brokers"),
    ],
)
def test_up_refuses_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: list[str], message: str
) -> None:
    done = tidelog(capsys, "up", "--data-dir", tmp_path, "--base-port", "0", *option)
    assert done.code == 2
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


def test_status_shows_processes_without_any_broker(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Method: a state whose only process is this one, which listens on no port."""
    write_state(tmp_path, example(tmp_path))
    done = tidelog(capsys, "status", "--data-dir", tmp_path, "--output", "json")
    assert done.code == 1
    assert done.json["healthy"] is False
    assert done.json["quorum_leader"] is None
    assert done.json["nodes"] == [
        {"node_id": 1, "pid": os.getpid(), "port": 93, "state": "running", "broker": "unknown"},
        {"node_id": 2, "pid": None, "port": 94, "state": "stopped", "broker": "unknown"},
    ]


def test_nodes_reports_what_became_of_a_node(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    state = example(tmp_path)
    write_state(tmp_path, state.with_process(1, None))
    done = tidelog(capsys, "nodes", "stop", "2", "--data-dir", tmp_path, "--output", "json")
    assert done.json == {"node_id": 2, "pid": None, "port": 94, "state": "stopped"}
    assert tidelog(capsys, "down", "--data-dir", tmp_path).out == "no node was running\n"
    done = tidelog(capsys, "nodes", "pause", "2", "--data-dir", tmp_path)
    assert done.code == 2
    assert "node `2` is not running" in done.err
