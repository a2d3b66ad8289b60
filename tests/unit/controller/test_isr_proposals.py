"""AlterPartition's refusals in their order, and the decisions in Apache Kafka's own log."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from tests.unit.controller.harness import a_broker, a_view, after, an_image, at_once, topic_id_of
from tests.unit.controller.kafka_decisions import comparable, kafka_decisions, kafka_view
from tidelog.controller.isr_proposals import decide_alter_partition
from tidelog.controller.messages import (
    AlterPartition,
    AlterPartitionResult,
    IsrMember,
    IsrProposal,
    IsrResult,
)
from tidelog.controller.view import ControllerDecision
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.metadata.records import MetadataRecord, PartitionChangeRecord
from tidelog.model import TopicId

ORDERS = topic_id_of("orders")
PARTITION = PartitionImage((1, 2, 3), (1, 2), 1, 4, 8)
LIVE = tuple(a_broker(node_id) for node_id in (1, 2, 3))


def propose(
    image: MetadataImage, *proposals: IsrProposal, sender: int = 1, epoch: int = 10
) -> ControllerDecision:
    return at_once(decide_alter_partition(a_view(image), AlterPartition(sender, epoch, proposals)))


def results_of(decision: ControllerDecision) -> tuple[IsrResult, ...]:
    assert isinstance(decision.response, AlterPartitionResult)
    return decision.response.results


def wish(*isr: int, leader_epoch: int = 4, partition_epoch: int = 8) -> IsrProposal:
    """A proposal that is right about everything unless changed."""
    members = tuple(IsrMember(broker_id, 10 * broker_id) for broker_id in isr)
    return IsrProposal(ORDERS, 0, leader_epoch, partition_epoch, members)


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
        ErrorCode.FENCED_LEADER_EPOCH, WORST._replace(leader_epoch=3, partition_epoch=7), sender=2
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
    "without any replica": Fault(ErrorCode.INVALID_REQUEST, wish()),
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
    """Goal: the code of the first fault in Kafka's order; nothing written, nothing answered beside
    it."""
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
            ours += at_once(decide_alter_partition(kafka_view(image), request)).records
        assert comparable(ours) == comparable(decision.changes), image.offset
        compared += len(ours)
    assert compared == 81
