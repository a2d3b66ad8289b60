"""A topic whose records do not stay: what its client and the checker of log starts refuse."""

from dataclasses import replace
from typing import Any

import pytest
from tests.sim.test_checkers import rejects
from tests.sim.test_cleaned_replicas import Found
from tests.unit.log.cleaning.bench import CleaningBench
from tests.unit.log.harness import PARTITION, WALL_MS

from tidelog.env.prng import Prng
from tidelog.model import TopicPartition
from tidelog.sim.checkers.log_starts import LogStartIsLawful
from tidelog.sim.engine.work import FREE
from tidelog.sim.engine.world import World
from tidelog.sim.evidence.history import History
from tidelog.sim.evidence.oracle import TrueLog, contents_of, marks_of
from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.scenarios.families import swarm_of
from tidelog.sim.workloads.cluster_view import KEYED_TOPIC, ClusterView
from tidelog.sim.workloads.keyed import KeyedClient, _Kept

KEY = TopicPartition(KEYED_TOPIC, 0)


def test_a_run_with_compaction_and_retention() -> None:
    swarm = swarm_of("keyed", 1)
    settings = ("cleanup.policy=compact,delete", "retention.bytes=4000", "retention.ms=5000")
    swarm = replace(swarm, keyed=settings, fault_phase_ms=4_000, fault_gap_ms=3_000)
    swarm = replace(swarm, throttled_rate=0, hardware=FREE)
    run = ClusterRun(1, swarm)
    assert run.run().violation is None
    logs = [node.broker.replicas.partitions[KEY].log for node in run.world.nodes]
    assert max(log.cleaned_to for log in logs) > 0, "nothing was cleaned"
    assert max(log.log_start_offset for log in logs) > 0, "nothing was deleted"


# LogStartIsLawful ----------------------------------------------------------------------------


def evidence(**config: object) -> Any:
    """A log of 6 small segments, all of it committed; the third is from an hour ago."""
    bench = CleaningBench(cleanup_policy="delete", **config)
    for number in range(6):
        bench.wall_ms = WALL_MS - (3_600_000 if number == 2 else 0)
        bench.put((b"k", b"%d" % number))
        bench.roll()
    bench.commit_all()
    log, end = bench.log, bench.log.log_end_offset
    true_log = TrueLog(marks_of(log, 0, end), end, end, contents_of(log, 0, end))
    found: Any = Found(true_log, log)
    found.history = History()
    return found


def starts_at(found: Any, offset: int) -> Any:
    found.replica.log.maybe_raise_log_start_offset(offset)
    return found


def test_young_records_may_not_go() -> None:
    found = evidence(retention_ms=1_000)
    LogStartIsLawful().sweep(found)
    with rejects("LogStartIsLawful"):
        LogStartIsLawful().sweep(starts_at(found, 1))


def test_old_records_may_go() -> None:
    found = starts_at(evidence(retention_ms=1_000), 3)
    found.latest_wall_ms = WALL_MS + 1_001
    LogStartIsLawful().sweep(found)


def test_an_old_record_does_not_take_young_ones_along() -> None:
    found = starts_at(evidence(retention_ms=1_000), 3)
    with rejects("LogStartIsLawful"):
        LogStartIsLawful().sweep(found)


def test_records_may_go_where_enough_are_left() -> None:
    found = evidence(retention_ms=1_000, retention_bytes=200)
    LogStartIsLawful().sweep(starts_at(found, 3))
    with rejects("LogStartIsLawful"):
        LogStartIsLawful().sweep(starts_at(found, 4))


@pytest.mark.parametrize(("retention_bytes", "is_lawful"), [(200, True), (-1, False)])
def test_a_leader_that_has_ended_may_have_had_enough_behind(retention_bytes, is_lawful) -> None:
    """Seed 404554187: it had records that no other replica has, and they counted for the size."""
    checker, config = LogStartIsLawful(), {"retention_bytes": retention_bytes}
    checker.sweep(evidence(retention_ms=1_000, **config))
    found = starts_at(evidence(retention_ms=1_000, **config), 4)
    if is_lawful:
        checker.sweep(found)
    with rejects("LogStartIsLawful"):
        checker.sweep(starts_at(found, 5))


def test_records_may_go_that_a_client_deleted() -> None:
    found = evidence(retention_ms=1_000)
    found.history.deleted_below[PARTITION] = 1
    checker = LogStartIsLawful()
    checker.sweep(starts_at(found, 1))
    with rejects("LogStartIsLawful"):
        checker.sweep(starts_at(found, 2))


# The client ----------------------------------------------------------------------------------


def client() -> KeyedClient:
    """One that has read everything from offset 0 on."""
    view = ClusterView(World(1), "k1", Prng(1), 1_000)
    made = KeyedClient(view, History(), Prng(1), {})
    made._has_topic = True
    return made


def test_an_offset_keeps_its_meaning() -> None:
    reader = client()
    reader._note(3, _Kept(b"k", b"v"))
    reader._note(3, _Kept(b"k", b"v"))
    with rejects("OffsetsKeepTheirMeaning"):
        reader._note(3, _Kept(b"k", b"w"))


@pytest.mark.parametrize(
    ("value", "began_at", "doubtful", "is_right"),
    [
        (b"v", 0, False, False),
        (None, 0, False, True),
        (b"v", 4, False, True),
        (b"v", 0, True, True),
    ],
)
def test_the_newest_record_of_a_key_is_missed(
    value: bytes | None, began_at: int, doubtful: bool, is_right: bool
) -> None:
    """Unless it is a tombstone, or below the log start, or a tombstone behind it may have it."""
    reader = client()
    reader._note(3, _Kept(b"k", value))
    reader._began_at = began_at
    if doubtful:
        reader._maybe_deleted.add(b"k")
    if is_right:
        reader.judge()
    else:
        with rejects("NewestOfEachKey"):
            reader.judge()
    reader._read[5] = _Kept(b"k", b"newer")
    reader.judge()
