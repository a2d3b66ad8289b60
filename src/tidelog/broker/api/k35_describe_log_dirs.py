"""DescribeLogDirs (35), versions 1-5: what each log directory holds, and how full its volume is.

A directory that is offline has KAFKA_STORAGE_ERROR and nothing else. A log that is moving to
another directory is listed in both: where it is, and with `is_future_key` and the size of the copy
where it goes. `offset_lag` is how far a log's end is behind its high watermark, and the end of a
copy behind that of its log. Tools that move partitions send this request before and after.
"""

from itertools import groupby
from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasDirectories, HasReplicas
from tidelog.broker.connections import RequestContext
from tidelog.broker.long_answers import Pieces
from tidelog.env.disk import UNKNOWN_SPACE, Disk, DiskSpace
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, StorageError
from tidelog.limits import PARTITION_ANSWER_WORK
from tidelog.log.directory import LogDirectory
from tidelog.log.log import Log
from tidelog.model import TopicPartition
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import ArrayWriter, Entity, nested


class Node(HasDirectories, HasReplicas, Protocol):
    """What DescribeLogDirs needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> Pieces:
    """Answers from the replicas that are hosted here, one after the other."""
    result_type = nested(context.response_type, "results")
    results = []
    for directory in list(node.directories.hosting):
        topics = ArrayWriter(result_type, "topics")
        for name, keys in groupby(_wanted(node, directory, request), lambda key: key.topic):
            partitions = ArrayWriter(nested(result_type, "topics"), "partitions")
            for key in keys:
                # One that has gone meanwhile is left out.
                partition, log = node.replicas.partitions.get(key), directory.logs.get(key)
                future = directory.futures.logs.get(key)
                if partition is not None and log is not None:
                    _add(partitions, log, log.high_watermark)
                if partition is not None and future is not None:
                    _add(partitions, future.log, partition.log.log_end_offset)
                yield PARTITION_ANSWER_WORK
            topics.add(name=name, partitions=partitions.array())
        results.append(_result(directory.disk.root, _space(directory.disk), topics.array()))
    for offline in node.directories.offline.values():
        nothing = ArrayWriter(result_type, "topics").array()
        code = ErrorCode.KAFKA_STORAGE_ERROR
        results.append(_result(offline.root, UNKNOWN_SPACE, nothing, code))
    context.answer(reply(context.response_type, results=results))


def _add(partitions: ArrayWriter, log: Log, end: int) -> None:
    partitions.add(
        partition_index=log.topic_partition.partition,
        partition_size=log.size_bytes,
        offset_lag=max(0, end - log.log_end_offset),
        is_future_key=log.ledger.is_future,
    )


def _result(
    root: str, space: DiskSpace, topics: object, code: ErrorCode = ErrorCode.NONE
) -> dict[str, object]:
    return {
        "error_code": code,
        "log_dir": root,
        "topics": topics,
        "total_bytes": space.total_bytes,
        "usable_bytes": space.usable_bytes,
        "is_cordoned": False,
    }


def _wanted(node: Node, directory: LogDirectory, request: Entity) -> list[TopicPartition]:
    """The hosted partitions in a directory that were asked for, by topic and number; all for a null
    list."""
    here = (directory.logs.keys() | directory.futures.logs.keys()) & node.replicas.partitions.keys()
    if request.topics is None:
        return sorted(here)
    asked = {
        TopicPartition(topic.topic, number)
        for topic in request.topics
        for number in topic.partitions
    }
    return sorted(asked & here)


def _space(disk: Disk) -> DiskSpace:
    try:
        return disk.space()
    except StorageError:
        return UNKNOWN_SPACE


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_LOG_DIRS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 5),
    requires=(cluster(Operation.DESCRIBE),),
    handle=handle,
)
