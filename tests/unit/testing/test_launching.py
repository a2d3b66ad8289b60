"""Goal: what the launcher reports becomes processes and failures, and no launcher is left over."""

import os
from pathlib import Path

from tidelog.testing.cluster_state import LocalNode
from tidelog.testing.launching import Launcher, prepare_launcher, read_report, take_launcher
from tidelog.testing.processes import ProcessId


def node(node_id: int, directory: Path) -> LocalNode:
    """A node of a plan."""
    return LocalNode(node_id, 9092, 9192, str(directory))


def test_running_nodes_and_the_first_failure_are_distinguished(tmp_path: Path) -> None:
    nodes = [node(i, tmp_path) for i in (1, 2, 3, 4)]
    reports = [
        {"pid": os.getpid(), "error": "", "hint": ""},
        {"pid": 0, "error": "port `9092` is in use", "hint": "stop it"},
        {"pid": 0, "error": "another", "hint": "later"},
        {"pid": 2**22 + 1, "error": "", "hint": "see the node's log"},
    ]
    processes, failure = read_report(nodes, reports)
    assert processes == {1: ProcessId.of(os.getpid())}
    assert failure is not None
    assert failure.message == "node `2`: port `9092` is in use"
    assert failure.hint == "stop it"


def test_a_node_that_died_after_its_start_is_a_failure(tmp_path: Path) -> None:
    reports = [{"pid": 2**22 + 1, "error": "", "hint": "see the node's log"}]
    _, failure = read_report([node(1, tmp_path)], reports)
    assert failure is not None
    assert "ended at once" in failure.message


def test_a_prepared_launcher_is_taken_once() -> None:
    prepared = prepare_launcher()
    assert take_launcher() is prepared
    other = take_launcher()
    assert other is not prepared
    prepared.cancel()
    prepared.cancel()
    other.cancel()


def test_an_empty_order_starts_nothing() -> None:
    assert Launcher().launch([], "cluster") == ({}, None)
