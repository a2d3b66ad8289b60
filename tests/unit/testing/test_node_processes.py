"""Goal: what cannot be done to a node is an error, before anything is signalled or started."""

import os
from pathlib import Path

import pytest

from tests.unit.testing.test_cluster_state import example
from tidelog.errors import UsageError
from tidelog.testing.cluster_state import write_state
from tidelog.testing.node_processes import NodeProcesses


def test_no_cluster_is_a_usage_error_with_the_command_that_starts_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no cluster in") as caught:
        _ = NodeProcesses(tmp_path).state
    assert "tidelog up" in caught.value.hint


def test_a_stopped_node_cannot_be_killed_paused_or_resumed(tmp_path: Path) -> None:
    write_state(tmp_path, example(tmp_path))
    processes = NodeProcesses(tmp_path)
    for action in (processes.kill, processes.pause, processes.resume):
        with pytest.raises(UsageError, match="node `2` is not running") as caught:
            action(2)
        assert "tidelog nodes start 2" in caught.value.hint


def test_a_running_node_cannot_be_started(tmp_path: Path) -> None:
    write_state(tmp_path, example(tmp_path))
    with pytest.raises(UsageError, match=rf"node `1` is running \(pid `{os.getpid()}`\)"):
        NodeProcesses(tmp_path).start([1])


def test_stopping_what_is_stopped_is_done_at_once(tmp_path: Path) -> None:
    write_state(tmp_path, example(tmp_path))
    processes = NodeProcesses(tmp_path)
    assert processes.stop([2]) == []
    assert [node.node_id for node in processes.alive()] == [1]
