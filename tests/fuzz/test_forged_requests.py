"""Forged requests between nodes: they are refused, and nothing has moved.

Broker 1 leads `orders` with broker 2, which exists in the metadata only. Record 0 is committed;
record 1 is not: a request that made the leader believe that broker 2 holds it would have it
acknowledged.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.broker.one_node import BROKER, CLUSTER_ID, CONTROLLER, OneNode, Wire
from tidelog.broker.api import k56_alter_partition, k62_broker_registration, k63_broker_heartbeat
from tidelog.broker.features import FEATURES
from tidelog.controller.messages import (
    AlterPartition,
    BrokerHeartbeat,
    FeatureRange,
    IsrMember,
    IsrProposal,
    RegisterBroker,
)
from tidelog.errors import ErrorCode
from tidelog.model import Endpoint, TopicId, TopicPartition, Uuid
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire import codec, fetch
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.fetch import FetchPartition, FetchRequest
from tidelog.wire.values import error_of, uuid_of

ORDERS = TopicPartition("orders", 0)
INTERNAL = "INTERNAL"


class Forgery:
    """A cluster in which only node 1 exists, and the state that must not change."""

    def __init__(self) -> None:
        self.node = OneNode(
            listeners="PLAINTEXT://host1:9092,CONTROLLER://host1:9093,INTERNAL://host1:9094",
            listener_security_protocol_map=(
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT"
            ),
            inter_broker_listener_name=INTERNAL,
        )
        self.epoch_of_2 = self.node.add_broker(2)
        self.node.client().create_topic("orders", replicas=(1, 2), min_insync_replicas="1")
        self.append()
        self.fetch(offset=1, session_epoch=-1)
        self.append()
        assert self.state() == self.expected

    expected = (1, 2, (1, 2), (1, 2), 0, 0)

    @property
    def log(self) -> Any:
        return self.node.node._directories.logs[ORDERS]

    @property
    def topic_id(self) -> TopicId:
        return self.node.broker.image.topics_by_name["orders"].topic_id

    def append(self) -> None:
        self.log.append_as_leader(build_batch([Record(1, None, b"v")]), 0, 1)

    def state(self) -> tuple[Any, ...]:
        """High watermark, log end, ISRs of metadata and leader, both epochs of the partition."""
        self.node.settle()
        image = self.node.broker.image.topics_by_name["orders"].partitions[0]
        leadership = self.node.node._replicas.partitions[ORDERS].leadership
        return (
            self.log.high_watermark,
            self.log.log_end_offset,
            image.isr,
            leadership.maximal_isr,
            image.leader_epoch,
            image.partition_epoch,
        )

    def fetch(
        self,
        *,
        version: int = 17,
        replica_id: int = 2,
        replica_epoch: int | None = None,
        offset: int = 2,
        leader_epoch: int = 0,
        topic_id: TopicId | None = None,
        listener: str = INTERNAL,
        session_epoch: int = -1,
    ) -> ErrorCode:
        """One fetch as a replica; the code of its partition."""
        epoch = self.epoch_of_2 if replica_epoch is None else replica_epoch
        wanted = FetchPartition(
            "orders", topic_id or self.topic_id, 0, leader_epoch, offset, -1, 0, 1 << 20
        )
        request = FetchRequest(replica_id, epoch, 0, 1, 1 << 20, 0, 0, session_epoch, [wanted], [])
        wire = self.node.client(listener)
        wire.send(fetch.pack_request(version, 7, "broker-2-fetcher-0", request))
        (frame,) = wire.frames()
        (answer,) = fetch.parse_response(version, frame)[1].partitions
        return answer.error_code

    def ask(self, key: ApiKey, version: int, entity: Any) -> Any:
        """One request on the controller listener."""
        frame = self.node.client(CONTROLLER).ask(key, entity)
        assert frame is not None, f"{key.name} was not answered"
        return codec.decode_response(key, version, frame)[1]

    def alter_partition(self, sender: int, sender_epoch: int, **changes: Any) -> ErrorCode:
        """A proposal that leaves broker 2 out; top-level code, else the partition's."""
        own_epoch = self.node.broker.image.brokers[1].broker_epoch
        values = {
            "topic_id": self.topic_id,
            "partition": 0,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "new_isr": (IsrMember(1, own_epoch),),
        }
        proposal = IsrProposal(**(values | changes))
        message = AlterPartition(sender, sender_epoch, (proposal,))
        answer = self.ask(ApiKey.ALTER_PARTITION, 3, k56_alter_partition.API.request(message))
        code = error_of(answer.error_code)
        if code is not ErrorCode.NONE:
            return code
        return error_of(answer.topics[0].partitions[0].error_code)

    def register(self, **changes: Any) -> ErrorCode:
        """A registration in broker 2's name."""
        values = {
            "broker_id": 2,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": Uuid(b"x" * 16),
            "endpoints": (Endpoint(BROKER, "evil", 9092),),
            "rack": None,
            "features": {name: FeatureRange(*levels) for name, levels in FEATURES.items()},
            "log_dirs": (Uuid(b"y" * 16),),
        }
        entity = k62_broker_registration.API.request(RegisterBroker(**(values | changes)))
        return error_of(self.ask(ApiKey.BROKER_REGISTRATION, 4, entity).error_code)

    def heartbeat(self, broker_id: int, broker_epoch: int, *, wants_fence: bool) -> ErrorCode:
        """A heartbeat in a broker's name."""
        entity = k63_broker_heartbeat.API.request(
            BrokerHeartbeat(broker_id, broker_epoch, 0, wants_fence, False)
        )
        return error_of(self.ask(ApiKey.BROKER_HEARTBEAT, 2, entity).error_code)

    def vote(self, version: int = 2, **changes: Any) -> tuple[ErrorCode, bool]:
        """A vote request of a candidate that is not a voter; whether it was granted."""
        request_type = codec.request_class(ApiKey.VOTE, version)
        values = {
            "partition_index": 0,
            "replica_epoch": 99,
            "replica_id": 66,
            "replica_directory_id": uuid_of(Uuid(b"z" * 16)),
            "voter_directory_id": uuid_of(Uuid(bytes(16))),
            "last_offset_epoch": 98,
            "last_offset": 10_000,
            "pre_vote": False,
        }
        partition = values | changes
        entity = make(
            request_type,
            cluster_id=CLUSTER_ID,
            voter_id=1,
            topics=({"topic_name": "__cluster_metadata", "partitions": (partition,)},),
        )
        answer = self.ask(ApiKey.VOTE, version, entity).topics[0].partitions[0]
        return error_of(answer.error_code), bool(answer.vote_granted)


@pytest.fixture(scope="module")
def forgery() -> Forgery:
    """One for all tests: a refused request changes nothing, which is what they show."""
    return Forgery()


N = ErrorCode
FETCHES: dict[str, tuple[Callable[[Forgery], ErrorCode], ErrorCode]] = {
    "by a client's listener": (lambda f: f.fetch(listener=BROKER), N.TOPIC_AUTHORIZATION_FAILED),
    "without a broker epoch": (lambda f: f.fetch(replica_epoch=-1), N.NOT_LEADER_OR_FOLLOWER),
    "of a version without one": (lambda f: f.fetch(version=12), N.NOT_LEADER_OR_FOLLOWER),
    "of the first versions": (lambda f: f.fetch(version=4), N.NOT_LEADER_OR_FOLLOWER),
    "of a former incarnation": (
        lambda f: f.fetch(replica_epoch=f.epoch_of_2 - 1),
        N.NOT_LEADER_OR_FOLLOWER,
    ),
    "of an incarnation that never was": (
        lambda f: f.fetch(replica_epoch=2**62),
        N.NOT_LEADER_OR_FOLLOWER,
    ),
    "of a broker that is not a replica": (
        lambda f: f.fetch(replica_id=3, replica_epoch=-1),
        N.NOT_LEADER_OR_FOLLOWER,
    ),
    "of a broker that is not registered": (
        lambda f: f.fetch(replica_id=3, replica_epoch=9),
        N.NOT_LEADER_OR_FOLLOWER,
    ),
    "of the leader itself": (
        lambda f: f.fetch(replica_id=1, replica_epoch=f.node.broker.image.brokers[1].broker_epoch),
        N.UNKNOWN_LEADER_EPOCH,
    ),
    "in a later leader epoch": (lambda f: f.fetch(leader_epoch=7), N.UNKNOWN_LEADER_EPOCH),
    "of another topic id": (lambda f: f.fetch(topic_id=TopicId(b"q" * 16)), N.UNKNOWN_TOPIC_ID),
    "beyond the leader's end": (lambda f: f.fetch(offset=3), N.OFFSET_OUT_OF_RANGE),
}


@pytest.mark.parametrize("name", FETCHES)
def test_a_forged_fetch_moves_nothing(forgery: Forgery, name: str) -> None:
    """Neither the high watermark nor the ISR."""
    send, code = FETCHES[name]
    assert send(forgery) is code
    assert forgery.state() == Forgery.expected


def test_the_same_fetch_of_the_real_follower_commits() -> None:
    """So the forged ones fail by what they lack."""
    forgery = Forgery()
    assert forgery.fetch() is ErrorCode.NONE
    assert forgery.state() == (2, *Forgery.expected[1:])


PROPOSALS: dict[str, tuple[Callable[[Forgery], ErrorCode], ErrorCode]] = {
    "from a broker that does not lead": (
        lambda f: f.alter_partition(2, f.epoch_of_2),
        N.INVALID_REQUEST,
    ),
    "from a former incarnation of the leader": (
        lambda f: f.alter_partition(1, 0),
        N.STALE_BROKER_EPOCH,
    ),
    "from an unknown broker": (lambda f: f.alter_partition(9, 0), N.STALE_BROKER_EPOCH),
    "in a later leader epoch": (lambda f: own(f, leader_epoch=5), N.NOT_CONTROLLER),
    "in an earlier leader epoch": (lambda f: own(f, leader_epoch=-1), N.FENCED_LEADER_EPOCH),
    "on a later version": (lambda f: own(f, partition_epoch=5), N.NOT_CONTROLLER),
    "on an earlier version": (lambda f: own(f, partition_epoch=-1), N.INVALID_UPDATE_VERSION),
    "of another topic": (lambda f: own(f, topic_id=TopicId(b"q" * 16)), N.UNKNOWN_TOPIC_ID),
    "of another partition": (lambda f: own(f, partition=4), N.UNKNOWN_TOPIC_OR_PARTITION),
    "without the leader": (lambda f: own(f, new_isr=(IsrMember(2, -1),)), N.INVALID_REQUEST),
    "with a broker twice": (lambda f: own(f, new_isr=members(1, 1)), N.INVALID_REQUEST),
    "with a broker that is not a replica": (
        lambda f: own(f, new_isr=members(1, 3)),
        N.INVALID_REQUEST,
    ),
    "with a former incarnation of a replica": (
        lambda f: own(f, new_isr=(IsrMember(1, -1), IsrMember(2, 0))),
        N.INELIGIBLE_REPLICA,
    ),
}


def own(forgery: Forgery, **changes: Any) -> ErrorCode:
    """A proposal in the name of the leader's present incarnation."""
    epoch = forgery.node.broker.image.brokers[1].broker_epoch
    return forgery.alter_partition(1, epoch, **changes)


def members(*broker_ids: int) -> tuple[IsrMember, ...]:
    return tuple(IsrMember(broker_id, -1) for broker_id in broker_ids)


@pytest.mark.parametrize("name", PROPOSALS)
def test_a_forged_proposal_moves_nothing(forgery: Forgery, name: str) -> None:
    """In the order in which the controller checks."""
    send, code = PROPOSALS[name]
    assert send(forgery) is code
    assert forgery.state() == Forgery.expected


BROKER_CALLS: dict[str, tuple[Callable[[Forgery], ErrorCode], ErrorCode]] = {
    "a registration while the broker runs": (
        lambda f: f.register(),
        N.DUPLICATE_BROKER_REGISTRATION,
    ),
    "a registration of another cluster": (
        lambda f: f.register(cluster_id="MkU3OEVBNTcwNTJENDM2Qg"),
        N.INCONSISTENT_CLUSTER_ID,
    ),
    "a heartbeat of a former incarnation": (
        lambda f: f.heartbeat(2, f.epoch_of_2 - 1, wants_fence=True),
        N.STALE_BROKER_EPOCH,
    ),
    "a heartbeat of a later incarnation": (
        lambda f: f.heartbeat(2, f.epoch_of_2 + 1, wants_fence=True),
        N.STALE_BROKER_EPOCH,
    ),
    "a heartbeat without a registration": (
        lambda f: f.heartbeat(9, 1, wants_fence=True),
        N.STALE_BROKER_EPOCH,
    ),
}


@pytest.mark.parametrize("name", BROKER_CALLS)
def test_a_forged_broker_call_moves_nothing(forgery: Forgery, name: str) -> None:
    """The broker stays registered as it was, and unfenced."""
    before = forgery.node.broker.image.brokers[2]
    send, code = BROKER_CALLS[name]
    assert send(forgery) is code
    assert forgery.state() == Forgery.expected
    assert forgery.node.broker.image.brokers[2] == before


@pytest.mark.parametrize("pre_vote", [True, False])
def test_a_candidate_that_is_not_a_voter_gets_no_vote(forgery: Forgery, pre_vote: bool) -> None:
    """And the leader continues to lead its epoch."""
    quorum = forgery.node.broker.quorum
    before = (quorum.leader_id, quorum.epoch)
    code, granted = forgery.vote(pre_vote=pre_vote)
    assert (code, granted) == (ErrorCode.INCONSISTENT_VOTER_SET, False)
    forgery.node.advance(50)
    assert (quorum.leader_id, quorum.epoch) == before
    assert forgery.state() == Forgery.expected


def test_a_client_that_sends_a_request_between_brokers_is_disconnected(forgery: Forgery) -> None:
    """AlterPartition is not served on the listener for clients."""
    wire: Wire = forgery.node.client(BROKER)
    message = AlterPartition(1, 0, ())
    assert wire.ask(ApiKey.ALTER_PARTITION, k56_alter_partition.API.request(message)) is None
    assert wire.closed
