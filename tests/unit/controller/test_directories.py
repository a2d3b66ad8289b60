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
    to_the_end,
    topic_id_of,
)
from tidelog.controller.brokers import decide_heartbeat
from tidelog.controller.directories import decide_assign_replicas
from tidelog.controller.events import Cause, CauseKind
from tidelog.controller.heartbeats import BrokerSessions
from tidelog.controller.isr_proposals import decide_alter_partition
from tidelog.controller.messages import (
    AlterPartition,
    AssignedReplica,
    AssignReplicas,
    AssignReplicasResult,
    BrokerHeartbeat,
    IsrMember,
    IsrProposal,
    ReplicaDirectory,
)
from tidelog.controller.partitions import decide_leaderless
from tidelog.env.instant import Instant
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


# Several directories -----------------------------------------------------------------------

FIRST, SECOND, GONE = (Uuid(letter * 16) for letter in (b"f", b"s", b"g"))


def image_of_two(said: Uuid, **changes: object) -> MetadataImage:
    """Broker 1 has two directories; its replica is in the one that was `said`."""
    broker = replace(a_broker(1), log_dirs=(FIRST, SECOND))
    partition = replace(PARTITION, directories=(said, *HOMES[1:]), **changes)
    return an_image(broker, *LIVE[1:], elr=True, orders=[partition])


def beat(image: MetadataImage, *offline: Uuid) -> MetadataImage:
    """The image after a heartbeat of broker 1 that names these directories."""
    heartbeat = BrokerHeartbeat(1, 10, image.offset, False, False, offline)
    sessions = BrokerSessions(9000, 500)
    for broker in image.brokers.values():
        sessions.register(broker.node_id, broker.broker_epoch)
    view = a_view(image)
    decision = to_the_end(decide_heartbeat(view, sessions, heartbeat, Instant(0)), view)
    return after(image, decision.records)


def test_a_directory_that_is_offline_takes_its_replicas_out_and_nothing_else():
    image = beat(image_of_two(SECOND), SECOND)
    assert image.brokers[1].log_dirs == (FIRST,)
    assert (of(image).leader, of(image).isr) == (2, (2, 3))
    assert image.offline_replicas(of(image)) == (1,)
    assert not image.brokers[1].fenced
    other = image_of_two(FIRST)
    assert of(beat(other, SECOND)) == of(other)
    # Named again and again, it changes nothing more.
    assert beat(image, SECOND).offset == image.offset


def test_a_replica_in_a_directory_that_is_offline_neither_leads_nor_joins():
    image = beat(image_of_two(SECOND, isr=(1,), eligible_leaders=()), SECOND)
    assert (of(image).leader, of(image).eligible_leaders) == (-1, (1,))
    assert not at_once(decide_leaderless(a_view(image), Cause(CauseKind.STILL_LEADERLESS))).records
    image = beat(image_of_two(SECOND), SECOND)
    members = IsrMember(2, -1), IsrMember(3, -1), IsrMember(1, -1)
    epochs = of(image).leader_epoch, of(image).partition_epoch
    proposal = IsrProposal(ORDERS, 0, *epochs, members)
    request = AlterPartition(2, 20, (proposal,))
    assert not at_once(decide_alter_partition(a_view(image), request)).records


def test_a_log_begun_anew_elsewhere_is_no_longer_complete():
    """Its former directory is not registered any more: it leaves ISR and ELR, in a new epoch."""
    image = say(image_of_two(GONE, leader=2, eligible_leaders=()), 1, FIRST)
    assert (of(image).isr, of(image).directory_of(1)) == ((2, 3), FIRST)
    assert of(image).leader_epoch == PARTITION.leader_epoch + 1
    image = say(image_of_two(GONE, isr=(2,), leader=2, eligible_leaders=(1,)), 1, FIRST)
    assert of(image).eligible_leaders == ()


def test_a_log_that_moved_between_directories_keeps_its_part():
    image = say(image_of_two(SECOND), 1, FIRST)
    assert (of(image).isr, of(image).leader, of(image).leader_epoch) == ((1, 2, 3), 1, 4)
    assert of(image).directory_of(1) == FIRST


def test_the_last_replica_may_be_begun_anew():
    """The operator took the disk away, and no other replica has the records."""
    image = say(image_of_two(GONE, isr=(1,), leader=-1, eligible_leaders=()), 1, FIRST)
    assert (of(image).isr, of(image).leader) == ((1,), 1)
