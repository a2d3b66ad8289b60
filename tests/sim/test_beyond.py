"""P6: more is lost than was promised, and nothing in silence: a partition waits for a leader, or
somebody is told what was given up."""

from typing import Any

import pytest
from tests.sim.test_cluster import led_world, partition, unfenced

from tidelog.sim.ablations import SAFEGUARDS, switched_off
from tidelog.sim.campaign.seeds import CLUSTER, run_seed
from tidelog.sim.engine.world import World
from tidelog.sim.runs.data_loss import BeyondRun
from tidelog.sim.scenarios import data_loss


def told(world: World) -> list[str]:
    """Warnings of elections that gave up records."""
    return [
        line
        for line in world.lines
        if "change_partition: gave up records" in line and "t-0" in line
    ]


@pytest.mark.parametrize("victims", [(1, 2, 3), (1, 2), (2, 3), (1, 3)])
@pytest.mark.parametrize("torn", [False, True])
def test_page_caches_that_are_lost_together_are_lost_loudly(victims, torn):
    """Records that were acknowledged without a flush, and more machines without power than P3
    covers: whoever leads afterwards holds everything, or the loss has a line of its own, or
    nobody leads."""
    world, client, _ = led_world()
    for value in range(5):
        client.produce("t", 0, [b"%d" % value])
    for node_id in victims:
        world.power_cut(node_id, torn=torn)
    world.run_for(50)
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 60_000)
    world.run_for(3_000)
    leader = partition(world, "t").leader
    if leader > 0:
        (log,) = (
            one.log
            for key, one in world.hosts[leader].node.broker.replicas.partitions.items()
            if key.topic == "t"
        )
        assert log.log_end_offset >= 5 or told(world), f"{leader} ends at {log.log_end_offset}"


def test_without_a_power_cut_nothing_is_given_up():
    """The line is no habit."""
    world, client, leader = led_world()
    client.produce("t", 0, [b"x"])
    world.kill(leader)
    world.start(leader)
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 60_000)
    world.run_for(3_000)
    assert partition(world, "t").leader > 0 and not told(world)


def test_losses_of_random_runs_are_told():
    """They do lose: otherwise this family would be within the promise."""
    outcomes = [run_seed(CLUSTER, data_loss.NAME, seed) for seed in range(1, 9)]
    assert [one.violation for one in outcomes] == [None] * len(outcomes)
    assert sum(one.fired["loss-told"] for one in outcomes) > 0


def test_some_clusters_rather_lose_records_than_wait():
    marks = run_seed(CLUSTER, data_loss.NAME, 1).marks
    assert {
        "change_partition: elected (unclean)",
        "change_partition: gave up records (unclean)",
    } <= set(marks)
    assert {data_loss.swarm_beyond(seed).unclean_elections for seed in range(9)} == {
        "", "topics", "cluster",
    }  # fmt: skip


class Unheard(BeyondRun):
    """A run whose warnings never reached anybody."""

    def _judge(self, image: Any) -> None:
        self.world.lines = [line for line in self.world.lines if "gave up records" not in line]
        super()._judge(image)


def test_a_warning_that_is_missing_is_noticed():
    assert "LossIsTold" in [Unheard(seed).run().violated for seed in (1, 2)]


def test_a_silent_loss_is_noticed():
    """Without the rule for unclean restarts a broker that lost its records leads as if it had
    them, and nobody hears of it."""
    safeguard = next(one for one in SAFEGUARDS if one.name == "unclean-restarts")
    with switched_off(safeguard):
        found = [run_seed(CLUSTER, data_loss.NAME, seed).violated for seed in range(1, 9)]
    assert "LossIsTold" in found
