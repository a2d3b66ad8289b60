"""A lost replica leaves ISR and ELR in one record, never leads, and returns with a new epoch."""

from dataclasses import replace

import pytest

from tests.unit.controller.harness import (
    a_broker,
    a_view,
    after,
    an_image,
    at_once,
    directory_of,
    topic_id_of,
)
from tidelog.controller.directories import decide_assign_replicas
from tidelog.controller.events import Cause, CauseKind
from tidelog.controller.isr_proposals import decide_alter_partition
from tidelog.controller.messages import (
    AlterPartition,
    AssignedReplica,
    AssignReplicas,
    AssignReplicasResult,
    IsrMember,
    IsrProposal,
    ReplicaDirectory,
)
from tidelog.controller.partitions import decide_leaderless
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.model import LOST_DIRECTORY, Uuid

ORDERS = topic_id_of("orders")
LIVE = tuple(a_broker(node_id) for node_id in (1, 2, 3))
HOMES = tuple(directory_of(node_id) for node_id in (1, 2, 3))
PARTITION = PartitionImage((1, 2, 3), (1, 2, 3), 1, 4, 8, directories=HOMES)


def image_of(partition: PartitionImage, *, elr: bool = True) -> MetadataImage:
    return an_image(*LIVE, elr=elr, orders=[partition])


def say(image: MetadataImage, broker: int, directory: Uuid) -> MetadataImage:
    """The image after a broker reported where its replica is."""
    request = AssignReplicas(broker, 10 * broker, (ReplicaDirectory(ORDERS, 0, directory),))
    decision = at_once(decide_assign_replicas(a_view(image), request))
    expected = AssignedReplica(ORDERS, 0, directory, ErrorCode.NONE)
    assert decision.response == AssignReplicasResult((expected,))
    assert len(decision.records) <= 1
    return after(image, decision.records)


def of(image: MetadataImage) -> PartitionImage:
    return image.topics_by_id[ORDERS].partitions[0]


def test_a_leader_that_lost_its_log_is_replaced_in_the_same_record():
    image = say(image_of(PARTITION), 1, LOST_DIRECTORY)
    assert (of(image).leader, of(image).isr, of(image).eligible_leaders) == (2, (2, 3), ())
    assert of(image).has_lost(1) and not of(image).has_lost(2)
    assert of(image).leader_epoch == 5


@pytest.mark.parametrize("elr", [True, False])
def test_the_last_member_leaves_no_replica_to_lead(elr):
    """Not even itself, when it is back; nor is it eligible."""
    image = say(image_of(replace(PARTITION, isr=(1,)), elr=elr), 1, LOST_DIRECTORY)
    assert of(image).leader == -1
    assert 1 not in of(image).eligible_leaders
    assert not at_once(decide_leaderless(a_view(image), Cause(CauseKind.STILL_LEADERLESS))).records


def test_a_member_of_the_elr_is_eligible_no_more():
    partition = replace(PARTITION, isr=(1,), eligible_leaders=(2,))
    image = say(image_of(partition), 2, LOST_DIRECTORY)
    assert (of(image).isr, of(image).eligible_leaders, of(image).leader) == ((1,), (), 1)


def test_a_lost_replica_may_not_join_the_isr():
    image = say(image_of(PARTITION), 3, LOST_DIRECTORY)
    members = tuple(IsrMember(node_id, 10 * node_id) for node_id in (1, 2, 3))
    epochs = (of(image).leader_epoch, of(image).partition_epoch)
    proposal = IsrProposal(ORDERS, 0, *epochs, members)
    decision = at_once(decide_alter_partition(a_view(image), AlterPartition(1, 10, (proposal,))))
    assert decision.response.results[0].error_code is ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_that_has_a_log_again_begins_a_new_leader_epoch():
    """What it sent before it lost its log must not count: a fetch of that time is fenced."""
    lost = say(image_of(PARTITION), 3, LOST_DIRECTORY)
    image = say(lost, 3, directory_of(3))
    assert of(image).directories == HOMES
    assert of(image).leader_epoch == of(lost).leader_epoch + 1
    assert (of(image).leader, of(image).isr) == (1, (1, 2))


def test_the_last_known_leader_may_lead_when_its_log_is_back():
    lost = say(image_of(replace(PARTITION, isr=(1,))), 1, LOST_DIRECTORY)
    image = say(lost, 1, directory_of(1))
    assert of(image).leader == 1


def test_a_directory_that_the_broker_does_not_have_is_lost():
    assert of(say(image_of(PARTITION), 3, directory_of(9))).has_lost(3)


def test_nothing_new_writes_nothing_and_faults_are_distinguished():
    image = image_of(PARTITION)
    assert say(image, 1, directory_of(1)).offset == image.offset
    request = AssignReplicas(
        1,
        10,
        (
            ReplicaDirectory(topic_id_of("gone"), 0, LOST_DIRECTORY),
            ReplicaDirectory(ORDERS, 7, LOST_DIRECTORY),
        ),
    )
    decision = at_once(decide_assign_replicas(a_view(image), request))
    codes = [result.error_code for result in decision.response.results]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    elsewhere = replace(PARTITION, replicas=(2, 3), isr=(2, 3), leader=2, directories=HOMES[1:])
    stranger = AssignReplicas(1, 10, (ReplicaDirectory(ORDERS, 0, LOST_DIRECTORY),))
    decision = at_once(decide_assign_replicas(a_view(image_of(elsewhere)), stranger))
    assert decision.response.results[0].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ProtocolError, match="epoch"):
        at_once(decide_assign_replicas(a_view(image), stranger._replace(broker_epoch=9)))
