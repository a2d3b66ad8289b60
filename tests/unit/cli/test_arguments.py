"""Goal: commands find the cluster that the user means."""

from pathlib import Path

import pytest

from tests.unit.testing.test_cluster_state import example
from tidelog.cli.arguments import DEFAULT_DATA_DIR, assignments, find_bootstrap
from tidelog.errors import UsageError
from tidelog.testing.cluster_state import ClusterState, write_state


def test_given_addresses_win(tmp_path: Path) -> None:
    write_state(tmp_path, example(tmp_path))
    assert find_bootstrap("a:1,b:2", tmp_path) == ["a:1", "b:2"]


def test_running_nodes_of_the_directory_come_next(tmp_path: Path) -> None:
    state = example(tmp_path)
    write_state(tmp_path, state)
    assert find_bootstrap(None, tmp_path) == ["127.0.0.1:93"]
    stopped = ClusterState(state.cluster_id, "test", {}, state.with_process(1, None).nodes)
    write_state(tmp_path, stopped)
    with pytest.raises(UsageError, match="no node of the cluster"):
        find_bootstrap(None, tmp_path)


def test_without_a_cluster_it_is_the_usual_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_bootstrap(None, DEFAULT_DATA_DIR) == ["localhost:9092"]


def test_another_cluster_does_not_answer_for_a_named_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no cluster in"):
        find_bootstrap(None, tmp_path)


def test_assignments_are_a_mapping() -> None:
    assert assignments(None) == {}
    assert assignments(["a=1", "b=2=3", "a=4"]) == {"a": "4", "b": "2=3"}
    with pytest.raises(UsageError):
        assignments(["a"])
