"""Every change of a partition is an event with its cause, and a figure for health."""

from dataclasses import replace

from tests.unit.controller.harness import a_broker, a_view, after, an_image, at_once, topic_id_of
from tidelog.controller.events import Cause, CauseKind, PartitionElected, PartitionState
from tidelog.controller.isr_proposals import decide_alter_partition
from tidelog.controller.messages import AlterPartition, IsrMember, IsrProposal
from tidelog.controller.partition_events import measure_unhealthy
from tidelog.controller.partitions import decide_broker_left
from tidelog.controller.view import View
from tidelog.env.trace import Trace, TraceList
from tidelog.metadata.image import MetadataImage, PartitionImage

ORDERS = topic_id_of("orders")
PARTITION = PartitionImage((1, 2, 3), (1, 2), 1, 4, 8)
LIVE = tuple(a_broker(node_id) for node_id in (1, 2, 3))
CAUSE = Cause(CauseKind.SESSION_EXPIRED, 1, silent_ms=900)


def wish(*isr: int, leader_epoch: int = 4, partition_epoch: int = 8) -> IsrProposal:
    """A proposal that is right about everything unless changed."""
    members = tuple(IsrMember(broker_id, 10 * broker_id) for broker_id in isr)
    return IsrProposal(ORDERS, 0, leader_epoch, partition_epoch, members)


def test_every_change_says_why() -> None:
    """Goal: one line per election or ISR change, with cause, epochs and what was before."""
    sink = TraceList()
    image = an_image(
        *LIVE,
        orders=[
            PartitionImage((1, 2, 3), (1, 2, 3), 1, 4, 8),
            PartitionImage((2, 1), (2, 1), 2, 4, 8),
        ],
    )
    view = replace(a_view(image), trace=Trace(sink))
    at_once(decide_broker_left(view, 1, CAUSE))
    at_once(
        decide_alter_partition(view, AlterPartition(2, 20, (wish(1, 2)._replace(partition=1),)))
    )
    assert sink.take_lines() == [
        "orders-0 change_partition: elected (from isr) leader=2 was=1 leader_epoch=5 isr=(2, 3) "
        "elr=() cause=broker 1 fenced: session expired, silent for 900 ms",
        "orders-1 change_partition: changed (broker 1 fenced: session expired, silent for 900 ms) "
        "isr=(2,) was=(2, 1) "
        "elr=(1,) partition_epoch=9",
        "orders-1 decide_alter_partition: accepted isr=(1, 2) was=(2, 1) elr=() leader=2 "
        "leader_epoch=4 partition_epoch=9",
    ]
    at_once(decide_alter_partition(view, AlterPartition(2, 20, (wish(1, 2),))))
    assert sink.take_lines() == [
        "orders-0 decide_alter_partition: refused (the sender does not lead) error=INVALID_REQUEST "
        "sender=2 isr=(1, 2) leader_epoch=4 partition_epoch=8"
    ]


def measured(image: MetadataImage) -> tuple[View, TraceList]:
    """A view whose trace takes figures."""
    sink = TraceList()
    return replace(a_view(image), trace=Trace(sink, measures=True)), sink


def test_an_election_is_measured_with_all_that_health_needs() -> None:
    view, sink = measured(an_image(*LIVE, orders=[PartitionImage((1, 2, 3), (1, 2, 3), 1, 0, 0)]))
    at_once(decide_broker_left(view, 1, CAUSE))
    elected = next(event for event in sink.events if isinstance(event, PartitionElected))
    values = elected.payload()
    assert values["old_leader"] == 1
    assert values["leader"] != 1
    assert 1 in values["old_isr"] and 1 not in values["isr"]
    assert (values["cause"], values["reason"]) == (str(CAUSE), "from isr")
    assert values["min_isr"] <= len(values["replicas"])


def test_a_new_controller_reports_partitions_that_are_not_whole() -> None:
    image = an_image(*LIVE, orders=[PartitionImage((1, 2, 3), (1, 2, 3), 1, 0, 0)])
    view, sink = measured(image)
    at_once(measure_unhealthy(view))
    assert sink.events == []
    broken = after(image, at_once(decide_broker_left(view, 1, CAUSE)).records)
    view, sink = measured(broken)
    at_once(measure_unhealthy(view))
    assert {type(event) for event in sink.events} == {PartitionState}
