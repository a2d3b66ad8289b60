"""A group whose members are processes, of a client of any language, and what is to hold of it.

A member reads, commits what it has read, and says so in lines of JSON on its output:

- a list: the values that it has read before a commit that succeeded;
- `{"at": seconds, "got": [partitions]}` and `{"at": seconds, "gave": [partitions]}`: after the one
  and before the other no other member may have them. The time is CLOCK_MONOTONIC, which all
  processes of a machine share.

Its last arguments are the bootstrap servers, the group and the topic. It ends, and leaves the
group, when its input is closed. At the end each record was read at least once, no committed offset
went back, and no two members had a partition at one time.
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

from confluent_kafka import Consumer, Producer, TopicPartition

from tidelog.model import OFFSETS_TOPIC
from tidelog.rsm.placement import partition_of
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until

TOPIC, GROUP, PARTITIONS = "jobs", "workers", 12
MEMBERS = 5
PATIENCE_S = 60

Command = Callable[[str], Sequence[str]]
"""How a member of a client is started, but for the last arguments."""


class Members:
    """The processes of a group, and all that they have read."""

    def __init__(self, client: str, command: Command, bootstrap: str) -> None:
        self._client, self._command, self._bootstrap = client, command, bootstrap
        self._processes: list[subprocess.Popen[str]] = []
        # The client of each of them.
        self.clients: list[str] = []
        self._lock = threading.Lock()
        # How often each value was read.
        self._read: dict[str, int] = {}
        # Of each process the partitions that it has, with the time since when.
        self._owned: dict[subprocess.Popen[str], dict[int, float]] = {}
        # Partition, from, to.
        self._times: list[tuple[int, float, float]] = []

    def add(self, client: str = "") -> None:
        """One more, of this client or of that of all."""
        process = subprocess.Popen(
            [*self._command(client or self._client), self._bootstrap, GROUP, TOPIC],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        self.clients.append(client or self._client)
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
        self.clients.pop(0)
        with self._lock:
            owned = self._owned.pop(process, {})
            self._times += [(each, since, time.monotonic()) for each, since in owned.items()]
        process.kill()
        process.wait()

    def dismiss(self) -> None:
        """The oldest leaves by itself."""
        process = self._processes.pop(0)
        self.clients.pop(0)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0

    def owners(self) -> int:
        """How many processes share all the partitions; 0 while some are under way."""
        with self._lock:
            owned = [len(each) for each in self._owned.values() if each]
        return len(owned) if sum(owned) == PARTITIONS else 0

    def missing(self, values: set[str]) -> set[str]:
        """Those that no member has read."""
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
        """SIGKILL for all."""
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
        """Asks the coordinator once; without an answer nothing is known."""
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
    """Acknowledged values that begin with this name, in all partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 2})
    values = {f"{name}-{index}" for index in range(count)}
    for index, value in enumerate(sorted(values)):
        producer.produce(TOPIC, value, partition=index % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return values


class Reading:
    """A group that reads all that is produced, and what is to hold of it at the end."""

    def __init__(self, cluster: LocalCluster, client: str, command: Command) -> None:
        self._bootstrap = cluster.bootstrap_servers
        self.members = Members(client, command, self._bootstrap)
        self._observer = Observer(self._bootstrap)
        self._produced: set[str] = set()

    def read_all(self, step: str) -> None:
        """Produces some more and waits until the members have read all that there is."""
        self._produced.update(produce(self._bootstrap, step, 300))
        deadline = time.monotonic() + PATIENCE_S
        while self.members.missing(self._produced):
            missing = len(self.members.missing(self._produced))
            assert time.monotonic() < deadline, f"{step}: {missing}"
            self._observer.look()

    def wait_for_owners(self, count: int) -> None:
        """Until so many members report that they have partitions, all of them together."""
        wait_until(lambda: self.members.owners() == count, PATIENCE_S, f"{count} owners")

    def check(self) -> None:
        """To be called when the members have ended."""
        assert not self._observer.went_back
        assert not self.members.shared()
        assert sum(self._observer.latest.values()) > 0


def read_through_deaths(cluster: LocalCluster, client: str, command: Command) -> None:
    """Five members read while one is killed, one comes, the coordinator is killed, one leaves."""
    cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
    reading = Reading(cluster, client, command)
    members = reading.members
    try:
        for _ in range(MEMBERS):
            members.add()
        reading.wait_for_owners(MEMBERS)
        reading.read_all("five members")
        members.kill()
        reading.wait_for_owners(MEMBERS - 1)
        reading.read_all("one was killed")
        members.add()
        reading.wait_for_owners(MEMBERS)
        reading.read_all("another one came")
        size = len(cluster.describe_topic(OFFSETS_TOPIC).partitions)
        coordinator = cluster.wait_for_leader(OFFSETS_TOPIC, partition_of(GROUP, size))
        cluster.kill(coordinator)
        reading.read_all("the coordinator was killed")
        cluster.start_node(coordinator)
        members.dismiss()
        reading.wait_for_owners(MEMBERS - 1)
        reading.read_all("one has left")
    finally:
        members.end()
    reading.check()
