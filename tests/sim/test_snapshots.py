"""Snapshots of the metadata quorum under faults, and their checker."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.env.event import Event
from tidelog.env.trace import TraceLine
from tidelog.kraft.events import LogCleaned, SnapshotInstalled, SnapshotMade, SnapshotPutAside
from tidelog.kraft.messages import CommittedBatch, SnapshotId, Voter
from tidelog.model import ZERO_UUID
from tidelog.sim.quorum.oracle import QuorumOracle
from tidelog.sim.report.violation import Violation
from tidelog.sim.runs.quorum import QuorumRun, draw_quorum

EVENTS = {SnapshotMade, SnapshotInstalled, LogCleaned, SnapshotPutAside}
DECISIONS = {("give_up", "given up"), ("find", "deleted"), ("recover", "without a state")}
"""The handler and the decision of lines that are not events."""


def test_snapshots_are_made_fetched_damaged_and_crashed_into() -> None:
    """Goal: nothing of it is rare in the quorum tier. Method: the events of some seeds."""
    seen: set[Any] = set()

    def watch(_: str, event: Event | TraceLine) -> None:
        seen.add(type(event))
        seen.add((event.handler, event.decision))

    for seed in (2, 21, 181, 217):
        # Where work costs time these seeds meet other states.
        run = QuorumRun(seed, replace(draw_quorum(seed), slowness=0))
        run.cluster.watchers.append(watch)
        outcome = run.run()
        assert outcome.violation is None, f"{seed}: {outcome.violation}"
    assert seen >= EVENTS | DECISIONS


def alone(epoch: int) -> Any:
    """The quorum of one voter, as the oracle asks it."""
    return SimpleNamespace(voters={1: Voter(1, ZERO_UUID, ())}, voter_sets=(), epoch=epoch)


def oracle() -> QuorumOracle:
    known = QuorumOracle(lambda voter, batch: True)
    known.check_committed(1, CommittedBatch(0, 0, 1, 0, [b"leader"], is_control=True), alone(1))
    known.check_committed(1, CommittedBatch(1, 2, 1, 0, [b"a", b"b"], is_control=False), alone(1))
    known.check_committed(1, CommittedBatch(3, 3, 2, 0, [b"c"], is_control=False), alone(2))
    return known


def test_a_snapshot_that_says_what_the_log_says() -> None:
    """SnapshotIsFoldOfLog, the good cases: every prefix of whole batches."""
    oracle().check_snapshot(1, SnapshotId(1, 1), [])
    oracle().check_snapshot(1, SnapshotId(3, 1), [b"a", b"b"])
    oracle().check_snapshot(1, SnapshotId(4, 2), [b"a", b"b", b"c"])


@pytest.mark.parametrize(
    ("snapshot_id", "records"),
    [
        (SnapshotId(3, 1), [b"a"]),
        (SnapshotId(3, 1), [b"b", b"a"]),
        (SnapshotId(3, 1), [b"a", b"b", b"c"]),
        (SnapshotId(3, 2), [b"a", b"b"]),
        (SnapshotId(2, 1), [b"a"]),
        (SnapshotId(9, 2), [b"a", b"b", b"c"]),
    ],
)
def test_a_snapshot_that_says_something_else(snapshot_id: SnapshotId, records: list[bytes]) -> None:
    """SnapshotIsFoldOfLog, the bad ones: lost, swapped, invented; another epoch, half a batch, an
    end that the log has not reached."""
    with pytest.raises(Violation, match="SnapshotIsFoldOfLog"):
        oracle().check_snapshot(1, snapshot_id, records)
