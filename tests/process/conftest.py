"""What tests of commands share: a cluster's directory that leaves no process behind."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

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
