"""Goal: a plan becomes properties files that nodes take, and a directory keeps its shape."""

import os
from pathlib import Path
from typing import Any

import pytest

from tidelog.config import parse_properties
from tidelog.errors import UsageError
from tidelog.runtime.node_file import read_node_config
from tidelog.testing.cluster_state import ClusterState, write_state
from tidelog.testing.processes import ProcessId
from tidelog.testing.shape import plan_cluster


def plan(data_dir: Path, **changes: Any) -> ClusterState:
    """Plans a cluster of three, changed as given, and writes it."""
    asked: dict[str, Any] = {
        "brokers": None,
        "base_port": 9092,
        "config": {},
        "profile": "default",
        "racks": (),
        **changes,
    }
    state = plan_cluster(data_dir, **asked)
    write_state(data_dir, state)
    return state


def test_every_node_gets_a_file_that_it_can_read(tmp_path: Path) -> None:
    state = plan(tmp_path, config={"log.segment.bytes": "2097152"}, racks=("a", "b"))
    assert [node.node_id for node in state.nodes] == [1, 2, 3]
    configs = [read_node_config(node.properties_file) for node in state.nodes]
    assert [str(e) for e in configs[1].listeners] == [
        "PLAINTEXT://127.0.0.1:9093",
        "CONTROLLER://127.0.0.1:9193",
    ]
    assert {i: e.port for i, e in configs[0].voters.items()} == {1: 9192, 2: 9193, 3: 9194}
    assert [config.rack for config in configs] == ["a", "b", "a"]
    assert configs[2].log.segment_bytes == 2 << 20
    assert configs[2].log_dir == str(tmp_path.resolve() / "node-3" / "data")
    assert configs[0].controller.default_replication_factor == 3


def test_the_settings_of_the_user_win_over_the_profile(tmp_path: Path) -> None:
    state = plan(tmp_path, profile="test", config={"broker.session.timeout.ms": "700"})
    settings = parse_properties(state.nodes[0].properties_file.read_text())
    assert settings["broker.session.timeout.ms"] == "700"
    assert settings["broker.heartbeat.interval.ms"] == "100"


def test_a_directory_keeps_its_id_its_size_and_by_default_its_ports(tmp_path: Path) -> None:
    first = plan(tmp_path, brokers=2, base_port=0)
    again = plan(tmp_path, base_port=None)
    assert again.cluster_id == first.cluster_id
    assert again.nodes == first.nodes
    moved = plan(tmp_path, base_port=19092)
    assert [node.port for node in moved.nodes] == [19092, 19093]
    with pytest.raises(UsageError, match="cluster of 2 brokers, not 3") as caught:
        plan(tmp_path, brokers=3)
    assert "--brokers 2" in caught.value.hint


def test_a_running_cluster_is_not_planned_again(tmp_path: Path) -> None:
    state = plan(tmp_path)
    write_state(tmp_path, state.with_process(2, ProcessId.of(os.getpid())))
    with pytest.raises(UsageError, match="is running: node `2`"):
        plan(tmp_path)


def test_a_directory_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match="not empty and holds no cluster"):
        plan(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"num.partition": "1"}},
        {"config": {"num.partitions": "none"}},
        {"profile": "fast"},
        {"brokers": -1},
        {"brokers": 0},
        {"brokers": 51},
        {"base_port": 65_530},
    ],
)
def test_a_bad_plan_writes_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        plan(tmp_path, **changes)
    assert list(tmp_path.iterdir()) == []


def test_what_a_plan_left_behind_that_ended_half_way_does_not_matter(tmp_path: Path) -> None:
    plan(tmp_path)
    (tmp_path / "cluster.json").rename(tmp_path / "cluster.json.77.tmp")
    (tmp_path / "node-3" / "server.properties").unlink()
    assert len(plan(tmp_path).nodes) == 3
    (tmp_path / "cluster.json").unlink()
    (tmp_path / "node-2" / "data").mkdir()
    with pytest.raises(UsageError, match="not empty and holds no cluster"):
        plan(tmp_path)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be"):
        plan(tmp_path / "file" / "cluster")
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        plan(Path("/proc/nothing"))
