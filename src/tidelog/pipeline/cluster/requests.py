"""What the pipeline asks brokers, as entities of the version that a connection speaks.

Pure: a builder takes the version and values and returns the entity to send. Fetch, which is hot,
is packed by hand in `wire.fetch` instead.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tidelog.model import TopicPartition
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import request_class
from tidelog.wire.entities import has_field, make, nested
from tidelog.wire.fetch import READ_COMMITTED, READ_UNCOMMITTED

_TOPIC_RESOURCE: Final = 2
_GROUP_KEY: Final = 0
_NO_GENERATION: Final = -1


def metadata_request(version: int, topics: Sequence[str] | None) -> Any:
    """Who leads these topics; `None` for all topics. Never creates a topic."""
    request_type = request_class(ApiKey.METADATA, version)
    topic_type = nested(request_type, "topics")
    return make(
        request_type,
        topics=None
        if topics is None
        else tuple(make(topic_type, name=name, topic_id=None) for name in topics),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def cleanup_policy_request(version: int, topics: Sequence[str]) -> Any:
    """The `cleanup.policy` of topics."""
    request_type = request_class(ApiKey.DESCRIBE_CONFIGS, version)
    resource_type = nested(request_type, "resources")
    resources = tuple(
        make(
            resource_type,
            resource_type=_TOPIC_RESOURCE,
            resource_name=topic,
            configuration_keys=("cleanup.policy",),
        )
        for topic in topics
    )
    return make(
        request_type, resources=resources, include_synonyms=False, include_documentation=False
    )


def list_offsets_request(
    version: int, wanted: Mapping[TopicPartition, tuple[int, int]], *, read_committed: bool
) -> Any:
    """Offsets of (timestamp, leader epoch) for each partition."""
    request_type = request_class(ApiKey.LIST_OFFSETS, version)
    asked = {
        tp: {"timestamp": timestamp, "current_leader_epoch": epoch}
        for tp, (timestamp, epoch) in wanted.items()
    }
    return make(
        request_type,
        replica_id=-1,
        isolation_level=READ_COMMITTED if read_committed else READ_UNCOMMITTED,
        topics=_by_topic(request_type, asked),
    )


def find_group_request(version: int, group: str) -> Any:
    """Which broker coordinates a consumer group."""
    request_type = request_class(ApiKey.FIND_COORDINATOR, version)
    if has_field(request_type, "coordinator_keys"):
        return make(request_type, key_type=_GROUP_KEY, coordinator_keys=(group,))
    return make(request_type, key=group, key_type=_GROUP_KEY)


def offset_commit_request(version: int, group: str, offsets: Mapping[TopicPartition, int]) -> Any:
    """A commit by somebody who is no member: the group must have no members."""
    request_type = request_class(ApiKey.OFFSET_COMMIT, version)
    committed = {
        tp: {"committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
        for tp, offset in sorted(offsets.items())
    }
    return make(
        request_type,
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        group_instance_id=None,
        topics=_by_topic(request_type, committed),
    )


def _by_topic(
    request_type: Any, partitions: Mapping[TopicPartition, Mapping[str, object]]
) -> tuple[Any, ...]:
    """The `topics` of a request that names partitions, each with these fields beside its index."""
    topic_type = nested(request_type, "topics")
    partition_type = nested(topic_type, "partitions")
    of_topic: dict[str, list[Any]] = {}
    for tp, fields in partitions.items():
        of_topic.setdefault(tp.topic, []).append(
            make(partition_type, partition_index=tp.partition, **fields)
        )
    return tuple(
        make(topic_type, name=name, partitions=tuple(items)) for name, items in of_topic.items()
    )
