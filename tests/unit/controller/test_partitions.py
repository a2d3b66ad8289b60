"""What happens to partitions when brokers come and go, also against Apache Kafka's own log."""

from dataclasses import replace

import pytest

from tests.unit.controller.harness import (
    a_broker,
    a_view,
    after,
    all_records,
    an_image,
    at_once,
    topic_id_of,
)
from tests.unit.controller.kafka_decisions import comparable, kafka_decisions, kafka_view
from tidelog.config import ControllerConfig
from tidelog.controller.events import Cause, CauseKind
from tidelog.controller.partitions import decide_broker_left, decide_leaderless
from tidelog.metadata.image import ConfigResource, PartitionImage
from tidelog.metadata.records import FENCE, UNFENCE, PartitionChangeRecord

ORDERS = topic_id_of("orders")
PARTITION = PartitionImage((1, 2, 3), (1, 2), 1, 4, 8)
LIVE = tuple(a_broker(node_id) for node_id in (1, 2, 3))
CAUSE = Cause(CauseKind.UNREGISTERED, 1)


def test_a_leaving_broker_leaves_every_isr() -> None:
    """Goal: one record for each partition with it in the ISR, as leader or follower; the others
    are not touched."""
    image = an_image(
        *LIVE,
        orders=[
            PartitionImage((1, 2, 3), (1, 2, 3), 1, 0, 0),
            PartitionImage((2, 3, 1), (2, 3, 1), 2, 0, 0),
            PartitionImage((2, 3, 1), (2, 3), 2, 0, 0),
        ],
    )
    records = at_once(decide_broker_left(a_view(image), 1, CAUSE)).records
    assert [
        (r.partition_id, r.isr, r.leader) for r in records if isinstance(r, PartitionChangeRecord)
    ] == [(0, (2, 3), 2), (1, (2, 3), -2)]


def test_a_broker_that_leaves_is_not_elected_even_uncleanly() -> None:
    """Goal: it still counts as alive in the image while the records are decided."""
    configs = {ConfigResource(2, "orders"): {"unclean.leader.election.enable": "true"}}
    partition = PartitionImage((1, 2), (1,), 1, 0, 0)
    image = an_image(a_broker(1), configs=configs, orders=[partition])
    [record] = at_once(decide_broker_left(a_view(image), 1, CAUSE)).records
    assert isinstance(record, PartitionChangeRecord)
    assert (record.leader, record.isr) == (-1, ())


@pytest.mark.parametrize("level", ["topic", "cluster", "static"])
def test_where_unclean_elections_are_allowed(level: str) -> None:
    """Goal: the topic's value, else the cluster's, else the file's."""
    name = "unclean.leader.election.enable"
    configs = {
        "topic": {
            ConfigResource(2, "orders"): {name: "true"},
            ConfigResource(4, ""): {name: "false"},
        },
        "cluster": {ConfigResource(4, ""): {name: "true"}},
        "static": {},
    }[level]
    partition = PartitionImage((1, 2), (1,), 1, 0, 0)
    image = an_image(*LIVE, configs=configs, orders=[partition])
    config = ControllerConfig(unclean_leader_election_enable=level == "static")
    [record] = at_once(decide_broker_left(a_view(image, config=config), 1, CAUSE)).records
    assert isinstance(record, PartitionChangeRecord)
    assert (record.leader, record.isr, record.leader_recovery_state) == (2, (2,), 1)


@pytest.mark.parametrize(
    ("topic", "cluster", "static", "eligible"),
    [("3", "1", 1, True), (None, "3", 1, True), (None, None, 3, True), ("2", "3", 3, False)],
)
def test_where_the_min_isr_comes_from(
    topic: str | None, cluster: str | None, static: int, eligible: bool
) -> None:
    """Goal: a min ISR of 3 keeps the leaver eligible, wherever it is set."""
    configs = {}
    if topic is not None:
        configs[ConfigResource(2, "orders")] = {"min.insync.replicas": topic}
    if cluster is not None:
        configs[ConfigResource(4, "")] = {"min.insync.replicas": cluster}
    image = an_image(*LIVE, configs=configs, orders=[replace(PARTITION, isr=(1, 2, 3))])
    config = ControllerConfig(min_insync_replicas=static)
    [record] = at_once(decide_broker_left(a_view(image, config=config), 3, CAUSE)).records
    assert isinstance(record, PartitionChangeRecord)
    assert record.eligible_leader_replicas == ((3,) if eligible else None)


def test_the_min_isr_is_never_above_the_replication_factor_of_the_partition() -> None:
    """Goal: one replica has no use for a min ISR of 2, but that says nothing of the partition
    beside it, whose leader will not commit alone."""
    alone = PartitionImage((1,), (1,), 1, 0, 0)
    image = an_image(*LIVE, orders=[alone, PARTITION])
    config = ControllerConfig(min_insync_replicas=2)
    [record] = at_once(decide_broker_left(a_view(image, config=config), 2, CAUSE)).records
    assert isinstance(record, PartitionChangeRecord)
    assert (record.partition_id, record.isr, record.eligible_leader_replicas) == (1, (1,), (2,))


def test_a_returning_broker_leads_what_waits_for_it() -> None:
    """Goal: only leaderless partitions are looked at."""
    image = an_image(
        a_broker(1),
        a_broker(2),
        orders=[
            PartitionImage((1, 2), (), -1, 3, 3, (1,), (2,)),
            PartitionImage((2, 1), (2,), 2, 3, 3),
            PartitionImage((3, 1), (), -1, 3, 3, (3,), (3,)),
        ],
    )
    [record] = at_once(decide_leaderless(a_view(image), CAUSE)).records
    assert isinstance(record, PartitionChangeRecord)
    assert (record.partition_id, record.leader, record.isr) == (0, 1, (1,))


def test_leaderless_partitions_are_led_by_a_live_replica() -> None:
    """Goal: what an earlier controller left undone is done by the next."""
    image = an_image(a_broker(2), orders=[PartitionImage((1, 2), (), -1, 3, 3, (1, 2), (1,))])
    [record] = at_once(decide_leaderless(a_view(image), CAUSE)).records
    assert isinstance(record, PartitionChangeRecord)
    assert (record.leader, record.isr, record.eligible_leader_replicas) == (2, (2,), (1,))


def test_an_unclean_restart_leaves_isr_and_elr() -> None:
    """Goal: a replica that may lack records does not become leader, whichever list it was in."""
    image = an_image(
        *LIVE,
        orders=[
            PartitionImage((1, 2, 3), (2,), 2, 0, 0, (1, 3)),
            PartitionImage((1, 2, 3), (1,), 1, 0, 0),
            PartitionImage((2, 3), (2,), 2, 0, 0, (3,)),
        ],
    )
    records = at_once(decide_broker_left(a_view(image), 1, CAUSE, uncleanly=True)).records
    image = after(image, records)
    partitions = image.topics_by_id[ORDERS].partitions
    assert partitions[0].eligible_leaders == (3,)
    assert (partitions[1].isr, partitions[1].leader) == ((), -1)
    assert partitions[1].eligible_leaders == ()
    assert partitions[1].last_known_eligible_leaders == (1,)
    assert len(records) == 2


# Against Apache Kafka ----------------------------------------------------------------------


def test_kafka_decides_the_same_when_brokers_leave_and_return() -> None:
    """Goal: our records for a controlled shutdown, a fencing and an unfencing are Kafka's.

    Method: for each such event of Kafka's own log, decide from the image before it.
    """
    compared = 0
    for decision in kafka_decisions():
        record, view = decision.broker, kafka_view(decision.before)
        if record is None:
            continue
        if record.fenced == FENCE or record.in_controlled_shutdown:
            ours = all_records(decide_broker_left(view, record.broker_id, CAUSE), view)
        elif record.fenced == UNFENCE:
            returned = replace(view, image=after(view.image, [record]))
            ours = all_records(decide_leaderless(returned, CAUSE), returned)
        else:
            continue
        assert comparable(ours) == comparable(decision.changes), decision.before.offset
        compared += len(ours)
    assert compared == 162
