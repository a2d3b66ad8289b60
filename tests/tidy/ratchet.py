"""Exceptions to the rules of this folder, each with its reason. The lists may only shrink: an
entry that is no longer needed fails the tests as much as a new violation does."""

from collections.abc import Iterable, Mapping
from typing import Final

LONG_FUNCTIONS: Final[Mapping[str, str]] = {}

LONG_MODULES: Final[Mapping[str, str]] = {}

WIDE_CONSTRUCTORS: Final[Mapping[str, str]] = {
    "src/tidelog/testing/local_cluster.py::LocalCluster.__init__": "options of a public fixture"
}

PACKAGES_WITH_CODE: Final[Mapping[str, str]] = {
    "src/pyspark_tidelog/__init__.py": "Spark finds a data source by the class in this very file",
    "src/pyspark_tidelog_segments/__init__.py": "likewise: one source a package",
}

TESTS_OF_NO_ONE_MODULE: Final[Mapping[str, str]] = {
    "broker/test_refused_batches.py": "from the frame to the log line: handler, router and log",
    "config/test_tables.py": "the tables of names, held against each other",
    "log/test_golden.py": "files of Apache Kafka, read and written by the whole package",
    "replication/test_follower_random.py": "logs, roles and fetchers under random failures",
    "replication/test_interest_random.py": "sessions of the broker, read by replication",
    "replication/test_replicas_random.py": "the whole package under random failures",
    "runtime/test_disks.py": "one suite for the memory disk and the disk of the operating system",
}

SLEEPS_IN_TESTS: Final[Mapping[str, str]] = {}

FORBIDDEN_WORDS: Final[Mapping[str, str]] = {}

OLD_NAMES: Final[Mapping[str, str]] = {
    "src/tidelog/cli/spark.py: `mend`; write fix": "a key of 0.1.0, kept for one release",
    "src/tidelog/cli/spark_campaign.py: `played`; write run": "likewise",
    "tests/unit/cli/test_spark_campaign.py: `played`; write run": "likewise",
}


def hold(found: Iterable[str], allowed: Mapping[str, str], rule: str) -> None:
    """Asserts that the violations are exactly those that the ratchet allows."""
    violations = set(found)
    new = sorted(violations - set(allowed))
    assert not new, f"{rule}:\n" + "\n".join(new)
    gone = sorted(set(allowed) - violations)
    assert not gone, "no longer exceptions, take them off the ratchet:\n" + "\n".join(gone)
    assert all(allowed.values()), "an exception needs a reason"
