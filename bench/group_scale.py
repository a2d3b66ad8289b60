"""Many groups, and a coordinator that loads: figures of `bench/clients.py`.

- `members`: 1,000 groups of 5 members each (KIP-848, one topic of 6 partitions) on three nodes, in
  a process of its own, on 48 connections. How long until all of them are stable; how many
  heartbeats a second are answered without an error, each member one every 5 s as the broker asks,
  evenly over that time, because members do not know of each other; the largest node's memory; p99
  of acks=all produces to another topic, one every 10 ms, before there was a group and while all of
  them are there.
- `load`: a million records in the one partition of `__consumer_offsets`, of 1,000 groups with 100
  partitions each, none of them compacted. Its leader stops cleanly, another one takes over: how
  long it answers that it loads, and p99 of produces to partitions that only the nodes that go on
  have, in that time.
"""

import multiprocessing
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import cycle
from multiprocessing.connection import Connection
from typing import Any, Final

from bench.kafka_cluster import KafkaCluster, pid_of
from bench.probe import Probe
from bench.smoke import resident_mb
from bench.wire import Wire, commit_of

from tidelog.errors import ErrorCode
from tidelog.testing import LocalCluster
from tidelog.testing.waiting import wait_until
from tidelog.wire.api import ApiKey as K

Cluster = LocalCluster | KafkaCluster

GROUPS: Final = 1000
MEMBERS: Final = 5
CONNECTIONS: Final = 16
"""To each node."""
BEAT_S: Final = 5.0
SPAN_S: Final = 20.0
PAUSE_S: Final = 0.01
LOADED: Final = 1_000_000
OFFSETS_GROUPS: Final = 1000
OFFSETS_PARTITIONS: Final = 100
READY_S: Final = 300


@contextmanager
def probing(cluster: Cluster, assignment: Sequence[Sequence[int]]) -> Iterator[Probe]:
    """Produces to the topic `probe`."""
    with cluster.admin(60) as admin:
        admin.create_topic("probe", assignment=assignment)
    rounds = ([("probe", number)] for number in cycle(range(len(assignment))))
    with closing(Probe(cluster.bootstrap_servers, rounds, PAUSE_S)) as probe:
        yield probe


# Members --------------------------------------------------------------------------------------


def members(cluster: Cluster) -> dict[str, float]:
    """See the module's docstring."""
    with cluster.admin(60) as admin:
        admin.create_topic("read", partitions=6, replication_factor=3)
    figures: dict[str, float] = {}
    with probing(cluster, [(1, 2, 3), (2, 3, 1), (3, 1, 2)]) as probe:
        time.sleep(SPAN_S)
        now = time.monotonic()
        figures["p99_without_groups_ms"] = probe.took_ms(99, now - SPAN_S / 2, now)
        ours, theirs = multiprocessing.Pipe()
        run = multiprocessing.get_context("spawn").Process(
            target=_run_members, args=(cluster.bootstrap_servers, theirs), daemon=True
        )
        run.start()
        figures["groups_stable_s"] = _received(ours, run)
        began = time.monotonic()
        figures["heartbeats_per_s"] = _received(ours, run)
        figures["heartbeats_refused"] = _received(ours, run)
        figures["p99_with_groups_ms"] = probe.took_ms(99, began, time.monotonic())
        figures["memory_mb"] = max(round(resident_mb(pid_of(cluster, n))) for n in (1, 2, 3))
        run.join()
    return figures


def _received(pipe: Connection, run: Any) -> float:
    while not pipe.poll(1):
        assert run.is_alive(), "the members' process has ended"
    return float(pipe.recv())


class _Member:
    """A member of a group: what its next heartbeat says."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: Any = ()

    def beat(self) -> dict[str, Any]:
        """The body; a first one says all, the others what they must."""
        is_new = not self.epoch
        return {
            "group_id": self.group,
            "member_id": self._id,
            "member_epoch": self.epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": 60_000 if is_new else -1,
            "subscribed_topic_names": ("read",) if is_new else None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": self.owned,
        }

    def on_answer(self, answer: Any) -> bool:
        """Takes over what was assigned. Returns whether the answer was one without an error."""
        if answer["error_code"]:
            return False
        self.epoch = answer["member_epoch"]
        if answer["assignment"] is not None:
            self.owned = tuple(answer["assignment"]["topic_partitions"])
        return True


def _run_members(bootstrap: str, pipe: Connection) -> None:
    """Sends: after how many seconds all were stable, heartbeats a second, how many were refused."""
    wire = Wire(bootstrap)
    groups = [f"group-{number}" for number in range(GROUPS)]
    nodes: dict[str, int] = {}
    for first in range(0, GROUPS, 100):
        nodes |= wire.coordinators(groups[first : first + 100])
    everyone = [_Member(group) for _ in range(MEMBERS) for group in groups]
    began = time.monotonic()
    while True:
        before = [(one.epoch, one.owned) for one in everyone]
        _beat_all(wire, nodes, everyone, 0)
        if before == [(one.epoch, one.owned) for one in everyone]:
            break
    pipe.send(round(time.monotonic() - began, 1))
    answered = refused = 0
    began = time.monotonic()
    while time.monotonic() - began < SPAN_S:
        good = _beat_all(wire, nodes, everyone, BEAT_S)
        answered, refused = answered + good, refused + len(everyone) - good
    pipe.send(round(answered / (time.monotonic() - began)))
    pipe.send(refused)
    wire.close()


def _beat_all(wire: Wire, nodes: dict[str, int], all_of: Sequence[_Member], over_s: float) -> int:
    """A heartbeat of each, evenly over a time. Returns how many were answered without an error."""
    began, good = time.monotonic(), 0
    by_node: dict[int, list[_Member]] = {node_id: [] for node_id in sorted(set(nodes.values()))}
    for one in all_of:
        by_node[nodes[one.group]].append(one)
    done = 0
    while any(by_node.values()):
        # All connections at once, or one after the other.
        slots = range(CONNECTIONS) if not over_s else (done % CONNECTIONS,)
        asked = [
            (node_id, slot, waiting.pop())
            for node_id, waiting in by_node.items()
            for slot in slots[: len(waiting)]
        ]
        answers = wire.ask_all(
            [
                (node_id, slot, K.CONSUMER_GROUP_HEARTBEAT, 1, one.beat())
                for node_id, slot, one in asked
            ]
        )
        for (_, _, one), answer in zip(asked, answers, strict=True):
            good += one.on_answer(answer)
        done += len(asked)
        time.sleep(max(0.0, began + over_s * done / len(all_of) - time.monotonic()))
    return good


# A load ---------------------------------------------------------------------------------------


def load(cluster: Cluster) -> dict[str, float]:
    """See the module's docstring."""
    with cluster.admin(60) as admin:
        admin.create_topic("read", partitions=OFFSETS_PARTITIONS, replication_factor=3)
    wire = Wire(cluster.bootstrap_servers)
    groups = [f"loaded-{number}" for number in range(OFFSETS_GROUPS)]
    leader = wire.coordinators(groups[:1])[groups[0]]
    began = time.monotonic()
    for offset in range(LOADED // OFFSETS_GROUPS // OFFSETS_PARTITIONS):
        for number, group in enumerate(groups):
            body = commit_of(group, "read", range(OFFSETS_PARTITIONS), offset)
            wire.ask(leader, K.OFFSET_COMMIT, 8, number % CONNECTIONS, **body)
    figures: dict[str, float] = {"committed_s": round(time.monotonic() - began, 1)}
    others = [node_id for node_id in (1, 2, 3) if node_id != leader]
    wanted = LOADED // OFFSETS_GROUPS // OFFSETS_PARTITIONS - 1
    with probing(cluster, [others, others[::-1]]) as probe:
        time.sleep(2)
        stopping = threading.Thread(target=cluster.terminate, args=(leader,))
        stopping.start()
        loading_at: list[float] = []

        def loaded() -> bool:
            for node_id in others:
                code, offset = _fetched(wire, node_id, groups[-1])
                if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and not loading_at:
                    loading_at.append(time.monotonic())
                if code == ErrorCode.NONE:
                    assert offset == wanted, f"offset {offset}"
                    return True
            return False

        wait_until(loaded, READY_S, "the next coordinator")
        ended = time.monotonic()
        # A load that no question met took less than the time between two of them.
        began = loading_at[0] if loading_at else ended
        time.sleep(1)
        figures["load_ms"] = round((ended - began) * 1000)
        figures["p99_while_it_loads_ms"] = probe.took_ms(99, began - PAUSE_S, ended + PAUSE_S)
        stopping.join()
    wire.close()
    return figures


def _fetched(wire: Wire, node_id: int, group: str) -> tuple[int, int]:
    topics = ({"name": "read", "partition_indexes": (OFFSETS_PARTITIONS - 1,)},)
    body = {"groups": ({"group_id": group, "topics": topics},), "require_stable": False}
    answer = wire.ask(node_id, K.OFFSET_FETCH, 8, **body)["groups"][0]
    if answer["error_code"]:
        return answer["error_code"], -1
    return 0, answer["topics"][0]["partitions"][0]["committed_offset"]
