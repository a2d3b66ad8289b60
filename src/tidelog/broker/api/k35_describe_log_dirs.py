"""DescribeLogDirs (35), versions 1-5: what the log directory holds, and how full its volume is.

A node has one log directory, so the answer has one result. `offset_lag` is how far a log's end is
behind its high watermark: always 0, because no log is moving to another directory
(`is_future_key`). Tools that move partitions send this request before they begin.

Left out: offline directories; a node whose directory fails ends.
"""

from itertools import groupby
from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasDisk, HasReplicas
from tidelog.broker.connections import RequestContext
from tidelog.broker.long_answers import Pieces
from tidelog.env.disk import UNKNOWN_SPACE, DiskSpace
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, StorageError
from tidelog.limits import PARTITION_ANSWER_WORK
from tidelog.model import TopicPartition
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import ArrayWriter, Entity, nested


class Node(HasDisk, HasReplicas, Protocol):
    """What DescribeLogDirs needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> Pieces:
    """Answers from the replicas that are hosted here, one after the other."""
    result_type = nested(context.response_type, "results")
    topics = ArrayWriter(result_type, "topics")
    for name, keys in groupby(_wanted(node, request), lambda key: key.topic):
        partitions = ArrayWriter(nested(result_type, "topics"), "partitions")
        for key in keys:
            # One that has gone meanwhile is left out.
            partition = node.replicas.partitions.get(key)
            if partition is not None:
                log = partition.log
                partitions.add(
                    partition_index=key.partition,
                    partition_size=log.size_bytes,
                    offset_lag=max(0, log.high_watermark - log.log_end_offset),
                    is_future_key=False,
                )
            yield PARTITION_ANSWER_WORK
        topics.add(name=name, partitions=partitions.array())
    space = _space(node)
    result = {
        "error_code": ErrorCode.NONE,
        "log_dir": node.disk.root,
        "topics": topics.array(),
        "total_bytes": space.total_bytes,
        "usable_bytes": space.usable_bytes,
        "is_cordoned": False,
    }
    context.answer(reply(context.response_type, results=[result]))


def _wanted(node: Node, request: Entity) -> list[TopicPartition]:
    """The hosted partitions that were asked for, by topic and number; all for a null list."""
    hosted = node.replicas.partitions
    if request.topics is None:
        return sorted(hosted)
    asked = {
        TopicPartition(topic.topic, number)
        for topic in request.topics
        for number in topic.partitions
    }
    return sorted(key for key in asked if key in hosted)


def _space(node: Node) -> DiskSpace:
    try:
        return node.disk.space()
    except StorageError:
        return UNKNOWN_SPACE


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_LOG_DIRS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 5),
    requires=(on(Operation.DESCRIBE, ResourceType.CLUSTER),),
    handle=handle,
)
