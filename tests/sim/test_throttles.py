"""Throttles are drawn, reach the nodes, and keep moves to their rate."""

from dataclasses import replace

import pytest

from tidelog.replication.throttle import UNLIMITED, ReplicationQuota
from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.scenarios.families import swarm_of
from tidelog.sim.scenarios.swarm import Swarm
from tidelog.sim.workloads.reconfiguration import MOVES_ARE_SLOWER

SEED = 11
RATE = 10_000


def throttled() -> Swarm:
    """A run whose moves have more to copy than they may."""
    return replace(swarm_of("several-disks", SEED), throttled_rate=RATE, disk_move_gap_ms=100)


def test_every_broker_has_the_rates_and_goes_on() -> None:
    run = ClusterRun(SEED, throttled())
    held: list[bool] = []

    def look(host: object) -> None:
        for node in run.world.nodes:
            throttles = node.broker.replicas.throttles
            assert {throttles.leader.rate, throttles.follower.rate} <= {RATE, UNLIMITED}
            assert throttles.moves.rate in (RATE // MOVES_ARE_SLOWER, UNLIMITED)
            held.append(throttles.moves.is_exceeded(run.world.now))

    run.world.driver.observers.append(look)
    assert run.run().violation is None
    assert any(held), "no move had to wait"


def test_moves_that_do_not_wait_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicationQuota, "free_at", lambda *_: None)
    violation = ClusterRun(SEED, throttled()).run().violation
    assert violation is not None and violation.startswith("ThrottledOnTheWhole: ")
