"""One Spark session and one cluster for all tests of the pipeline: starting them takes longer than
most tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelog.pipeline.spark.spark_session import SHORT_RUN, session
from tidelog.testing import LocalCluster


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A quiet session on two cores; what Spark complains of goes to a file."""
    # Tests leave nothing in the user's cache.
    os.environ.setdefault("TIDELOG_CLASS_ARCHIVE", "use")
    log_file: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    conf = {**SHORT_RUN, "spark.sql.shuffle.partitions": "1"}
    running = session("tests", "local[2]", conf, log_file)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three real nodes."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    with LocalCluster(brokers=3, data_dir=directory / "nodes") as running:
        yield running
