"""The command line and `LocalCluster` against real nodes: a cluster's life from another process.

Every command is the real script in a process of its own, as in a shell.
"""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidelog.client import AdminClient
from tidelog.config import parse_properties
from tidelog.testing import LocalCluster
from tidelog.testing.cluster_state import ClusterState, read_state
from tidelog.testing.ports import ports_from
from tidelog.testing.processes import ProcessId, ProcessState
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
TIMEOUT_S = 60


def tidelog(
    *arguments: object, code: int = 0, given: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Runs a command that must end with this code."""
    done = subprocess.run(
        [sys.executable, "-m", "tidelog.cli.main", *map(str, arguments)],
        capture_output=True,
        input=given,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def report(*arguments: object, code: int = 0) -> Any:
    """The JSON of a command that must end with this code."""
    return json.loads(tidelog(*arguments, "--output", "json", code=code).stdout)


def state_of(data_dir: Path) -> ClusterState:
    """The cluster in a directory."""
    state = read_state(data_dir)
    assert state is not None
    return state


def test_a_cluster_lives_through_every_verb(data_dir: Path) -> None:
    """Goal: what one shell starts, another can kill, restart, stop, and start with its data."""
    where = ("--data-dir", data_dir)
    up = report("up", *where, "--base-port", 0, "--profile", "test", "--detach")
    assert [node["node_id"] for node in up["nodes"]] == [1, 2, 3]
    assert up["bootstrap_servers"].count(",") == 2
    assert up["data_dir"] == str(data_dir)
    assert report("status", *where)["healthy"] is True

    topic = ("orders", "--partitions", 2, "--replication-factor", 3)
    report("topics", "create", *topic, "--config", "min.insync.replicas=2", *where)
    assert report("topics", "list", *where) == ["orders"]
    report("topics", "alter", "orders", "--partitions", 3, "--config", "retention.ms=60000", *where)
    (described,) = report("topics", "describe", "orders", *where)
    assert len(described["partitions"]) == 3
    assert described["configs"] == {"min.insync.replicas": "2", "retention.ms": "60000"}
    logs = described["partitions"][0]["replica_logs"]
    assert {(log["log_start_offset"], log["high_watermark"]) for log in logs} == {(0, 0)}

    assert report("nodes", "kill", 1, *where)["state"] == "stopped"
    assert report("status", *where, code=1)["healthy"] is False
    pid = report("nodes", "start", 1, *where)["pid"]
    assert pid != up["nodes"][0]["pid"]
    assert report("nodes", "pause", 2, *where)["state"] == "paused"
    assert report("nodes", "resume", 2, *where)["state"] == "running"
    assert report("nodes", "stop", 3, *where)["state"] == "stopped"
    report("nodes", "start", 3, *where)
    wait_until(lambda: status_is_healthy(where), TIMEOUT_S, "healthy cluster")
    assert {v["node_id"] for v in report("quorum", "describe", *where)["voters"]} == {1, 2, 3}

    assert sorted(report("down", *where)["stopped"]) == [1, 2, 3]
    assert all(node.pid is None for node in state_of(data_dir).nodes)
    again = report("up", *where, "--profile", "test", "--detach")
    assert [n["port"] for n in again["nodes"]] == [n["port"] for n in up["nodes"]]
    assert report("topics", "list", *where) == ["orders"]
    report("topics", "delete", "orders", *where)
    assert report("topics", "list", *where) == []
    report("down", *where)


def status_is_healthy(where: tuple[object, ...]) -> bool:
    """Whether `tidelog status` reports a healthy cluster."""
    command = [sys.executable, "-m", "tidelog.cli.main", "status", *map(str, where)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_port_in_use_stops_the_start_and_leaves_no_process(data_dir: Path) -> None:
    ports = ports_from(0, 1)[0]
    base_port = ports.broker
    with socket.create_server(("127.0.0.1", base_port + 1)):
        done = tidelog("up", "--data-dir", data_dir, "--base-port", base_port, "--detach", code=2)
    assert f"port `{base_port + 1}` of listener `PLAINTEXT` is in use" in done.stderr
    assert "hint: " in done.stderr
    assert all(node.pid is None for node in state_of(data_dir).nodes)


def test_the_foreground_ends_with_sigterm_and_takes_its_nodes_along(data_dir: Path) -> None:
    command = ["up", "--data-dir", str(data_dir), "--base-port", "0", "--output", "json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tidelog.cli.main", *command], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    nodes = json.loads(process.stdout.readline())["nodes"]
    processes = [ProcessId.of(node["pid"]) for node in nodes]
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0
    process.stdout.close()
    assert all(p is not None and p.state is ProcessState.STOPPED for p in processes)


def test_a_command_that_waits_ends_with_sigterm_as_with_ctrl_c(data_dir: Path) -> None:
    with LocalCluster(brokers=1, data_dir=data_dir) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=1)
        servers = ("--bootstrap-server", cluster.bootstrap_servers)
        tidelog("produce", "t", *servers, given="seen\n")
        process = subprocess.Popen(
            [sys.executable, "-m", "tidelog.cli.main", "consume", "t", "--follow", *servers],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "seen\n"
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, rest, errors) == (130, "", "")


def test_one_node_is_formatted_served_and_stopped_from_its_file(tmp_path: Path) -> None:
    ports = ports_from(0, 1)[0]
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=7\n"
        f"listeners=PLAINTEXT://127.0.0.1:{ports.broker},CONTROLLER://127.0.0.1:{ports.controller}\n"
        "controller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=7@127.0.0.1:{ports.controller}\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    unformatted = tidelog("server", file, code=2)
    assert "does not exist" in unformatted.stderr
    assert not (tmp_path / "data").exists()
    report("format", file, "--cluster-id", CLUSTER_ID)
    other = tidelog("server", file, "--override", "node.id=8", code=2)
    assert "hint: " in other.stderr
    process = subprocess.Popen(
        [sys.executable, "-m", "tidelog.cli.main", "server", str(file)], stderr=subprocess.PIPE
    )
    bootstrap = ("--bootstrap-server", f"127.0.0.1:{ports.broker}")
    with AdminClient(bootstrap[1:], timeout_s=TIMEOUT_S) as admin:
        wait_until(
            lambda: [node.fenced for node in admin.describe_cluster().nodes] == [False],
            TIMEOUT_S,
            "unfenced broker",
        )
    report("topics", "create", "t", "--partitions", 1, "--replication-factor", 1, *bootstrap)
    assert report("topics", "list", *bootstrap) == ["t"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0
    assert process.stderr is not None
    process.stderr.close()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    dump = tidelog("dump-log", "--cluster-metadata-decoder", *metadata_segments(tmp_path))
    assert '"type":"TOPIC_RECORD","version":0,"data":{"name":"t"' in dump.stdout


def metadata_segments(tmp_path: Path) -> list[Path]:
    """The metadata log's segments."""
    return sorted((tmp_path / "data" / "__cluster_metadata-0").glob("*.log"))


def everything_in(directory: Path) -> dict[Path, bytes | None]:
    """Each file with its bytes, and each directory."""
    found = sorted(directory.rglob("*"))
    return {each: each.read_bytes() if each.is_file() else None for each in found}


def test_a_directory_of_another_node_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """Events are kept there, too: what a node says while it refuses is not an event to keep."""
    config = {"tidelog.events.enable": "true"}
    cluster = LocalCluster(brokers=1, data_dir=tmp_path / "cluster", config=config)
    node = cluster.nodes[0]
    settings = parse_properties(node.properties_file.read_text())
    voters = settings["controller.quorum.voters"].replace("1@", "9@")
    with cluster:
        pass
    data = Path(settings["log.dirs"])
    for kept in data.glob("events.jsonl*"):
        kept.unlink()
    before = everything_in(data)
    done = tidelog(
        *("server", node.properties_file, "--override", "node.id=9"),
        *("--override", f"controller.quorum.voters={voters}"),
        code=2,
    )
    assert "node `1`" in done.stderr
    assert "hint: " in done.stderr
    assert everything_in(data) == before != {}


def test_nodes_of_a_library_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """Method: a process starts a cluster and is killed without a chance to stop it."""
    code = (
        "import os, signal\nfrom tidelog.testing import LocalCluster\n"
        f"cluster = LocalCluster(brokers=1, data_dir={str(tmp_path / 'cluster')!r})\n"
        "cluster.start()\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=TIMEOUT_S, check=False)
    assert done.returncode == -signal.SIGKILL
    node = state_of(tmp_path / "cluster").nodes[0]
    wait_until(lambda: node.state is ProcessState.STOPPED, TIMEOUT_S, "end of the node")
    assert (node.data_dir / ".kafka_cleanshutdown").exists()


def test_an_ephemeral_cluster_leaves_nothing_and_a_failed_one_its_logs() -> None:
    with LocalCluster(brokers=1) as cluster:
        directory = cluster.data_dir
        assert cluster.nodes[0].log_file.exists()
    assert not directory.exists()
    with pytest.raises(ZeroDivisionError) as caught, LocalCluster(brokers=1) as cluster:
        directory = cluster.data_dir
        raise ZeroDivisionError
    assert str(cluster.data_dir) in caught.value.__notes__[0]
    assert (directory / "node-1" / "server.log").exists()
