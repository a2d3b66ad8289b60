"""A Kafka Streams application, exactly once: a copy, and counts in a store with a changelog."""

from pathlib import Path

from tests.interop.streams import run
from tidelog.testing import LocalCluster


def test_streams_copies_and_counts_exactly_once_though_everything_dies(
    cluster: LocalCluster, tmp_path: Path
):
    run(cluster, tmp_path, records=5_000, strike_count=4)
