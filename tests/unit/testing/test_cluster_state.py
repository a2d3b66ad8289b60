"""Goal: the state file survives a round trip, a move of its directory, and damage."""

import os
from pathlib import Path

import pytest

from tidelog.errors import UsageError
from tidelog.testing.cluster_state import (
    STATE_FILE,
    ClusterState,
    LocalNode,
    read_state,
    write_state,
)
from tidelog.testing.processes import ProcessId, ProcessState


def example(data_dir: Path) -> ClusterState:
    """Two nodes, one of which is this process, at ports on which nothing listens."""
    nodes = tuple(
        LocalNode(i, 92 + i, 192 + i, str(data_dir.resolve() / f"node-{i}"), rack=f"r{i}")
        for i in (1, 2)
    )
    state = ClusterState("cluster", "test", {"num.partitions": "3"}, nodes)
    return state.with_process(1, ProcessId.of(os.getpid()))


def test_a_written_state_reads_back(tmp_path: Path) -> None:
    state = example(tmp_path)
    write_state(tmp_path, state)
    found = read_state(tmp_path)
    assert found == state
    assert [path.name for path in tmp_path.iterdir()] == [STATE_FILE]
    assert found is not None
    assert found.node(1).pid == os.getpid()
    assert found.node(1).state is ProcessState.RUNNING
    assert found.node(2).pid is None
    assert found.node(2).address == "127.0.0.1:94"
    assert found.node(2).log_file == tmp_path.resolve() / "node-2" / "server.log"


def test_a_moved_directory_takes_its_nodes_along(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    write_state(tmp_path / "old", example(tmp_path / "old"))
    (tmp_path / "old").rename(tmp_path / "new")
    found = read_state(tmp_path / "new")
    assert found is not None
    assert found.node(1).directory == str(tmp_path.resolve() / "new" / "node-1")


def test_a_missing_file_is_not_a_state(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    assert read_state(tmp_path / "missing") is None


@pytest.mark.parametrize("behind", ["", "below"])
def test_a_file_is_not_a_directory(tmp_path: Path, behind: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="it is not a directory") as raised:
        read_state(tmp_path / "file" / behind)
    assert raised.value.hint == "name another one with `--data-dir DIR`"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cluster_id": "x"}', '{"nodes": 3}'])
def test_a_damaged_file_is_a_usage_error(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE_FILE).write_text(text)
    with pytest.raises(UsageError, match="cannot be read"):
        read_state(tmp_path)


def test_an_unknown_node_is_a_usage_error_that_names_the_others(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown node `9`") as caught:
        example(tmp_path).node(9)
    assert "1, 2" in caught.value.hint
