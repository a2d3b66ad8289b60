"""Groups and transactions of clients, on Tidelog and on Apache Kafka 4.3.1 in the same run.

    make bench-clients
    python -m bench.clients --figures transactions commits --json build/clients.json

Three nodes of each with their own settings, both warm, one after the other, the same requests. What
is measured:

- `transactions`: transactions of 10 records a second, with one producer and with ten
  (confluent-kafka, acks=all, one thread a producer);
- `commits`: offset commits a second, of one group that waits for each answer, and of 100 groups on
  100 connections;
- `rebalance`: five members of the classic protocol with a session of 6 s and heartbeats every
  300 ms. One ends without a word: ms until the others have their assignments. The coordinator is
  killed: ms until its successor has taken a heartbeat of each.
- `members` and `load`: many groups, and a coordinator that loads (`bench/group_scale.py`).
"""

import argparse
import json
import os
import platform
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.group_scale import load, members
from bench.kafka_cluster import HEAP, KafkaCluster
from bench.wire import Wire, commit_of
from tests.differential.sides import CLOSED

from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until
from tidelog.wire.api import ApiKey as K

Cluster = LocalCluster | KafkaCluster
Figures = dict[str, float]

WARM_S: Final = 20.0
SPAN_S: Final = 6.0
RECORDS: Final = 10
PRODUCERS: Final = 10
GROUPS: Final = 100
MEMBERS: Final = 5
SESSION_MS: Final = 6000
HEARTBEAT_S: Final = 0.3
READY_S: Final = 90
SUBSCRIPTION: Final = b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"
ONE_LOG: Final = {"offsets.topic.num.partitions": "1", "log.cleaner.enable": "false"}
"""All commits in one log, where they stay."""


# Transactions ---------------------------------------------------------------------------------


def transactions(cluster: Cluster) -> Figures:
    """See the module's docstring."""
    with cluster.admin() as admin:
        admin.create_topic("txn", partitions=6, replication_factor=3)
    figures: Figures = {}
    for count in (1, PRODUCERS):
        done = [0] * count
        ends = time.monotonic() + WARM_S + SPAN_S
        threads = [
            threading.Thread(
                target=_transact, args=(cluster.bootstrap_servers, f"{count}-{i}", ends, done, i)
            )
            for i in range(count)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        figures[f"transactions_of_{count}_per_s"] = round(sum(done) / SPAN_S, 1)
    return figures


def _transact(bootstrap: str, name: str, ends: float, done: list[int], place: int) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(READY_S)
    while (now := time.monotonic()) < ends:
        producer.begin_transaction()
        for index in range(RECORDS):
            producer.produce("txn", b"x" * 100, partition=index % 6)
        producer.commit_transaction(READY_S)
        done[place] += now > ends - SPAN_S


# Commits --------------------------------------------------------------------------------------


def commits(cluster: Cluster) -> Figures:
    """See the module's docstring."""
    with cluster.admin() as admin:
        admin.create_topic("read", partitions=6, replication_factor=3)
    figures: Figures = {}
    for count in (1, GROUPS):
        wire = Wire(cluster.bootstrap_servers)
        groups = [f"commits-{count}-{index}" for index in range(count)]
        nodes = wire.coordinators(groups)
        done, ends, offset = 0, time.monotonic() + WARM_S + SPAN_S, 0
        while (now := time.monotonic()) < ends:
            offset += 1
            answers = wire.ask_all(
                [
                    (nodes[group], slot, K.OFFSET_COMMIT, 8, commit_of(group, "read", [0], offset))
                    for slot, group in enumerate(groups)
                ]
            )
            if now > ends - SPAN_S:
                done += sum(_is_committed(answer) for answer in answers)
        figures[f"commits_of_{count}_groups_per_s"] = round(done / SPAN_S)
        wire.close()
    return figures


def _is_committed(answer: Any) -> bool:
    return answer != CLOSED and all(
        row["error_code"] == 0 for topic in answer["topics"] for row in topic["partitions"]
    )


# Rebalances -----------------------------------------------------------------------------------


class RawGroup:
    """Members of the classic protocol, each on a connection of its own."""

    def __init__(self, wire: Wire, name: str) -> None:
        self._wire = wire
        self.name = name
        # By slot.
        self.members: dict[int, str] = dict.fromkeys(range(MEMBERS), "")
        self.node_id = wire.coordinators([name])[name]
        self.generation_id = -1
        self._join()
        self.rebalance()

    def _ask(self, key: K, version: int, bodies: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
        asked = [(self.node_id, slot, key, version, body) for slot, body in bodies.items()]
        return dict(zip(bodies, self._wire.ask_all(asked), strict=True))

    def _joining(self, member_id: str) -> dict[str, Any]:
        return {
            "group_id": self.name,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": 60_000,
            "member_id": member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
            "reason": None,
        }

    def _join(self) -> dict[int, Any]:
        bodies = {slot: self._joining(member) for slot, member in self.members.items()}
        answers = self._ask(K.JOIN_GROUP, 7, bodies)
        self.members = {slot: answer["member_id"] for slot, answer in answers.items()}
        return answers

    def rebalance(self) -> None:
        """Joins and syncs until all members have their assignment."""
        while True:
            answers = self._join()
            self.generation_id = max(answer["generation_id"] for answer in answers.values())
            bodies = {
                slot: {
                    "group_id": self.name,
                    "generation_id": self.generation_id,
                    "member_id": member,
                    "group_instance_id": None,
                    "protocol_type": "consumer",
                    "protocol_name": "range",
                    "assignments": [
                        {"member_id": each, "assignment": b"part"}
                        for each in self.members.values()
                        if member == answers[slot]["leader"]
                    ],
                }
                for slot, member in self.members.items()
            }
            synced = self._ask(K.SYNC_GROUP, 5, bodies)
            if all(answer["error_code"] == 0 for answer in synced.values()):
                return

    def beat(self) -> list[int]:
        """The error codes of a heartbeat of each member."""
        bodies = {
            slot: {
                "group_id": self.name,
                "generation_id": self.generation_id,
                "member_id": member,
                "group_instance_id": None,
            }
            for slot, member in self.members.items()
        }
        answers = self._ask(K.HEARTBEAT, 4, bodies).values()
        return [-1 if answer == CLOSED else answer["error_code"] for answer in answers]


def rebalance(cluster: Cluster) -> Figures:
    """See the module's docstring."""
    wire = Wire(cluster.bootstrap_servers)
    group = RawGroup(wire, "members")
    beats_until = time.monotonic() + WARM_S
    while time.monotonic() < beats_until:
        assert not any(group.beat()), "a quiet group"
        time.sleep(HEARTBEAT_S)
    ended = time.monotonic()
    del group.members[0]
    wire.end(group.node_id, 0)
    while not any(group.beat()):
        time.sleep(HEARTBEAT_S)
    group.rebalance()
    figures: Figures = {"member_dies_ms": round((time.monotonic() - ended) * 1000)}
    killed, former = time.monotonic(), group.node_id
    cluster.kill(former)

    def taken() -> bool:
        group.node_id = wire.coordinators([group.name], without=former)[group.name]
        return not any(group.beat())

    wait_until(taken, READY_S, "heartbeats with another coordinator")
    figures["coordinator_dies_ms"] = round((time.monotonic() - killed) * 1000)
    wire.close()
    return figures


NOTHING: Final[Mapping[str, str]] = {}
MEASURED: Final[Mapping[str, tuple[Callable[[Cluster], Figures], Mapping[str, str]]]] = {
    "transactions": (transactions, NOTHING),
    "commits": (commits, NOTHING),
    "rebalance": (rebalance, NOTHING),
    "members": (members, NOTHING),
    "load": (load, ONE_LOG),
}
"""What measures each figure, and the settings of the nodes besides their own."""


@contextmanager
def running(system: str, config: Mapping[str, str]) -> Iterator[Cluster]:
    """Three nodes of one of the two."""
    if system == "tidelog":
        with LocalCluster(3, profile="default", config=config) as local:
            yield local
        return
    lines = "".join(f"{name}={value}\n" for name, value in config.items())
    with (
        tempfile.TemporaryDirectory(prefix="bench-clients-") as directory,
        KafkaCluster(Path(directory), more_properties=lines) as cluster,
    ):
        yield cluster


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("--figures", nargs="+", choices=MEASURED, default=list(MEASURED))
    parser.add_argument("--systems", nargs="+", default=["kafka", "tidelog"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures: dict[str, Figures] = {system: {} for system in options.systems}
    for name in options.figures:
        measure, config = MEASURED[name]
        for system in options.systems:
            with running(system, config) as cluster:
                found = measure(cluster)
            figures[system] |= found
            print(f"{system}: {found}", flush=True)
    names = list(next(iter(figures.values())))
    print(f"{'figure':<32}" + "".join(f"{system:>12}" for system in figures))
    for name in names:
        print(f"{name:<32}" + "".join(f"{row[name]:>12}" for row in figures.values()))
    if options.json is not None:
        head = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        )
        machine = f"{os.cpu_count()} cores, {platform.machine()}, heap {HEAP[0]}"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        said = {**figures, "machine": machine, "at": at, "commit": head.stdout.strip()}
        options.json.write_text(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()
