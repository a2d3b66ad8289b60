"""The recurring check of led partitions, in slices."""

from dataclasses import replace

import pytest

from tidelog.limits import MAX_REPLICAS_CHECKED_PER_TURN as MOST
from tidelog.replication.events.in_sync import IsrCheckSkipped
from tidelog.replication.isr_changes import IsrChanges
from tidelog.replication.isr_checks import IsrChecks
from tidelog.sim.replicas.cluster import CONFIG, Cluster

COUNT = 2 * MOST + 1
INTERVAL_MS = CONFIG.replica_lag_time_max_ms // 2


class Checked:
    """One broker that leads many partitions, and how many each turn checks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        config = replace(CONFIG, metadata_work_per_turn=1 << 40)
        self.cluster = Cluster((1,), config=config)
        self.cluster.feed.create_topic("wide", (1,), partitions=COUNT)
        self.cluster.run(10)
        self.checks: IsrChecks = self.cluster.brokers[1].replicas._isr_checks
        self.now = self.cluster.now
        self.events = self.checks._env.trace
        self.count = 0
        monkeypatch.setattr(IsrChanges, "maybe_shrink_isr", self._count)

    def _count(self, *_: object) -> bool:
        self.count += 1
        return False

    def turn(self, after_ms: int) -> int:
        """How many were checked, so long after the last turn."""
        self.now = type(self.now)(self.now + after_ms)
        self.count = 0
        self.checks.check_isrs(self.now)
        return self.count


def test_a_check_takes_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = Checked(monkeypatch)
    assert checked.turn(INTERVAL_MS) == MOST
    assert checked.checks.deadline() == checked.now + 1
    assert [checked.turn(each) for each in (0, 1, 1, 1)] == [0, MOST, 1, 0]
    assert checked.checks.deadline() is None


def test_a_pause_between_two_slices_ends_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fetches of all followers wait in the sockets: to judge them would be wrong."""
    checked = Checked(monkeypatch)
    checked.turn(INTERVAL_MS)
    checked.checks.schedule.due_at = None
    assert checked.turn(INTERVAL_MS + 1) == 0
    assert checked.checks.deadline() is None
    skipped = IsrCheckSkipped(late_ms=INTERVAL_MS + 1).text()
    assert any(skipped in line for line in checked.cluster.lines)


def test_news_about_a_broker_computes_high_watermarks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It judges no follower."""
    checked = Checked(monkeypatch)
    checked.checks.on_brokers_changed(checked.now)
    assert [checked.turn(each) for each in (0, 1, 1)] == [0, 0, 0]
    assert checked.checks.deadline() is None
