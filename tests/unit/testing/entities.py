"""Response entities for the scripted node."""

from collections.abc import Sequence
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.model import Uuid
from tidelog.testing.asking import VERSIONS
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make, nested
from tidelog.wire.values import error, millis, uuid_of

TOPIC_ID = Uuid(bytes(range(16)))


def response_type(key: ApiKey) -> Any:
    """The class of the version that the client uses."""
    return codec.response_class(key, VERSIONS[key])


def cluster(*nodes: tuple[int, str, int, bool], code: ErrorCode = ErrorCode.NONE) -> Any:
    """A DescribeCluster response with (id, host, port, fenced)."""
    kind = response_type(ApiKey.DESCRIBE_CLUSTER)
    broker = nested(kind, "brokers")
    return make(
        kind,
        throttle_time=millis(0),
        error_code=error(code),
        error_message=None,
        endpoint_type=1,
        cluster_id="c",
        controller_id=1,
        brokers=tuple(
            make(broker, broker_id=i, host=host, port=port, rack=None, is_fenced=fenced)
            for i, host, port, fenced in nodes
        ),
        cluster_authorized_operations=-(2**31),
    )


def topic_page(
    name: str, partitions: Sequence[int], *, more: int | None = None, code: int = 0
) -> Any:
    """A DescribeTopicPartitions response with one topic; `more` is the next page's partition."""
    kind = response_type(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    topic = nested(kind, "topics")
    row = nested(topic, "partitions")
    cursor = nested(kind, "next_cursor")
    return make(
        kind,
        throttle_time=millis(0),
        topics=(
            make(
                topic,
                error_code=error(code),
                name=name,
                topic_id=uuid_of(TOPIC_ID),
                is_internal=False,
                partitions=tuple(
                    make(
                        row,
                        error_code=error(0),
                        partition_index=index,
                        leader_id=1,
                        leader_epoch=4,
                        replica_nodes=(1, 2),
                        isr_nodes=(1,),
                        eligible_leader_replicas=(2,),
                        last_known_elr=None,
                        offline_replicas=(2,),
                    )
                    for index in partitions
                ),
                topic_authorized_operations=-(2**31),
            ),
        ),
        next_cursor=(None if more is None else make(cursor, topic_name=name, partition_index=more)),
    )


def moving(name: str, number: int, *, adding: Sequence[int], removing: Sequence[int]) -> Any:
    """A ListPartitionReassignments response with one partition."""
    kind = response_type(ApiKey.LIST_PARTITION_REASSIGNMENTS)
    topic = nested(kind, "topics")
    row = make(
        nested(topic, "partitions"),
        partition_index=number,
        replicas=(*adding, *removing),
        adding_replicas=tuple(adding),
        removing_replicas=tuple(removing),
    )
    return make(
        kind,
        throttle_time=millis(0),
        error_code=error(0),
        error_message=None,
        topics=(make(topic, name=name, partitions=(row,)),),
    )


def created(name: str, code: ErrorCode, message: str | None = None) -> Any:
    """A CreateTopics response for one topic."""
    kind = response_type(ApiKey.CREATE_TOPICS)
    return make(
        kind,
        throttle_time=millis(0),
        topics=(
            make(
                nested(kind, "topics"),
                name=name,
                topic_id=None,
                error_code=error(code),
                error_message=message,
                topic_config_error_code=0,
                num_partitions=1,
                replication_factor=1,
                configs=None,
            ),
        ),
    )


def offsets(name: str, found: dict[int, tuple[ErrorCode, int]]) -> Any:
    """A ListOffsets response with (error, offset) by partition."""
    kind = response_type(ApiKey.LIST_OFFSETS)
    topic = nested(kind, "topics")
    row = nested(topic, "partitions")
    rows = tuple(
        make(
            row,
            partition_index=index,
            error_code=error(code),
            timestamp=-1,
            offset=offset,
            leader_epoch=-1,
        )
        for index, (code, offset) in found.items()
    )
    topics = (make(topic, name=name, partitions=rows),)
    return make(kind, throttle_time=millis(0), topics=topics)


def deleted_records(name: str, partition: int, code: ErrorCode, low_watermark: int) -> Any:
    """A DeleteRecords response for one partition."""
    kind = response_type(ApiKey.DELETE_RECORDS)
    topic_type = nested(kind, "topics")
    row = make(
        nested(topic_type, "partitions"),
        partition_index=partition,
        low_watermark=low_watermark,
        error_code=error(code),
    )
    topics = (make(topic_type, name=name, partitions=(row,)),)
    return make(kind, throttle_time=millis(0), topics=topics)
