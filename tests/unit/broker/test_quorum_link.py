"""The quorum's messages on the wire: which connection, which version, and what failure means."""

from collections import defaultdict
from typing import Any

import pytest

from tests.unit.broker.one_node import CLUSTER_ID, CONTROLLER, DIRECTORY_ID, OneNode
from tidelog.broker.quorum_link import FETCH_VERSION, OLDER_FOR_MS
from tidelog.env.effects import Closed, CloseReason, Connected, Received
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import METADATA_TOPIC
from tidelog.wire import codec
from tidelog.wire import fetch as wire_fetch
from tidelog.wire.api import ApiKey, RequestHeader, parse_header
from tidelog.wire.entities import make
from tidelog.wire.frames import FrameReader
from tidelog.wire.values import error, error_of, uuid_of

VOTERS = "1@host1:9093,2@host2:9093,3@host3:9093"


class Voters:
    """Node 1 of three voters; the test answers for 2 and 3."""

    def __init__(self) -> None:
        self.node = OneNode(alone=False, controller_quorum_voters=VOTERS)
        self.frames: dict[int, FrameReader] = defaultdict(FrameReader)
        # What node 1 has sent and has no answer yet: (connection, header, frame, body offset).
        self.open: list[tuple[int, RequestHeader, bytes, int]] = []
        self._accepted = 0

    def received(self) -> list[tuple[int, RequestHeader, bytes, int]]:
        """Accepts new connections; the requests that arrived since the last call."""
        for connect in self.node.connects[self._accepted :]:
            self.node.receive(Connected(connect.connection))
        self._accepted = len(self.node.connects)
        requests = []
        for connection in [connect.connection for connect in self.node.connects]:
            sent = self.node.sent[connection]
            for frame in self.frames[connection].feed(bytes(sent)):
                header, offset = parse_header(frame)
                requests.append((connection, header, bytes(frame), offset))
            sent.clear()
        return requests

    def wait(self, key: ApiKey) -> list[tuple[int, RequestHeader, bytes, int]]:
        """Lets time pass until node 1 sends requests of this kind."""
        for _ in range(400):
            found = [request for request in self.received() if request[1].api_key is key]
            if found:
                return found
            self.node.advance(10)
        raise AssertionError(f"no {key.name}")

    def answer(self, connection: int, header: RequestHeader, entity: Any) -> None:
        self.node.receive(Received(connection, codec.encode_response(header, entity)))

    def vote(self, connection: int, header: RequestHeader, *, granted: bool = True) -> None:
        """Answers a Vote request."""
        response_type = codec.response_class(ApiKey.VOTE, header.api_version)
        partition = {
            "partition_index": 0,
            "error_code": error(ErrorCode.NONE),
            "leader_id": -1,
            "leader_epoch": self.node.broker.quorum.epoch,
            "vote_granted": granted,
        }
        entity = make(
            response_type,
            error_code=error(ErrorCode.NONE),
            topics=({"topic_name": "__cluster_metadata", "partitions": (partition,)},),
            node_endpoints=(),
        )
        self.answer(connection, header, entity)

    def announce(self, leader_id: int, epoch: int) -> Any:
        """The leader's BeginQuorumEpoch comes in; the response entity."""
        partition = {
            "partition_index": 0,
            "voter_directory_id": uuid_of(DIRECTORY_ID),
            "leader_id": leader_id,
            "leader_epoch": epoch,
        }
        return self.node.client(CONTROLLER).call(
            ApiKey.BEGIN_QUORUM_EPOCH,
            1,
            cluster_id=CLUSTER_ID,
            voter_id=1,
            topics=({"topic_name": "__cluster_metadata", "partitions": (partition,)},),
            leader_endpoints=(),
        )


@pytest.fixture
def voters() -> Voters:
    return Voters()


def test_votes_are_asked_of_the_other_voters_controller_listeners(voters):
    requests = voters.wait(ApiKey.VOTE)
    assert len(requests) == 2
    assert {(c.host, c.port) for c in voters.node.connects} == {("host2", 9093), ("host3", 9093)}
    for _, header, frame, offset in requests:
        assert (header.api_version, header.client_id) == (2, "raft-client-1")
        entity = codec.decode_request(header, frame, offset)
        assert entity.cluster_id == CLUSTER_ID
        assert entity.topics[0].partitions[0].pre_vote


def test_a_majority_of_answers_elects(voters):
    for _ in range(2):
        connection, header, _, _ = voters.wait(ApiKey.VOTE)[0]
        voters.vote(connection, header)
    assert voters.node.broker.quorum.is_leader
    (begin, *_) = voters.wait(ApiKey.BEGIN_QUORUM_EPOCH)
    assert begin[1].api_version == 1


def test_lost_connections_are_answers_too(voters):
    """Both voters are gone: the campaign ends at once and is tried again later."""
    first = voters.wait(ApiKey.VOTE)
    for connection, _, _, _ in first:
        voters.node.receive(Closed(connection, CloseReason.PEER))
    assert voters.wait(ApiKey.VOTE)
    assert not voters.node.broker.quorum.is_leader


def test_an_answer_that_does_not_parse_is_not_an_answer(voters):
    (connection, _, _, _), *_ = voters.wait(ApiKey.VOTE)
    voters.node.receive(Received(connection, b"\x00\x00\x00\x05\x00\x00\x00\x01\x00"))
    assert not voters.node.exits
    assert any("on_answered: ignored" in line for line in voters.node.trace.take_lines())


def test_a_follower_fetches_on_a_connection_of_its_own(voters):
    asked = {connection for connection, _, _, _ in voters.wait(ApiKey.VOTE)}
    response = voters.announce(2, 5)
    assert error_of(response.topics[0].partitions[0].error_code) is ErrorCode.NONE
    assert voters.node.broker.quorum.leader_id == 2
    ((connection, header, frame, offset),) = voters.wait(ApiKey.FETCH)
    assert connection not in asked
    assert header.api_version == FETCH_VERSION
    fetch = wire_fetch.parse_request(FETCH_VERSION, frame, offset)
    assert (fetch.replica_id, fetch.cluster_id) == (1, CLUSTER_ID)
    (partition,) = fetch.partitions
    assert (partition.fetch_offset, partition.current_leader_epoch) == (0, 5)


def test_a_leader_that_cuts_fetches_gets_the_version_before_for_a_while(voters):
    """Apache Kafka before 4.1 closes the connection on a version that it does not know. One of our
    own may have ended twice, and gets the newest again: without it commits come late (seed 22)."""

    def cut() -> int:
        connection, header, _, _ = voters.wait(ApiKey.FETCH)[0]
        voters.node.receive(Closed(connection, CloseReason.PEER))
        return header.api_version

    voters.wait(ApiKey.VOTE)
    voters.announce(2, 5)
    older = FETCH_VERSION - 1
    assert [cut() for _ in range(5)] == [FETCH_VERSION, FETCH_VERSION, older, older, older]
    voters.node.now = Instant(voters.node.now + OLDER_FOR_MS)
    voters.announce(2, 9)
    assert [cut() for _ in range(2)] == [FETCH_VERSION, older]


def test_a_voter_that_cuts_pre_votes_gets_votes_in_the_version_before(voters):
    """Apache Kafka before 4.0 knows no pre-votes: as in Kafka, the vote itself is asked for then,
    without one."""

    def cut() -> list[tuple[int, bool]]:
        requests = voters.wait(ApiKey.VOTE)
        asked = []
        for connection, header, frame, offset in requests:
            entity = codec.decode_request(header, frame, offset)
            pre_vote = getattr(entity.topics[0].partitions[0], "pre_vote", False)
            asked.append((header.api_version, pre_vote))
            voters.node.receive(Closed(connection, CloseReason.PEER))
        return asked

    epoch = voters.node.broker.quorum.epoch
    assert {asked for _ in range(2) for asked in cut()} == {(2, True)}
    assert voters.node.broker.quorum.epoch == epoch
    connection, header, _, _ = voters.wait(ApiKey.VOTE)[0]
    assert header.api_version == 1
    assert voters.node.broker.quorum.epoch == epoch + 1
    voters.vote(connection, header)
    assert voters.node.broker.quorum.is_leader


def test_a_fetch_of_the_metadata_log_is_answered_in_the_version_of_its_request():
    node = OneNode()
    topic_id = bytes(15) + b"\x01"
    for version in range(13, 19):
        wanted = wire_fetch.FetchPartition("", topic_id, 0, 1, 0, 0, -1, 1 << 20)
        request = wire_fetch.FetchRequest(
            9, -1, 0, 0, 1 << 20, 0, 0, -1, [wanted], [], cluster_id=CLUSTER_ID
        )
        wire = node.client(CONTROLLER)
        wire.send(wire_fetch.pack_request(version, 3, "observer", request))
        (frame,) = wire.frames()
        correlation_id, response = wire_fetch.parse_response(version, frame)
        (partition,) = response.partitions
        assert correlation_id == 3
        assert partition.error_code is ErrorCode.NONE
        assert partition.high_watermark == node.broker.quorum.high_watermark
        assert partition.records_bytes > 0


@pytest.mark.parametrize(("version", "topic"), [(7, "t"), (12, METADATA_TOPIC), (18, "")])
def test_no_other_log_is_served_on_the_controller_listener(version, topic):
    """Goal: a log by its name, which the quorum has no more, or by the id of another."""
    node = OneNode()
    wanted = wire_fetch.FetchPartition(topic, b"t" * 16, 0, -1, 0, -1, -1, 1 << 20)
    request = wire_fetch.FetchRequest(-1, -1, 0, 0, 1 << 20, 0, 0, -1, [wanted], [])
    wire = node.client(CONTROLLER)
    wire.send(wire_fetch.pack_request(version, 3, "stranger", request))
    _, response = wire_fetch.parse_response(version, wire.frames()[0])
    assert (response.error_code, response.partitions) == (ErrorCode.INVALID_REQUEST, [])
