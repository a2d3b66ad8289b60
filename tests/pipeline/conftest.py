"""One Spark session and one cluster for all tests of the pipeline."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelog.pipeline import session
from tidelog.testing import LocalCluster


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A quiet session on two cores."""
    running = session(
        app_name="tests", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}
    )
    yield running
    running.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three real nodes."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    with LocalCluster(brokers=3, data_dir=directory / "nodes") as running:
        yield running
