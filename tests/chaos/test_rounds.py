"""Two minutes of chaos: every kind of fault once, a few on five nodes and on protected ones.

Bounded by the number of faults, not by time: a slow machine takes longer and sees the same. What
may fail is what the clients saw, never how long it took.
"""

from pathlib import Path

import pytest

from tests.chaos.rig import RATES, Judge, Plan, Round, complaint
from tests.chaos.schedule import OF_SECURITY, Fault

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    "plan",
    [
        Plan(
            seed=101,
            brokers=3,
            steps=len(Fault) - len(OF_SECURITY),
            rates=dict.fromkeys(RATES, 300),
        ),
        Plan(seed=102, brokers=5, steps=3, rates={"idempotent": 300, "leader": 100}),
        Plan(seed=103, steps=5, rates={"idempotent": 300, "async": 100}, secure=True),
    ],
    ids=["three nodes, every kind of fault", "five nodes", "three protected nodes"],
)
def test_nothing_acknowledged_is_lost_or_misplaced(tmp_path, plan):
    facts = Round(plan, tmp_path / "round").run()
    result = Judge(tmp_path / "round", facts).verdict(Path("build/chaos"))
    assert result["anomalies"] == 0, complaint(result)
    assert result["acknowledged"] >= plan.partitions * len(plan.topics) - plan.partitions
    assert sum(result["faults"].values()) >= plan.steps // 2
