"""What holds for all tests: a table is as wide as in a pipe, wherever they run; and they share one
Spark session, because starting one takes longer than most tests."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.s3_server import S3Server

# pytest-xdist sets 80 for its processes.
os.environ.pop("COLUMNS", None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A quiet session on two cores; what Spark complains of goes to a file."""
    from tidelog.pipeline.spark.spark_session import SHORT_RUN, session

    # Tests leave nothing in the user's cache.
    os.environ.setdefault("TIDELOG_CLASS_ARCHIVE", "use")
    log_file: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    conf = {**SHORT_RUN, "spark.sql.shuffle.partitions": "1"}
    running = session("tests", "local[2]", conf, log_file)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def object_store() -> Iterator["S3Server"]:
    """An S3 server of one test process."""
    from tests.s3_server import S3Server

    running = S3Server()
    yield running
    running.close()
