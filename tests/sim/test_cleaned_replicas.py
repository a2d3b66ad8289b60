"""Checkers where a cleaner was at work: they compare what batches say, and find what is gone."""

import contextlib
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sim.test_checkers import rejects
from tests.unit.log.cleaning.bench import CleaningBench, draw_history, full
from tests.unit.log.harness import PARTITION, TOPIC_ID, WALL_MS

from tidelog.env.memory_disk import Operation
from tidelog.env.prng import Prng
from tidelog.errors import StorageError
from tidelog.log.log import Log
from tidelog.sim.checkers.devices import RecoveredFromImage
from tidelog.sim.checkers.leaders import LeaderCompleteness
from tidelog.sim.checkers.replicas import LogMatching, ReplicasEqual
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.evidence.oracle import (
    Oracle,
    PartitionId,
    TrueLog,
    committed_chunks,
    contents_of,
    marks_of,
)

PID = PartitionId(TOPIC_ID, *PARTITION)
HOST: Any = SimpleNamespace(
    node_id=1,
    name="host1",
    all_sound=True,
    all_well=True,
    disk=SimpleNamespace(damaged=False, was_damaged=False),
)


@dataclass(eq=False)
class Replica:
    """What the checkers look at of a replica."""

    log: Log
    topic_id: bytes = TOPIC_ID
    topic_partition: Any = PARTITION
    offline: None = None
    leader_epoch: int = 0


class Found:
    """Evidence of one replica."""

    def __init__(self, true_log: TrueLog, log: Log) -> None:
        self.oracle = Oracle()
        self.oracle.logs[PID] = true_log
        self.replica = Replica(log)
        node = SimpleNamespace(
            broker=SimpleNamespace(replicas=SimpleNamespace(partitions={PARTITION: self.replica}))
        )
        host = SimpleNamespace(**vars(HOST), node=node)
        self.world = SimpleNamespace(hosts={1: host})
        self.latest_wall_ms = WALL_MS

    def replicas(self) -> list[tuple[Any, Replica]]:
        return [(HOST, self.replica)]

    def judge(self) -> None:
        """By every checker that compares replicas with the true log."""
        found: Any = self
        LogMatching().sweep(found)
        LeaderCompleteness().on_leader(found, HOST, PID, found.replica)
        ReplicasEqual().at_end(found)


def rewritten_leader() -> tuple[CleaningBench, TrueLog]:
    """A leader's cleaner has taken a record out of the middle of a batch: no offset is missing
    between batches."""
    bench = CleaningBench()
    bench.put((b"a", b"old"), (b"b", b"v"), (b"c", b"v"))
    bench.put((b"a", b"new"))
    full(bench, 1)
    end = bench.log.log_end_offset
    true_log = TrueLog(marks_of(bench.log, 0, end), end, end, contents_of(bench.log, 0, end))
    assert bench.clean()
    return bench, true_log


def follower_of(leader: CleaningBench) -> Log:
    """A replica that fetched all of it after that."""
    bench = CleaningBench()
    end = leader.log.log_end_offset
    for data in committed_chunks(leader.log, 0, end):
        bench.log.append_as_follower(data, 0)
    bench.log.update_high_watermark(end)
    return bench.log


def test_a_follower_of_a_cleaned_leader_holds_what_is_committed() -> None:
    leader, true_log = rewritten_leader()
    log = follower_of(leader)
    assert log.cleaned_to < 0
    assert marks_of(log, 0, log.log_end_offset) != true_log.batches
    Found(true_log, leader.log).judge()
    Found(true_log, log).judge()


@pytest.mark.parametrize("checker", ["LogMatching", "LeaderCompleteness", "ReplicasEqual"])
def test_a_follower_that_lacks_a_value_is_found(checker: str) -> None:
    leader, true_log = rewritten_leader()
    leader.put((b"d", b"the newest"))
    full(leader, 2)
    end = leader.log.log_end_offset
    newer = TrueLog(marks_of(leader.log, 0, end), end, end, contents_of(leader.log, 0, end))
    newer.contents[0] = true_log.contents[0]._replace(
        records=tuple(
            one._replace(value=b"of another history") for one in true_log.contents[0].records
        )
    )
    newer.batches[0] = true_log.batches[0]
    found: Any = Found(newer, follower_of(leader))
    with rejects(checker):
        match checker:
            case "LogMatching":
                LogMatching().sweep(found)
            case "LeaderCompleteness":
                LeaderCompleteness().on_leader(found, HOST, PID, found.replica)
            case _:
                ReplicasEqual().at_end(found)


def test_a_topic_that_is_not_compacted_is_compared_byte_by_byte() -> None:
    leader, true_log = rewritten_leader()
    log = follower_of(leader)
    log.reconfigure(CleaningBench(cleanup_policy="delete").config)
    with rejects("LogMatching"):
        LogMatching().sweep(Found(true_log, log))  # type: ignore[arg-type]


CHANGES = frozenset(
    {Operation.APPEND, Operation.CREATE, Operation.TRUNCATE, Operation.SYNC, Operation.REPLACE}
    | {Operation.RENAME, Operation.DELETE}
)


def cleaned_until(number: int) -> tuple[SimDisk, CleaningBench, int]:
    """A round of cleaning on a disk that dies before an operation of that number, and how many
    there were. Records are appended meanwhile."""
    disk = SimDisk("host1")
    bench = CleaningBench(disk, segment_bytes=900)
    draw_history(bench, Prng(1), 16)
    bench.commit_all()
    count = 0

    def witness(operation: Operation, path: str) -> None:
        nonlocal count
        count += operation in CHANGES
        if count > number:
            raise StorageError(path, "the machine is off")

    disk.witness = witness
    with contextlib.suppress(StorageError):
        assert bench.clean(between=lambda: bench.put((b"k", b"appended meanwhile")))
    disk.witness = None
    return disk, bench, count


def test_a_power_cut_at_each_operation_of_a_round_is_judged_rightly() -> None:
    """Whatever survives of it, the start's log is one that the checker knows."""
    _, _, total = cleaned_until(1 << 30)
    assert total > 20
    for number in range(total):
        disk, bench, _ = cleaned_until(number)
        checker = RecoveredFromImage()
        checker.before_power_cut(disk)
        bench.round = None
        bench.reopen_after_power_cut(Prng(9))
        checker.after_start(disk)
