"""One cluster for all tests of the pipeline: starting it takes longer than most tests. The Spark
session is that of all tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.testing import LocalCluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three real nodes."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    with LocalCluster(brokers=3, data_dir=directory / "nodes") as running:
        yield running
