"""What tests of commands share: a cluster's directory that leaves no process behind, and a
protected cluster."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.testing import LocalCluster
from tidelog.testing.cluster_state import read_state


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A directory whose nodes are gone after the test."""
    directory = tmp_path / "cluster"
    yield directory
    state = read_state(directory)
    for node in () if state is None else state.nodes:
        if node.process is not None:
            node.process.send(signal.SIGKILL)


@pytest.fixture(scope="package")
def secure_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three protected nodes, which every test leaves running."""
    directory = tmp_path_factory.mktemp("secure") / "cluster"
    with LocalCluster(brokers=3, data_dir=directory, secure=True) as cluster:
        yield cluster
