"""A follower's traffic on the wire: fetches by topic id, names from the image, epochs, failures."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.broker.one_node import OneNode
from tidelog.broker.api import k56_alter_partition
from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.broker.replica_link import FETCH_VERSION, ReplicaLink
from tidelog.controller.messages import AlterPartition, IsrMember, Refused
from tidelog.env.effects import (
    Close,
    Closed,
    CloseReason,
    Connect,
    Connected,
    EffectQueue,
    Received,
)
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition, Uuid
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.replication.messages import AlterPartitionProposal, SendAlterPartition, SendFetch
from tidelog.replication.messages import IsrMember as Member
from tidelog.wire import fetch as wire_fetch
from tidelog.wire.api import ApiKey, parse_header
from tidelog.wire.fetch import FetchedPartition, FetchRequest, FetchResponse
from tidelog.wire.frames import FrameReader

BATCH = build_batch([Record(1, b"k", b"v")], leader_epoch=0)
PARTITION = TopicPartition("t", 0)


class Leader:
    """The test in the place of broker 2, which leads `t-0`; node 1 follows."""

    def __init__(self) -> None:
        self.node = OneNode()
        self.node.add_broker(2)
        self.node.client().create_topic("t", replicas=(2, 1))
        self.frames = FrameReader()
        self.topic_id = self.node.broker.image.topics_by_name["t"].topic_id

    def accept(self) -> None:
        """The follower's newest connection to the leader's broker listener is made."""
        connect = self.node.connects[-1]
        assert (connect.host, connect.port) == ("host2", 9092)
        self.connection = connect.connection
        self.frames = FrameReader()
        self.node.receive(Connected(self.connection))

    def request(self) -> tuple[int, FetchRequest]:
        """The follower's next fetch: correlation id and request."""
        sent = self.node.sent[self.connection]
        frames = [bytes(frame) for frame in self.frames.feed(bytes(sent))]
        sent.clear()
        (frame,) = frames
        header, offset = parse_header(frame)
        assert (header.api_key, header.api_version) == (ApiKey.FETCH, FETCH_VERSION)
        assert header.client_id == "broker-1-fetcher-0"
        return header.correlation_id, wire_fetch.parse_request(FETCH_VERSION, frame, offset)

    def answer(self, correlation_id: int, **changes: Any) -> None:
        """A response with one batch, or as changed."""
        partition = FetchedPartition(
            "", self.topic_id, 0, ErrorCode.NONE, 0, 0, 0, [BATCH], len(BATCH)
        )._replace(**changes)
        response = FetchResponse(0, ErrorCode.NONE, 0, [partition])
        chunks = wire_fetch.pack_response(FETCH_VERSION, correlation_id, response)
        data = b"".join(bytes(chunk) for chunk in chunks)
        self.node.receive(Received(self.connection, data))

    @property
    def log_end_offset(self) -> int:
        end: int = self.node.node._directories.logs[PARTITION].log_end_offset
        return end


@pytest.fixture
def leader() -> Leader:
    found = Leader()
    found.accept()
    return found


def test_a_follower_asks_by_id_with_its_broker_epoch(leader):
    _, request = leader.request()
    own = leader.node.broker.image.brokers[1]
    assert (request.replica_id, request.replica_epoch) == (1, own.broker_epoch)
    (wanted,) = request.partitions
    assert (wanted.topic_id, wanted.partition) == (leader.topic_id, 0)
    assert (wanted.current_leader_epoch, wanted.fetch_offset) == (0, 0)


def test_what_the_leader_sends_is_in_the_followers_log(leader):
    correlation_id, _ = leader.request()
    leader.answer(correlation_id)
    assert leader.log_end_offset == 1
    _, request = leader.request()
    (wanted,) = request.partitions
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (1, 0)


def test_an_answer_about_an_unknown_topic_is_dropped(leader):
    correlation_id, _ = leader.request()
    leader.answer(correlation_id, topic_id=b"?" * 16)
    assert leader.log_end_offset == 0
    assert not leader.node.exits


def test_an_answer_that_is_none_closes_the_connection_and_the_follower_tries_again(leader):
    leader.request()
    before = len(leader.node.connects)
    leader.node.receive(Received(leader.connection, b"\x00\x00\x00\x04\x00\x00\x00\x07"))
    leader.node.advance(5000)
    assert leader.log_end_offset == 0
    assert not leader.node.exits
    assert len(leader.node.connects) > before or leader.node.sent[leader.connection]


def test_a_leader_that_cannot_be_reached_is_tried_again(leader):
    leader.request()
    before = len(leader.node.connects)
    leader.node.receive(Closed(leader.connection, CloseReason.PEER))
    leader.node.advance(5000)
    again = [c for c in leader.node.connects[before:] if (c.host, c.port) == ("host2", 9092)]
    assert again


def test_a_silent_stream_is_replaced_after_the_wait_and_half_a_session(leader):
    """Its other end may have lost it without a word; the high watermark stands still meanwhile."""
    leader.request()
    before = len(leader.node.connects)
    leader.node.advance(500 + 4500 - 1)
    assert len(leader.node.connects) == before
    leader.node.advance(1 + 1000)
    again = [c for c in leader.node.connects[before:] if (c.host, c.port) == ("host2", 9092)]
    assert again


def test_an_answer_that_has_begun_may_take_the_whole_timeout(leader):
    leader.request()
    before = len(leader.node.connects)
    leader.node.receive(Received(leader.connection, b"\x00\x00"))
    leader.node.advance(20_000)
    assert len(leader.node.connects) == before


def test_a_new_life_of_a_broker_ends_the_connections_to_its_former_one(leader):
    """A power cut closes no connections: the fetch would wait out its timeout, and a probe would
    take the dead connection for a sign of life."""
    effects = EffectQueue()
    peers = PeerChannels(effects)
    link = ReplicaLink(leader.node.node.config, leader.node.broker.replicas, peers)
    image = leader.node.broker.image
    link.on_image(image)
    peers.send(2, Purpose.REPLICA_FETCH, [b"fetch"], "token", Instant(60_000))
    peers.probe(2)
    made = [effect.connection for effect in effects.take() if isinstance(effect, Connect)]
    for connection_id in made:
        peers.on_connected(connection_id)
    peers.take_outputs()
    same_life = replace(image.brokers[2], fenced=True)
    link.on_image(replace(image, brokers={**image.brokers, 2: same_life}))
    assert effects.take() == []
    next_life = replace(same_life, incarnation_id=Uuid(b"next" * 4))
    link.on_image(replace(image, brokers={**image.brokers, 2: next_life}))
    assert effects.take() == [Close(connection_id) for connection_id in made]
    assert [output.token for output in peers.take_outputs()] == ["token"]
    assert not peers.probe(2)


@pytest.mark.parametrize(("highest", "version"), [(25, FETCH_VERSION - 1), (30, FETCH_VERSION)])
def test_an_older_leader_is_asked_in_a_version_that_it_knows(leader, highest, version):
    effects = EffectQueue()
    peers = PeerChannels(effects)
    link = ReplicaLink(leader.node.node.config, leader.node.broker.replicas, peers)
    image = leader.node.broker.image
    features = {**image.brokers[2].features, "metadata.version": (7, highest)}
    of_version = replace(image.brokers[2], features=features)
    link.on_image(replace(image, brokers={**image.brokers, 2: of_version}))
    leader.accept()
    _, request = leader.request()
    link.send(SendFetch(2, None, request), Instant(0))
    (connect,) = effects.take()
    peers.on_connected(connect.connection)
    peers.flush()
    (sent,) = effects.take()
    (frame,) = FrameReader().feed(b"".join(sent.chunks))
    assert parse_header(frame)[0].api_version == version


# ISR proposals -----------------------------------------------------------------------------


def link_of(node: OneNode) -> ReplicaLink:
    return node.node._links.replicas


def test_isr_proposals_reach_the_wire_with_the_epochs_of_their_members(leader):
    proposal = AlterPartitionProposal(
        PARTITION, leader.topic_id, 3, 9, (Member(1, 11), Member(2, 22)), False
    )
    output = SendAlterPartition(5, 77, (proposal,))
    message = link_of(leader.node).alter_partition_of(output)
    assert isinstance(message, AlterPartition)
    assert (message.broker_id, message.broker_epoch) == (1, 77)
    (proposal,) = message.proposals
    assert (proposal.topic_id, proposal.partition) == (leader.topic_id, 0)
    assert (proposal.leader_epoch, proposal.partition_epoch) == (3, 9)
    assert proposal.new_isr == (IsrMember(1, 11), IsrMember(2, 22))
    assert k56_alter_partition.API.message_of(k56_alter_partition.API.request(message)) == message


def test_refusals_of_isr_proposals_do_no_harm_when_no_request_waits(leader):
    output = SendAlterPartition(12345, 77, ())
    for response in (None, Refused(ErrorCode.STALE_BROKER_EPOCH, "stale")):
        link_of(leader.node).on_alter_partition_result(output, response, leader.node.now)
        leader.node.settle()
    assert not leader.node.exits
