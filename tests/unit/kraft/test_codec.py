"""The quorum's messages on the wire, against what Kafka 4.3.1 nodes sent to each other."""

from dataclasses import replace

import pytest

from tests.unit.kraft.solo import CLUSTER_ID, begin, end, fetch, fetched, pre_vote, vote
from tests.wire_corpus import Exchange, wire_corpus
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.kraft import codec as quorum_codec
from tidelog.kraft import fetch_codec
from tidelog.kraft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    ReplicaKey,
    SnapshotId,
    SupportRequest,
    UpdateVoterRequest,
    Voter,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from tidelog.model import METADATA_TOPIC_ID, ZERO_UUID, Endpoint, EpochEndOffset, TopicId, Uuid
from tidelog.wire import codec
from tidelog.wire import fetch as wire_fetch
from tidelog.wire.api import ApiKey, parse_header
from tidelog.wire.entities import make
from tidelog.wire.values import error, millis

RPCS = (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH)
QUORUM_EXCHANGES = [
    exchange
    for exchange in wire_corpus()
    if exchange.peer.startswith("controller") and exchange.api_key in (*RPCS, ApiKey.FETCH)
]


def joined(chunks: object) -> bytes:
    """A packed message without its length prefix."""
    assert isinstance(chunks, bytes | list)
    data = chunks if isinstance(chunks, bytes) else b"".join(chunks)
    return data[4:]


def test_the_corpus_has_every_kind() -> None:
    """Otherwise the next test would prove little."""
    assert {exchange.api_key for exchange in QUORUM_EXCHANGES} == {*RPCS, ApiKey.FETCH}


@pytest.mark.parametrize("exchange", QUORUM_EXCHANGES, ids=str)
def test_kafkas_bytes_survive_the_round_trip(exchange: Exchange) -> None:
    """Bytes to value to bytes, request and response; the version is the one that is sent."""
    header, offset = parse_header(exchange.request)
    key, version = header.api_key, header.api_version
    assert version == quorum_codec.SENT_VERSIONS[ApiKey(key)]
    if key == ApiKey.FETCH:
        parsed = wire_fetch.parse_request(version, exchange.request, offset)
        request = fetch_codec.fetch_request_to_wire(fetch_codec.fetch_request_of(parsed))
        sent = wire_fetch.pack_request(version, header.correlation_id, header.client_id, request)
        correlation_id, answer = wire_fetch.parse_response(version, exchange.response)
        response = fetch_codec.fetch_response_to_wire(fetch_codec.fetch_response_of(answer))
        returned = wire_fetch.pack_response(version, correlation_id, response)
        assert (joined(sent), joined(returned)) == (exchange.request, exchange.response)
        return
    value = quorum_codec.request_of(codec.decode_request(header, exchange.request, offset))
    entity = quorum_codec.request_to_entity(value)
    assert joined(codec.encode_request(entity, header.correlation_id, header.client_id)) == (
        exchange.request
    )
    _, answer_entity = codec.decode_response(key, version, exchange.response)
    returned_value = quorum_codec.response_of(answer_entity)
    back = quorum_codec.response_to_entity(key, returned_value, version)
    assert joined(codec.encode_response(header, back)) == exchange.response


ENDPOINT = Endpoint("CONTROLLER", "n2", 9093)
LEADER = Endpoint("", "n2", 9093)
KEYS = dict(
    zip((VoteResponse, BeginQuorumEpochResponse, EndQuorumEpochResponse), RPCS, strict=True)
)


@pytest.mark.parametrize(
    "request_value",
    [
        pre_vote(),
        vote(epoch=7, last_epoch=6, last_offset=2**40, cluster_id=None),
        begin(leader_endpoints=(ENDPOINT,)),
        end(),
        end(preferred_candidates=()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_requests_survive_entities(
    request_value: VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest,
) -> None:
    """Value to entity to value."""
    entity = quorum_codec.request_to_entity(request_value)
    assert quorum_codec.request_of(entity) == request_value
    assert int(entity.__api_key__) == quorum_codec.api_of(request_value)


def old_version(request: VoteRequest | EndQuorumEpochRequest, version: int) -> object:
    """The same request as an older voter would send it."""
    entity = quorum_codec.request_to_entity(request)
    entity_type = codec.request_class(int(entity.__api_key__), version)
    new = entity.topics[0].partitions[0]
    known = {name: getattr(new, name) for name in type(new).__slots__}
    known["preferred_successors"] = (1, 3)
    topic = {"topic_name": entity.topics[0].topic_name, "partitions": (known,)}
    return make(entity_type, cluster_id=entity.cluster_id, topics=(topic,))


def test_older_versions_are_read_without_what_they_lack() -> None:
    """Vote 0 has no directories and no pre-vote, EndQuorumEpoch 0 only ids."""
    read = quorum_codec.request_of(old_version(pre_vote(), 0))
    assert read == replace(
        pre_vote(), voter_id=-1, candidate_directory_id=ZERO_UUID, pre_vote=False
    )
    ended = quorum_codec.request_of(old_version(end(), 0))
    assert isinstance(ended, EndQuorumEpochRequest)
    assert ended.preferred_candidates == (ReplicaKey(1), ReplicaKey(3))


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "response",
    [
        VoteResponse(ErrorCode.NONE, 2, 7, True, leader_endpoint=LEADER),
        BeginQuorumEpochResponse(ErrorCode.FENCED_LEADER_EPOCH, 2, 7, leader_endpoint=LEADER),
        EndQuorumEpochResponse(ErrorCode.NONE, -1, 7),
        EndQuorumEpochResponse(ErrorCode.INCONSISTENT_CLUSTER_ID, -1, 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_responses_survive_entities_of_every_version(
    response: VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse, version: int
) -> None:
    """Version 0 has no endpoints; a wrong cluster is reported at the top, without anything else."""
    entity = quorum_codec.response_to_entity(KEYS[type(response)], response, version)
    expected = response if version else replace(response, leader_endpoint=None)
    assert quorum_codec.response_of(entity) == expected
    is_top_level = response.error_code is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert (entity.topics == ()) is is_top_level


def test_a_fetch_survives_the_wire() -> None:
    """With records, a divergence, and an error at the top."""
    request = fetch(high_watermark=17, last_fetched_epoch=1, fetch_offset=20)
    wire = fetch_codec.fetch_request_to_wire(request)
    assert fetch_codec.fetch_request_of(wire) == request
    answers = [
        fetched(high_watermark=9, log_start_offset=0, records=(b"batch",), records_bytes=5),
        fetched(diverging_epoch=EpochEndOffset(3, 40), leader_endpoint=ENDPOINT),
        fetched(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, leader_id=-1, leader_epoch=0),
    ]
    for answer in answers:
        assert fetch_codec.fetch_response_of(fetch_codec.fetch_response_to_wire(answer)) == answer


def test_a_request_about_anything_else_is_refused() -> None:
    """Another topic, no partition, two partitions."""
    entity = quorum_codec.request_to_entity(pre_vote())
    topic = entity.topics[0]
    for topics in (
        (),
        (topic, topic),
        (replace(topic, partitions=()),),
        (replace(topic, topic_name="orders"),),
    ):
        with pytest.raises(ProtocolError, match="exactly one partition") as refused:
            quorum_codec.request_of(replace(entity, topics=topics))
        assert refused.type is ProtocolError
    wire = fetch_codec.fetch_request_to_wire(fetch())
    strange = wire.partitions[0]._replace(topic_id=TopicId(bytes(15) + b"\x09"))
    for partitions in ([], [strange], [wire.partitions[0]._replace(partition=1)]):
        with pytest.raises(ProtocolError):
            fetch_codec.fetch_request_of(wire._replace(partitions=partitions))
    assert wire.partitions[0].topic_id == METADATA_TOPIC_ID


def test_a_fetch_by_name_is_refused() -> None:
    """Version 12 names the topic instead of its id."""
    wire = fetch_codec.fetch_request_to_wire(fetch())
    frame = joined(wire_fetch.pack_request(12, 1, "old", wire))
    _, offset = parse_header(frame)
    with pytest.raises(ProtocolError):
        fetch_codec.fetch_request_of(wire_fetch.parse_request(12, frame, offset))


# FetchSnapshot: both versions, both ways

SNAPSHOT_REQUEST = FetchSnapshotRequest(
    cluster_id=CLUSTER_ID,
    replica_id=2,
    replica_directory_id=Uuid(b"d" * 16),
    epoch=5,
    snapshot_id=SnapshotId(1234, 4),
    position=77,
    max_bytes=1 << 20,
)
SNAPSHOT_RESPONSE = FetchSnapshotResponse(
    ErrorCode.NONE,
    leader_id=1,
    leader_epoch=5,
    snapshot_id=SnapshotId(1234, 4),
    size_bytes=5000,
    position=77,
    data=b"some bytes, cut anywhere",
    leader_endpoint=Endpoint("", "n1", 9093),
)


def test_a_snapshot_request_comes_back_as_it_went() -> None:
    """Goal: version 1, which is what is sent."""
    frame = codec.encode_request(quorum_codec.request_to_entity(SNAPSHOT_REQUEST), 3, "x")
    header, offset = parse_header(memoryview(frame)[4:])
    assert (header.api_key, header.api_version) == (ApiKey.FETCH_SNAPSHOT, 1)
    entity = codec.decode_request(header, memoryview(frame)[4:], offset)
    assert quorum_codec.request_of(entity) == SNAPSHOT_REQUEST


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "error", [ErrorCode.NONE, ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE]
)
def test_a_snapshot_response_comes_back_as_it_went(version: int, error: ErrorCode) -> None:
    """Goal: both versions; only version 1 has the leader's address."""
    response = replace(SNAPSHOT_RESPONSE, error_code=error)
    entity = quorum_codec.response_to_entity(ApiKey.FETCH_SNAPSHOT, response, version)
    read = quorum_codec.response_of(entity)
    assert replace(read, data=bytes(read.data)) == replace(
        response, leader_endpoint=response.leader_endpoint if version else None
    )


def test_a_wrong_cluster_is_reported_at_the_top() -> None:
    """Goal: as Kafka does; no replica acts upon epoch 0 and no leader."""
    response = replace(SNAPSHOT_RESPONSE, error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    entity = quorum_codec.response_to_entity(ApiKey.FETCH_SNAPSHOT, response, 1)
    assert entity.topics == ()
    assert quorum_codec.response_of(entity) == FetchSnapshotResponse(
        ErrorCode.INCONSISTENT_CLUSTER_ID, -1, 0
    )


# Changes of the voter set: there and back, in every version

VOTER = Voter(4, Uuid(b"d" * 16), (Endpoint("CONTROLLER", "h", 65_535),), (0, 1))


@pytest.mark.parametrize(
    "request_",
    [
        AddVoterRequest("c", VOTER, True, 1234),
        AddVoterRequest(None, VOTER, False, 0),
        RemoveVoterRequest("c", ReplicaKey(4, VOTER.directory_id)),
        UpdateVoterRequest("c", 7, VOTER),
    ],
)
def test_a_voter_change_comes_back_as_it_went(request_: object) -> None:
    entity = quorum_codec.request_to_entity(request_)  # type: ignore[arg-type]
    assert quorum_codec.request_of(entity) == request_


@pytest.mark.parametrize("key", [80, 81, 82])
def test_an_answer_comes_back_as_far_as_its_version_has_it(key: int) -> None:
    sent = VoterChangeResponse(ErrorCode.VOTER_NOT_FOUND, "no", 3, 9, LEADER)
    received = quorum_codec.response_of(quorum_codec.response_to_entity(ApiKey(key), sent, 0))
    assert received.error_code is ErrorCode.VOTER_NOT_FOUND
    if key == ApiKey.UPDATE_RAFT_VOTER:
        assert (received.leader_id, received.leader_epoch) == (3, 9)
    else:
        assert received.message == "no"


def test_support_is_read_from_the_features_of_apiversions() -> None:
    entity = quorum_codec.request_to_entity(SupportRequest(ReplicaKey(4)))
    assert int(entity.__api_key__) == ApiKey.API_VERSIONS
    kind = codec.response_class(18, 4)

    def answer(*features: object) -> object:
        return make(
            kind,
            error_code=error(0),
            api_keys=(),
            throttle_time=millis(0),
            supported_features=features,
            finalized_features=(),
        )

    kraft = {"name": "kraft.version", "min_version": 0, "max_version": 1}
    assert quorum_codec.response_of(answer(kraft)).kraft_versions == (0, 1)
    assert quorum_codec.response_of(answer()).kraft_versions is None
