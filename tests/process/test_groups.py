"""Groups of real consumers: every record at least once, and offsets that never go back.

Three processes of each client read one topic as a group. One leaves, one is killed, one comes back,
and the coordinator is killed, while records keep coming.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.process.group_member import RUN
from tidelog.model import OFFSETS_TOPIC
from tidelog.rsm.placement import partition_of
from tidelog.testing import LocalCluster

pytestmark = pytest.mark.process

TOPIC, GROUP, PARTITIONS = "jobs", "workers", 12
PATIENCE_S = 60


class Members:
    """The processes of a group, and all that they have read."""

    def __init__(self, client: str, bootstrap: str) -> None:
        self._command = [sys.executable, "-m", "tests.process.group_member", client, bootstrap]
        self._processes: list[subprocess.Popen[str]] = []
        self._lock = threading.Lock()
        # How often each value was read.
        self._read: dict[str, int] = {}
        # Of each process the partitions that it has, with the time since when.
        self._owned: dict[subprocess.Popen[str], dict[int, float]] = {}
        # Partition, from, to.
        self._times: list[tuple[int, float, float]] = []

    def add(self) -> None:
        process = subprocess.Popen(
            [*self._command, GROUP, TOPIC], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._processes.append(process)
        threading.Thread(target=self._follow, args=(process,), daemon=True).start()

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self._lock:
                found = json.loads(line)
                if isinstance(found, dict):
                    self._own(process, **found)
                    continue
                for value in found:
                    self._read[value] = self._read.get(value, 0) + 1

    def _own(
        self,
        process: "subprocess.Popen[str]",
        at: float,
        got: Sequence[int] = (),
        gave: Sequence[int] = (),
    ) -> None:
        owned = self._owned.setdefault(process, {})
        owned.update(dict.fromkeys(got, at))
        self._times += [(number, owned.pop(number), at) for number in gave if number in owned]

    def kill(self) -> None:
        """SIGKILL for the oldest."""
        process = self._processes.pop(0)
        with self._lock:
            owned = self._owned.pop(process, {})
            self._times += [(each, since, time.monotonic()) for each, since in owned.items()]
        process.kill()
        process.wait()

    def dismiss(self) -> None:
        """The oldest leaves by itself."""
        process = self._processes.pop(0)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0

    def missing(self, values: set[str]) -> set[str]:
        with self._lock:
            return values - self._read.keys()

    def shared(self) -> list[tuple[tuple[int, float, float], tuple[int, float, float]]]:
        """Pairs of times in which two members had a partition."""
        with self._lock:
            times = self._times + [
                (each, since, float("inf"))
                for owned in self._owned.values()
                for each, since in owned.items()
            ]
        times.sort()
        return [
            (one, other)
            for one, other in pairwise(times)
            if one[0] == other[0] and one[2] > other[1]
        ]

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


class Observer:
    """Looks at the committed offsets of the group, and keeps the times when one went back."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 2}
        )
        self.latest: dict[int, int] = {}
        self.went_back: list[tuple[int, int, int]] = []

    def look(self) -> None:
        wanted = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        try:
            found = self._consumer.committed(wanted, timeout=10)
        except Exception:
            return
        for each in found:
            if each.error is None:
                before = self.latest.get(each.partition, each.offset)
                if each.offset < before:
                    self.went_back.append((each.partition, before, each.offset))
                self.latest[each.partition] = each.offset


def produce(bootstrap: str, name: str, count: int) -> set[str]:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 2})
    values = {f"{name}-{index}" for index in range(count)}
    for index, value in enumerate(sorted(values)):
        producer.produce(TOPIC, value, partition=index % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return values


@pytest.mark.parametrize("client", RUN)
def test_a_group_reads_everything_through_deaths_of_all_kinds(tmp_path, client):
    with LocalCluster(brokers=3, data_dir=tmp_path / "cluster") as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        bootstrap = cluster.bootstrap_servers
        members, observer = Members(client, bootstrap), Observer(bootstrap)
        produced: set[str] = set()

        def read_all(step: str) -> None:
            produced.update(produce(bootstrap, step, 300))
            deadline = time.monotonic() + PATIENCE_S
            while members.missing(produced):
                assert time.monotonic() < deadline, f"{step}: {len(members.missing(produced))}"
                observer.look()

        try:
            for _ in range(3):
                members.add()
            read_all("three members")
            members.kill()
            read_all("one was killed")
            members.add()
            read_all("another one came")
            number = partition_of(GROUP, 5)
            coordinator = cluster.wait_for_leader(OFFSETS_TOPIC, number)
            cluster.kill(coordinator)
            read_all("the coordinator was killed")
            cluster.start_node(coordinator)
            members.dismiss()
            read_all("one has left")
            observer.look()
        finally:
            members.end()
        assert not observer.went_back
        assert not members.shared()
        assert sum(observer.latest.values()) > 0
