"""P6: more is lost than was promised, and nothing in silence: a partition waits for a leader, or
the controller reports that it gave up records."""

import pytest
from tests.sim.test_cluster import led_world, partition, unfenced

from tidelog.controller.events import UncleanLeaderElected
from tidelog.env.event import Event
from tidelog.env.trace import TraceLine
from tidelog.sim.ablations import SAFEGUARDS, switched_off
from tidelog.sim.campaign.seeds import CLUSTER, run_seed
from tidelog.sim.engine.world import World
from tidelog.sim.runs.data_loss import DataLossRun
from tidelog.sim.scenarios.families import DATA_LOSS, data_loss_swarm


def unclean_elections(world: World) -> list[UncleanLeaderElected]:
    """Those of `t-0` that give up records from now on."""
    found: list[UncleanLeaderElected] = []

    def watch(_: str, event: Event | TraceLine) -> None:
        if isinstance(event, UncleanLeaderElected) and event.subject == "t-0":
            found.append(event)

    world.watchers.append(watch)
    return found


@pytest.mark.parametrize("victims", [(1, 2, 3), (1, 2), (2, 3), (1, 3)])
@pytest.mark.parametrize("torn", [False, True])
def test_page_caches_that_are_lost_together_are_lost_loudly(victims, torn):
    """Records that were acknowledged without a flush, and more machines without power than P3
    covers: the next leader holds everything, or the loss is reported, or there is no leader."""
    world, client, _ = led_world()
    reported = unclean_elections(world)
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
        assert log.log_end_offset >= 5 or reported, f"{leader} ends at {log.log_end_offset}"


def test_without_a_power_cut_nothing_is_given_up():
    """A loss is reported only where there may be one."""
    world, client, leader = led_world()
    reported = unclean_elections(world)
    client.produce("t", 0, [b"x"])
    world.kill(leader)
    world.start(leader)
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 60_000)
    world.run_for(3_000)
    assert partition(world, "t").leader > 0 and not reported


def test_losses_of_random_runs_are_reported():
    """They do lose: otherwise this family would be within the promise."""
    outcomes = [run_seed(CLUSTER, DATA_LOSS, seed) for seed in (1, 4, 8, 12)]
    assert [one.violation for one in outcomes] == [None] * len(outcomes)
    assert sum(one.fired["loss-reported"] for one in outcomes) > 0


def test_some_clusters_rather_lose_records_than_wait():
    marks = run_seed(CLUSTER, DATA_LOSS, 1).marks
    assert {"controller.LeaderElected.UNCLEAN", "controller.UncleanLeaderElected.UNCLEAN"} <= set(
        marks
    )
    assert {data_loss_swarm(seed).unclean_elections for seed in range(9)} == {
        "", "topics", "cluster",
    }  # fmt: skip


class Unreported(DataLossRun):
    """A run in which the checker never receives that records were given up."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        (watch,) = self.world.watchers
        self.world.watchers[:] = [
            lambda host, event: (
                None if isinstance(event, UncleanLeaderElected) else watch(host, event)
            )
        ]


def test_a_report_that_is_missing_is_noticed():
    assert "LossIsReported" in [Unreported(seed).run().violated for seed in (4, 12)]


def test_a_silent_loss_is_noticed():
    """Without the rule for unclean restarts a broker that lost its records leads as if it had
    them, and the loss is not reported."""
    safeguard = next(one for one in SAFEGUARDS if one.name == "unclean-restarts")
    with switched_off(safeguard):
        assert any(
            run_seed(CLUSTER, DATA_LOSS, seed).violated == "LossIsReported"
            for seed in range(12, 0, -1)
        )


def test_the_former_name_of_the_scenario_still_works():
    assert run_seed(CLUSTER, "beyond", 8) == run_seed(CLUSTER, DATA_LOSS, 8)
