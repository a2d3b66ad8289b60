"""Random Fetch and Produce values, what each version keeps of them, and the same as kio entities.

The entities are the other opinion about the bytes: they are written from kio's schemas by the
schema codec, which has its own tests, and know nothing of the hand-packed codecs.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.model import NO_OFFSET, ZERO_TOPIC_ID, Endpoint, EpochEndOffset, TopicId
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import request_class, response_class
from tidelog.wire.entities import make
from tidelog.wire.fetch import (
    FETCH_ANY_HIGH_WATERMARK,
    AbortedTransaction,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ForgottenPartition,
    LeaderHint,
)
from tidelog.wire.produce import (
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    RecordError,
)
from tidelog.wire.topics import NodeEndpoints
from tidelog.wire.values import timestamp

Topic = tuple[str, TopicId]

CODES = (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR)


def random_topics(prng: Prng) -> list[Topic]:
    """Up to three topics, some with ids that look alike, one with a long name."""
    names = ["a", "orders", "x" * 200]
    return [(name, TopicId(prng.uuid())) for name in names[: prng.below(4)]]


def identity(version: int, topic: Topic) -> Topic:
    """What a version keeps of a topic's identity: the name, or from 13 on the id."""
    return ("", topic[1]) if version >= 13 else (topic[0], ZERO_TOPIC_ID)


def blob(prng: Prng) -> bytes:
    """Some bytes; sizes around the lengths that take one and two bytes."""
    size = prng.choice((0, 1, 60, 125, 126, 127, 128, 300))
    return bytes([prng.below(256)]) * size


def i32(prng: Prng) -> int:
    return prng.choice((-1, 0, 2**31 - 1, prng.between(0, 2**31 - 1)))


def i64(prng: Prng) -> int:
    return prng.choice((-1, 0, 2**63 - 1, prng.between(0, 2**63 - 1)))


# Fetch -------------------------------------------------------------------------------------


def random_fetch_request(prng: Prng) -> FetchRequest:
    """A request with everything that the newest version can say."""
    topics = random_topics(prng)
    partitions = [
        FetchPartition(
            *topic, i32(prng), i32(prng), i64(prng), i32(prng), i64(prng), i32(prng), i64(prng)
        )
        for topic in topics
        for _ in range(prng.between(1, 3))
    ]
    forgotten = [
        ForgottenPartition(*topic, i32(prng)) for topic in topics for _ in range(prng.between(1, 2))
    ]
    return FetchRequest(
        replica_id=i32(prng),
        replica_epoch=i64(prng),
        max_wait_ms=i32(prng),
        min_bytes=i32(prng),
        max_bytes=i32(prng),
        isolation_level=prng.below(2),
        session_id=i32(prng),
        session_epoch=i32(prng),
        partitions=partitions,
        forgotten=forgotten if prng.chance(1, 2) else [],
        rack_id=prng.choice(("", "rack-1")),
        cluster_id=prng.choice((None, "", "MkU3OEVBNTcwNTJENDM2Qk")),
        replica_directory_id=prng.choice((bytes(16), prng.uuid())),
    )


def fetch_request_at(version: int, request: FetchRequest) -> FetchRequest:
    """What the version keeps of a request."""
    has_directory = version >= 17 and request.partitions
    return request._replace(
        replica_epoch=request.replica_epoch if version >= 15 else -1,
        session_id=request.session_id if version >= 7 else 0,
        session_epoch=request.session_epoch if version >= 7 else -1,
        partitions=[
            each._replace(
                topic=identity(version, each[:2])[0],
                topic_id=identity(version, each[:2])[1],
                current_leader_epoch=each.current_leader_epoch if version >= 9 else -1,
                last_fetched_epoch=each.last_fetched_epoch if version >= 12 else -1,
                log_start_offset=each.log_start_offset if version >= 5 else -1,
                high_watermark=(each.high_watermark if version >= 18 else FETCH_ANY_HIGH_WATERMARK),
            )
            for each in request.partitions
        ],
        forgotten=[
            ForgottenPartition(*identity(version, each[:2]), each.partition)
            for each in request.forgotten
            if version >= 7
        ],
        rack_id=request.rack_id if version >= 11 else "",
        cluster_id=request.cluster_id if version >= 12 else None,
        replica_directory_id=request.replica_directory_id if has_directory else bytes(16),
    )


def fetch_request_entity(version: int, request: FetchRequest) -> Any:
    """The same request as an entity."""

    def row(each: FetchPartition) -> dict[str, Any]:
        names = {"max_bytes": "partition_max_bytes"}
        values = {names.get(name, name): value for name, value in each._asdict().items()}
        return {**values, "replica_directory_id": request.replica_directory_id}

    state = {"replica_id": request.replica_id, "replica_epoch": request.replica_epoch}
    return make(
        request_class(ApiKey.FETCH, version),
        **state if version < 15 else {"replica_state": state},
        max_wait=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=request.isolation_level,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        topics=_by_topic(request.partitions, "topic", "partitions", row),
        forgotten_topics_data=_by_topic(
            request.forgotten, "topic", "partitions", lambda each: each.partition
        ),
        rack_id=request.rack_id,
        cluster_id=request.cluster_id,
    )


def _by_topic(
    partitions: Sequence[Any], name: str, array: str, row_of: Callable[[Any], Any]
) -> list[dict[str, Any]]:
    """The topics of a message: neighbours of one topic together, under the names that it has."""
    return [
        {name: topic, "topic_id": topic_id, array: [row_of(each) for each in group]}
        for (topic, topic_id), group in groupby(partitions, lambda each: each[:2])
    ]


def random_fetch_response(prng: Prng) -> FetchResponse:
    """A response with everything that the newest version can say."""
    partitions = [
        _random_fetched(prng, topic)
        for topic in random_topics(prng)
        for _ in range(prng.between(1, 3))
    ]
    return FetchResponse(
        i32(prng), prng.choice(CODES), i32(prng), partitions, random_endpoints(prng)
    )


def _random_fetched(prng: Prng, topic: Topic) -> FetchedPartition:
    records = [chunk for chunk in (blob(prng), blob(prng)) if chunk and prng.chance(2, 3)]
    aborted = [AbortedTransaction(i64(prng), i64(prng)) for _ in range(prng.below(3))]
    return FetchedPartition(
        *topic,
        i32(prng),
        prng.choice(CODES),
        i64(prng),
        i64(prng),
        i64(prng),
        records,
        sum(map(len, records)),
        EpochEndOffset(prng.between(0, 9), i64(prng)) if prng.chance(1, 3) else None,
        LeaderHint(i32(prng), prng.between(0, 9)) if prng.chance(1, 3) else None,
        EpochEndOffset(prng.between(0, 9), i64(prng)) if prng.chance(1, 3) else None,
        aborted if prng.chance(2, 3) else None,
        i32(prng),
    )


def random_endpoints(prng: Prng) -> NodeEndpoints:
    """Where two nodes are, or nothing."""
    if prng.chance(1, 2):
        return []
    return [(1, Endpoint("", "host-1", 9092), None), (2, Endpoint("", "h" * 150, 65_535), "rack")]


def fetch_response_at(version: int, response: FetchResponse) -> FetchResponse:
    """What the version keeps of a response; the records of a partition in one chunk."""
    flexible = version >= 12
    return FetchResponse(
        response.throttle_ms,
        response.error_code if version >= 7 else ErrorCode.NONE,
        response.session_id if version >= 7 else 0,
        [
            each._replace(
                topic=identity(version, each[:2])[0],
                topic_id=identity(version, each[:2])[1],
                log_start_offset=each.log_start_offset if version >= 5 else NO_OFFSET,
                records=[b"".join(each.records)] if each.records else [],
                diverging_epoch=each.diverging_epoch if flexible else None,
                current_leader=each.current_leader if flexible else None,
                snapshot_id=each.snapshot_id if flexible else None,
                preferred_read_replica=each.preferred_read_replica if version >= 11 else -1,
            )
            for each in response.partitions
        ],
        response.node_endpoints if version >= 16 else [],
    )


def fetch_response_entity(version: int, response: FetchResponse) -> Any:
    """The same response as an entity."""
    return make(
        response_class(ApiKey.FETCH, version),
        throttle_time=response.throttle_ms,
        error_code=response.error_code,
        session_id=response.session_id,
        responses=_by_topic(response.partitions, "topic", "partitions", _fetched_row),
        node_endpoints=_endpoint_rows(response.node_endpoints),
    )


def _fetched_row(answer: FetchedPartition) -> dict[str, Any]:
    ends = {"diverging_epoch": answer.diverging_epoch, "snapshot_id": answer.snapshot_id}
    tags: dict[str, Any] = {
        name: {"epoch": end[0], "end_offset": end[1]}
        for name, end in ends.items()
        if end is not None
    }
    if answer.current_leader is not None:
        tags["current_leader"] = answer.current_leader._asdict()
    return {
        "partition_index": answer.partition,
        "error_code": answer.error_code,
        "high_watermark": answer.high_watermark,
        "last_stable_offset": answer.last_stable_offset,
        "log_start_offset": answer.log_start_offset,
        "aborted_transactions": (
            None if answer.aborted is None else [each._asdict() for each in answer.aborted]
        ),
        "preferred_read_replica": answer.preferred_read_replica,
        "records": b"".join(answer.records),
        **tags,
    }


def _endpoint_rows(endpoints: NodeEndpoints) -> list[dict[str, Any]]:
    return [
        {"node_id": node_id, "host": endpoint.host, "port": endpoint.port, "rack": rack}
        for node_id, endpoint, rack in endpoints
    ]


# Produce -----------------------------------------------------------------------------------


def random_produce_request(prng: Prng) -> ProduceRequest:
    """A request with everything that the newest version can say."""
    return ProduceRequest(
        prng.choice((None, "", "txn-1")),
        prng.choice((-1, 0, 1)),
        i32(prng),
        [
            ProducePartition(
                *topic, i32(prng), None if prng.chance(1, 5) else memoryview(blob(prng))
            )
            for topic in random_topics(prng)
            for _ in range(prng.between(1, 3))
        ],
    )


def produce_request_at(version: int, request: ProduceRequest) -> ProduceRequest:
    """What the version keeps of a request."""
    return request._replace(
        partitions=[
            ProducePartition(*identity(version, each[:2]), each.partition, each.records)
            for each in request.partitions
        ]
    )


def produce_request_entity(version: int, request: ProduceRequest) -> Any:
    """The same request as an entity."""

    def row(each: ProducePartition) -> dict[str, Any]:
        records = None if each.records is None else bytes(each.records)
        return {"index": each.partition, "records": records}

    return make(
        request_class(ApiKey.PRODUCE, version),
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout=request.timeout_ms,
        topic_data=_by_topic(request.partitions, "name", "partition_data", row),
    )


def random_produce_response(prng: Prng) -> ProduceResponse:
    """A response with everything that the newest version can say."""
    partitions = [
        ProducedPartition(
            *topic,
            i32(prng),
            prng.choice(CODES),
            i64(prng),
            prng.choice((-1, 1_795_243_863_149)),
            i64(prng),
            tuple(
                RecordError(i32(prng), prng.choice((None, "bad record")))
                for _ in range(prng.below(3))
            ),
            prng.choice((None, "bad batch")),
            LeaderHint(i32(prng), prng.between(0, 9)) if prng.chance(1, 3) else None,
        )
        for topic in random_topics(prng)
        for _ in range(prng.between(1, 3))
    ]
    return ProduceResponse(partitions, i32(prng), random_endpoints(prng))


def produce_response_at(version: int, response: ProduceResponse) -> ProduceResponse:
    """What the version keeps of a response."""
    return ProduceResponse(
        [
            each._replace(
                topic=identity(version, each[:2])[0],
                topic_id=identity(version, each[:2])[1],
                log_start_offset=each.log_start_offset if version >= 5 else NO_OFFSET,
                record_errors=each.record_errors if version >= 8 else (),
                error_message=each.error_message if version >= 8 else None,
                current_leader=each.current_leader if version >= 10 else None,
            )
            for each in response.partitions
        ],
        response.throttle_ms,
        response.node_endpoints if version >= 10 else [],
    )


def produce_response_entity(version: int, response: ProduceResponse) -> Any:
    """The same response as an entity."""
    return make(
        response_class(ApiKey.PRODUCE, version),
        responses=_by_topic(response.partitions, "name", "partition_responses", _produced_row),
        throttle_time=response.throttle_ms,
        node_endpoints=_endpoint_rows(response.node_endpoints),
    )


def _produced_row(answer: ProducedPartition) -> dict[str, Any]:
    leader, append_time_ms = answer.current_leader, answer.log_append_time_ms
    return {
        "index": answer.partition,
        "error_code": answer.error_code,
        "base_offset": answer.base_offset,
        "log_append_time": None if append_time_ms == -1 else timestamp(append_time_ms),
        "log_start_offset": answer.log_start_offset,
        "record_errors": [
            {"batch_index": each.batch_index, "batch_index_error_message": each.message}
            for each in answer.record_errors
        ],
        "error_message": answer.error_message,
        **({} if leader is None else {"current_leader": leader._asdict()}),
    }
