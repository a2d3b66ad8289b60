"""AlterPartition's refusals in their order, what broker lives do to partitions, and both against
the decisions that Apache Kafka wrote into its log."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from tests.unit.controller.harness import a_broker, a_view, after, an_image, topic_id_of
from tests.unit.metadata.kafka_log import Step, kafka_steps
from tidelog.config import ControllerConfig
from tidelog.controller.messages import (
    AlterPartition,
    AlterPartitionResult,
    IsrMember,
    IsrProposal,
    IsrResult,
)
from tidelog.controller.partitions import (
    decide_alter_partition,
    decide_broker_left,
    decide_broker_returned,
    decide_leaderless,
    decide_unclean_restart,
    measure_unhealthy,
)
from tidelog.controller.view import ControllerDecision, View
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import ConfigResource, MetadataImage, PartitionImage
from tidelog.metadata.records import (
    FENCE,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
)
from tidelog.model import TopicId

ORDERS = topic_id_of("orders")
PARTITION = PartitionImage((1, 2, 3), (1, 2), 1, 4, 8)
LIVE = tuple(a_broker(node_id) for node_id in (1, 2, 3))


def propose(
    image: MetadataImage, *proposals: IsrProposal, sender: int = 1, epoch: int = 10
) -> ControllerDecision:
    return decide_alter_partition(a_view(image), AlterPartition(sender, epoch, proposals))


def results_of(decision: ControllerDecision) -> tuple[IsrResult, ...]:
    assert isinstance(decision.response, AlterPartitionResult)
    return decision.response.results


def wish(*isr: int, leader_epoch: int = 4, partition_epoch: int = 8) -> IsrProposal:
    """A proposal that is right about everything unless told otherwise."""
    members = tuple(IsrMember(broker_id, 10 * broker_id) for broker_id in isr)
    return IsrProposal(ORDERS, 0, leader_epoch, partition_epoch, members)


# AlterPartition ----------------------------------------------------------------------------


class Fault(NamedTuple):
    """Something wrong with a proposal, the world, or both."""

    code: ErrorCode
    proposal: IsrProposal = wish(1, 2, 3)
    partition: PartitionImage = PARTITION
    sender: int = 1
    brokers: tuple[object, ...] = LIVE


GOOD = wish(1, 2, 3)
UNREGISTERED = LIVE[:2]
FENCED_3 = (*LIVE[:2], a_broker(3, fenced=True))
LEAVING_3 = (*LIVE[:2], a_broker(3, in_controlled_shutdown=True))
REBOOTED_3 = (*LIVE[:2], a_broker(3, broker_epoch=31))

# In the order of the checks: each fault also has all the later ones where they can coexist.
WORST = wish(2, 2, 4, leader_epoch=5, partition_epoch=9)._replace(recovering=True)
FAULTS = {
    "unknown topic": Fault(ErrorCode.UNKNOWN_TOPIC_ID, WORST._replace(topic_id=TopicId(bytes(16)))),
    "unknown partition": Fault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, WORST._replace(partition=1)),
    "leader epoch ahead": Fault(ErrorCode.NOT_CONTROLLER, WORST, sender=2),
    "only the leader epoch ahead": Fault(
        ErrorCode.NOT_CONTROLLER, WORST._replace(partition_epoch=7), sender=2
    ),
    "partition epoch ahead": Fault(
        ErrorCode.NOT_CONTROLLER, WORST._replace(leader_epoch=3), sender=2
    ),
    "leader epoch behind": Fault(
        ErrorCode.FENCED_LEADER_EPOCH,
        WORST._replace(leader_epoch=3, partition_epoch=7),
        sender=2,
    ),
    "the sender does not lead": Fault(
        ErrorCode.INVALID_REQUEST, WORST._replace(leader_epoch=4, partition_epoch=7), sender=2
    ),
    "partition epoch behind": Fault(
        ErrorCode.INVALID_UPDATE_VERSION, WORST._replace(leader_epoch=4, partition_epoch=7)
    ),
    "not a replica": Fault(ErrorCode.INVALID_REQUEST, wish(1, 4), brokers=FENCED_3),
    "a replica twice": Fault(ErrorCode.INVALID_REQUEST, wish(1, 3, 3), brokers=FENCED_3),
    "without the leader": Fault(ErrorCode.INVALID_REQUEST, wish(2, 3), brokers=FENCED_3),
    "without anybody": Fault(ErrorCode.INVALID_REQUEST, wish()),
    "recovering, not alone": Fault(
        ErrorCode.INVALID_REQUEST,
        wish(1, 3)._replace(recovering=True),
        replace(PARTITION, isr=(1,), recovering=True),
        brokers=FENCED_3,
    ),
    "recovering again": Fault(
        ErrorCode.INVALID_REQUEST, wish(1)._replace(recovering=True), replace(PARTITION, isr=(1,))
    ),
    "an unregistered member": Fault(ErrorCode.INELIGIBLE_REPLICA, GOOD, brokers=UNREGISTERED),
    "a fenced member": Fault(ErrorCode.INELIGIBLE_REPLICA, GOOD, brokers=FENCED_3),
    "a leaving member": Fault(ErrorCode.INELIGIBLE_REPLICA, GOOD, brokers=LEAVING_3),
    "a rebooted member": Fault(ErrorCode.INELIGIBLE_REPLICA, GOOD, brokers=REBOOTED_3),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_refused(fault: Fault) -> None:
    """Goal: the code of the first fault in Kafka's order; nothing written; nothing told."""
    image = an_image(*fault.brokers, orders=[fault.partition])  # type: ignore[arg-type]
    decision = propose(image, fault.proposal, sender=fault.sender, epoch=10 * fault.sender)
    [result] = results_of(decision)
    assert result == IsrResult(fault.proposal.topic_id, fault.proposal.partition, fault.code)
    assert decision.records == []


def test_every_fault_is_refused_for_itself() -> None:
    """Goal: the proposal that the faults are made from is accepted."""
    image = an_image(*LIVE, orders=[PARTITION])
    [result] = results_of(propose(image, GOOD))
    assert result == IsrResult(ORDERS, 0, ErrorCode.NONE, 1, 4, (1, 2, 3), False, 9)


def test_an_accepted_proposal() -> None:
    """Goal: the record and the answer agree; the leader epoch stays."""
    image = an_image(*LIVE, orders=[replace(PARTITION, isr=(1,), eligible_leaders=(2,))])
    decision = propose(image, wish(1, 3))
    [result] = results_of(decision)
    assert decision.records == [
        PartitionChangeRecord(
            partition_id=0, topic_id=ORDERS, isr=(1, 3), eligible_leader_replicas=()
        )
    ]
    partition = after(image, decision.records).partition(ORDERS, 0)
    assert partition is not None
    assert (result.isr, result.partition_epoch) == (partition.isr, partition.partition_epoch)
    assert (result.leader_epoch, partition.leader_epoch) == (4, 4)


def test_the_isr_that_there_is_writes_nothing() -> None:
    """Goal: a repeated proposal is answered with the state as it is, same partition epoch."""
    decision = propose(an_image(*LIVE, orders=[PARTITION]), wish(1, 2))
    [result] = results_of(decision)
    assert (result.error_code, result.partition_epoch) == (ErrorCode.NONE, 8)
    assert decision.records == []


def test_an_unknown_broker_epoch_is_not_compared() -> None:
    """Goal: older leaders do not know the members' epochs (-1)."""
    image = an_image(*REBOOTED_3, orders=[PARTITION])
    members = (IsrMember(1, -1), IsrMember(2, -1), IsrMember(3, -1))
    [result] = results_of(propose(image, GOOD._replace(new_isr=members)))
    assert result.error_code is ErrorCode.NONE


def test_a_leader_reports_its_recovery() -> None:
    """Goal: RECOVERED is taken, and others may join with it."""
    image = an_image(*LIVE, orders=[replace(PARTITION, isr=(1,), recovering=True)])
    decision = propose(image, wish(1))
    [result] = results_of(decision)
    assert (result.error_code, result.recovering) == (ErrorCode.NONE, False)
    partition = after(image, decision.records).partition(ORDERS, 0)
    assert partition is not None
    assert not partition.recovering


def test_proposals_are_decided_one_by_one() -> None:
    """Goal: one refusal does not touch the others; answers keep the order."""
    image = an_image(*LIVE, orders=[PARTITION, PARTITION])
    decision = propose(
        image, wish(2, 3), wish(1, 2, 3)._replace(partition=1), wish(1)._replace(partition=7)
    )
    codes = [result.error_code for result in results_of(decision)]
    assert codes == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert len(decision.records) == 1


def test_a_partition_is_decided_once_per_request() -> None:
    """Goal: two records never build on the same partition epoch."""
    decision = propose(an_image(*LIVE, orders=[PARTITION]), wish(1), wish(1, 2, 3))
    codes = [result.error_code for result in results_of(decision)]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert len(decision.records) == 1


@pytest.mark.parametrize(("sender", "epoch"), [(1, 9), (1, 11), (7, 70)])
def test_a_stale_broker_is_refused_as_a_whole(sender: int, epoch: int) -> None:
    """Goal: an earlier life, or an unknown broker, must register first."""
    with pytest.raises(ProtocolError) as caught:
        propose(an_image(*LIVE, orders=[PARTITION]), GOOD, sender=sender, epoch=epoch)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


# Brokers come and go -----------------------------------------------------------------------


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
    records = decide_broker_left(a_view(image), 1, "test")
    assert [
        (r.partition_id, r.isr, r.leader) for r in records if isinstance(r, PartitionChangeRecord)
    ] == [(0, (2, 3), 2), (1, (2, 3), -2)]


def test_a_broker_that_leaves_is_not_elected_even_uncleanly() -> None:
    """Goal: it still counts as alive in the image while the records are decided."""
    configs = {ConfigResource(2, "orders"): {"unclean.leader.election.enable": "true"}}
    partition = PartitionImage((1, 2), (1,), 1, 0, 0)
    image = an_image(a_broker(1), configs=configs, orders=[partition])
    [record] = decide_broker_left(a_view(image), 1, "test")
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
    [record] = decide_broker_left(a_view(image, config=config), 1, "test")
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
    [record] = decide_broker_left(a_view(image, config=config), 3, "test")
    assert isinstance(record, PartitionChangeRecord)
    assert record.eligible_leader_replicas == ((3,) if eligible else None)


def test_the_min_isr_is_never_above_the_replication_factor_of_the_partition() -> None:
    """Goal: one replica has no use for a min ISR of 2, but that says nothing of the partition
    beside it, whose leader will not commit alone."""
    alone = PartitionImage((1,), (1,), 1, 0, 0)
    image = an_image(*LIVE, orders=[alone, PARTITION])
    config = ControllerConfig(min_insync_replicas=2)
    [record] = decide_broker_left(a_view(image, config=config), 2, "test")
    assert isinstance(record, PartitionChangeRecord)
    assert (record.partition_id, record.isr, record.eligible_leader_replicas) == (1, (1,), (2,))


def test_a_returning_broker_leads_what_waits_for_it() -> None:
    """Goal: elected although the image still shows it fenced; only leaderless ones are looked
    at."""
    image = an_image(
        a_broker(1, fenced=True),
        a_broker(2),
        orders=[
            PartitionImage((1, 2), (), -1, 3, 3, (1,), (2,)),
            PartitionImage((2, 1), (2,), 2, 3, 3),
            PartitionImage((3, 1), (), -1, 3, 3, (3,), (3,)),
        ],
    )
    [record] = decide_broker_returned(a_view(image), 1, "test")
    assert isinstance(record, PartitionChangeRecord)
    assert (record.partition_id, record.leader, record.isr) == (0, 1, (1,))


def test_leaderless_partitions_are_led_by_whoever_is_alive() -> None:
    """Goal: what an earlier controller left undone is done by the next."""
    image = an_image(a_broker(2), orders=[PartitionImage((1, 2), (), -1, 3, 3, (1, 2), (1,))])
    [record] = decide_leaderless(a_view(image), "test")
    assert isinstance(record, PartitionChangeRecord)
    assert (record.leader, record.isr, record.eligible_leader_replicas) == (2, (2,), (1,))


def test_an_unclean_restart_leaves_isr_and_elr() -> None:
    """Goal: a replica that may lack records is no candidate, wherever it stood."""
    image = an_image(
        *LIVE,
        orders=[
            PartitionImage((1, 2, 3), (2,), 2, 0, 0, (1, 3)),
            PartitionImage((1, 2, 3), (1,), 1, 0, 0),
            PartitionImage((2, 3), (2,), 2, 0, 0, (3,)),
        ],
    )
    records = decide_unclean_restart(a_view(image), 1, "test")
    image = after(image, records)
    partitions = image.topics_by_id[ORDERS].partitions
    assert partitions[0].eligible_leaders == (3,)
    assert (partitions[1].isr, partitions[1].leader) == ((), -1)
    assert partitions[1].eligible_leaders == ()
    assert partitions[1].last_known_eligible_leaders == (1,)
    assert len(records) == 2


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
    decide_broker_left(view, 1, "broker 1 fenced: session expired")
    decide_alter_partition(view, AlterPartition(2, 20, (wish(1, 2)._replace(partition=1),)))
    assert sink.take_lines() == [
        "orders-0 elect: elected (from isr) leader=2 was=1 leader_epoch=5 isr=(2, 3) elr=() "
        "cause=broker 1 fenced: session expired",
        "orders-1 change_isr: changed (broker 1 fenced: session expired) isr=(2,) was=(2, 1) "
        "elr=(1,) partition_epoch=9",
        "orders-1 on_alter_partition: accepted isr=(1, 2) was=(2, 1) elr=() leader=2 "
        "leader_epoch=4 partition_epoch=9",
    ]
    decide_alter_partition(view, AlterPartition(2, 20, (wish(1, 2),)))
    assert sink.take_lines() == [
        "orders-0 on_alter_partition: refused (the sender does not lead) error=INVALID_REQUEST "
        "sender=2 isr=(1, 2) leader_epoch=4 partition_epoch=8"
    ]


# Against Apache Kafka ----------------------------------------------------------------------


class KafkaDecision(NamedTuple):
    """What one event of Kafka's controller wrote: a broker's change, or nothing of that kind,
    and the partition changes beside it."""

    before: MetadataImage
    broker: BrokerRegistrationChangeRecord | None
    changes: tuple[PartitionChangeRecord, ...]


def kafka_decisions() -> Iterator[KafkaDecision]:
    """Kafka's log cut into decisions: one batch may join several of them. A fencing stands
    behind its partition changes, an unfencing and a controlled shutdown before them."""
    for step in kafka_steps():
        broker: BrokerRegistrationChangeRecord | None = None
        changes: list[PartitionChangeRecord] = []
        start = step.before
        for offset, record in step.records:
            if isinstance(record, BrokerRegistrationChangeRecord):
                if record.fenced == FENCE:
                    yield KafkaDecision(start, record, tuple(changes))
                    broker, changes = None, []
                else:
                    yield KafkaDecision(start, broker, tuple(changes))
                    broker, changes = record, []
                start = _copy(step, offset)
            elif isinstance(record, PartitionChangeRecord):
                changes.append(record)
        yield KafkaDecision(start, broker, tuple(changes))


def _copy(step: Step, last_offset: int) -> MetadataImage:
    """The image in the midst of a batch."""
    delta = MetadataDelta(step.before)
    for offset, record in step.records:
        if offset <= last_offset:
            delta.replay(record, offset)
    return delta.apply(max(last_offset, step.before.offset), 1)


def comparable(records: Sequence[MetadataRecord]) -> list[str]:
    """The records in an order of their own: Kafka walks hash maps."""
    ordered = []
    for record in records:
        assert isinstance(record, PartitionChangeRecord)
        eligible = record.eligible_leader_replicas
        eligible = None if eligible is None else tuple(sorted(eligible))
        ordered.append(repr(replace(record, eligible_leader_replicas=eligible)))
    return sorted(ordered)


def kafka_view(image: MetadataImage) -> View:
    return a_view(image, config=ControllerConfig(min_insync_replicas=2))


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
            ours = decide_broker_left(view, record.broker_id, "test")
        elif record.fenced == UNFENCE:
            ours = decide_broker_returned(view, record.broker_id, "test")
        else:
            continue
        assert comparable(ours) == comparable(decision.changes), decision.before.offset
        compared += len(ours)
    assert compared == 162


def test_kafka_decides_the_same_when_leaders_propose() -> None:
    """Goal: our records for an accepted ISR are Kafka's, the ELR included.

    Method: an ISR change of Kafka's log that is not part of a broker's change was a proposal of
    the partition's leader.
    """
    compared = 0
    for decision in kafka_decisions():
        if decision.broker is not None:
            continue
        image = decision.before
        ours: list[MetadataRecord] = []
        for change in decision.changes:
            partition = image.partition(change.topic_id, change.partition_id)
            assert partition is not None
            assert change.isr is not None
            leader = image.brokers[partition.leader]
            proposal = IsrProposal(
                change.topic_id,
                change.partition_id,
                partition.leader_epoch,
                partition.partition_epoch,
                tuple(
                    IsrMember(broker_id, image.brokers[broker_id].broker_epoch)
                    for broker_id in change.isr
                ),
            )
            request = AlterPartition(leader.node_id, leader.broker_epoch, (proposal,))
            ours += decide_alter_partition(kafka_view(image), request).records
        assert comparable(ours) == comparable(decision.changes), image.offset
        compared += len(ours)
    assert compared == 81


# Figures for health -------------------------------------------------------------------------


def measured(image: MetadataImage) -> tuple[View, TraceList]:
    """A view whose trace takes figures."""
    sink = TraceList()
    return replace(a_view(image), trace=Trace(sink, measures=True)), sink


def test_an_election_is_measured_with_all_that_health_needs() -> None:
    view, sink = measured(an_image(*LIVE, orders=[PartitionImage((1, 2, 3), (1, 2, 3), 1, 0, 0)]))
    decide_broker_left(view, 1, "broker 1 fenced")
    said = {
        (event.subject, event.decision): dict(event.values)
        for event in sink.events
        if event.handler == "measure"
    }
    values = next(v for (_, kind), v in said.items() if kind == "election")
    assert values["old_leader"] == 1
    assert values["leader"] != 1
    assert 1 in values["old_isr"] and 1 not in values["isr"]
    assert (values["cause"], values["reason"]) == ("broker 1 fenced", "from isr")
    assert values["min_isr"] <= len(values["replicas"])


def test_a_new_controller_tells_of_partitions_that_are_not_whole() -> None:
    image = an_image(*LIVE, orders=[PartitionImage((1, 2, 3), (1, 2, 3), 1, 0, 0)])
    view, sink = measured(image)
    measure_unhealthy(view)
    assert sink.events == []
    broken = after(image, decide_broker_left(view, 1, "broker 1 fenced"))
    view, sink = measured(broken)
    measure_unhealthy(view)
    assert {event.decision for event in sink.events} == {"partition_state"}
