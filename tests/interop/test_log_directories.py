"""Apache Kafka 4.3.1's own tools move replicas between the log directories of a Tidelog node."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.java_tools import JavaTools
from tests.interop.records import START_TIMEOUT_S, produce
from tests.interop.test_java_tools import CONSOLE_CONSUMER, REASSIGN
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

TOPIC, PARTITIONS, RECORDS = "moved-by-java", 2, 2000


@pytest.fixture
def two_disks(tmp_path: Path) -> Iterator[LocalCluster]:
    """One node with two log directories."""
    config = {"log.dirs": ",".join(str(tmp_path / name) for name in "ab")}
    running = LocalCluster(brokers=1, data_dir=tmp_path / "cluster", config=config)
    running.start(START_TIMEOUT_S)
    yield running
    running.close()


def places(tools: JavaTools) -> dict[str, list[tuple[str, bool]]]:
    """Where each partition is, and whether that is only a copy."""
    said = tools.run("LogDirsCommand", "--describe", "--topic-list", TOPIC)
    (broker,) = json.loads(said[said.index("{") :])["brokers"]
    found: dict[str, list[tuple[str, bool]]] = {}
    for directory in broker["logDirs"]:
        assert directory["error"] is None
        for row in directory["partitions"]:
            assert row["size"] > 0
            found.setdefault(row["partition"], []).append((directory["logDir"], row["isFuture"]))
    return found


def test_replicas_are_moved_between_disks(two_disks: LocalCluster, tmp_path: Path):
    tools = JavaTools(two_disks.bootstrap_servers)
    two_disks.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1)
    values = [b"%d" % number for number in range(PARTITIONS * RECORDS)]
    produce(two_disks, TOPIC, values, partitions=PARTITIONS)
    before = places(tools)
    roots = {str(tmp_path / name) for name in "ab"}
    plan = tmp_path / "plan.json"
    moved = []
    for partition in range(PARTITIONS):
        ((root, is_future),) = before[f"{TOPIC}-{partition}"]
        (other,) = roots - {root}
        row = {"topic": TOPIC, "partition": partition, "replicas": [1], "log_dirs": [other]}
        moved.append(row)
        assert not is_future
    plan.write_text(json.dumps({"version": 1, "partitions": moved}))
    what = ("--reassignment-json-file", str(plan))
    throttle = ("--replica-alter-log-dirs-throttle", "100000000")
    said = tools.run(REASSIGN, "--execute", *what, *throttle)
    assert said.count("Successfully started moving log directory") == PARTITIONS, said

    def is_over() -> bool:
        said = tools.run(REASSIGN, "--verify", *what)
        return said.count("completed successfully") == PARTITIONS

    wait_until(is_over, START_TIMEOUT_S, "end of the moves")
    assert places(tools) == {
        f"{TOPIC}-{row['partition']}": [(row["log_dirs"][0], False)] for row in moved
    }
    for partition in range(PARTITIONS):
        read = tools.run(
            *(CONSOLE_CONSUMER, "--topic", TOPIC, "--partition", str(partition)),
            *("--offset", "earliest", "--max-messages", str(RECORDS)),
        )
        assert len(read.split()) == RECORDS
