"""Committing a stream's progress to a consumer group, so that lag tools see it.

Spark's own checkpoint decides where a query goes on; the commit only informs other tools. So one
that fails later is a warning, never a failed query. But a cluster without consumer groups is an
error at once, because then the option could have no effect. The commit is that of a consumer
without a membership (generation -1), which brokers accept for a group without members.
Source: the Kafka protocol guide, OffsetCommit.
"""

import time
from typing import Any, Final

from tidelog.client.blocking import now_ms
from tidelog.client.core.calls import Call, request
from tidelog.client.core.errors import RETRIABLE_COMMIT, Retry, TryAgain, Unreachable
from tidelog.client.core.partitions import by_topic
from tidelog.client.core.values import Address
from tidelog.errors import ErrorCode, UsageError
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.errors import LOG
from tidelog.pipeline.values import Offsets
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.values import error_of

_PATIENCE_S: Final = 1.0
_BACKOFF_S: Final = 0.1
_GROUP_KEY: Final = 0
_NO_GENERATION: Final = -1


def check_groups_are_served(client: Client, group: str) -> None:
    """Raises `UsageError` when the brokers have no consumer groups, `ClusterUnavailable`."""
    has_groups = client.patiently(
        "broker", lambda: client.brokers.first_use(lambda it: it.serves(ApiKey.OFFSET_COMMIT))
    )
    if not has_groups:
        raise UsageError(
            f"`kafka.group.id` is `{group}`, but the brokers have no consumer groups",
            "leave it out; progress reports of the query show its lag",
        )


def commit_progress(client: Client, group: str, offsets: Offsets) -> bool:
    """Commits the next offsets of a stream; returns whether that succeeded. Waits a second for a
    coordinator that is just starting, as for the first commit of a cluster."""
    retry = Retry(now_ms(), _PATIENCE_S)
    while True:
        try:
            refused = _commit(client, group, offsets)
            break
        except (TryAgain, Unreachable) as error:
            refused = str(error)
            if not isinstance(error, TryAgain) or retry.is_over(now_ms()):
                # The next request must not get a late response to this one.
                client.close()
                break
        time.sleep(_BACKOFF_S)
    if refused:
        LOG.warning("progress was not committed to group `%s`: %s", group, refused)
    return not refused


def _commit(client: Client, group: str, offsets: Offsets) -> str:
    """The partitions that were refused, as text; empty when none was. Raises `TryAgain`,
    `Unreachable`."""
    coordinator = _coordinator(client.brokers.first(find_request(group)))
    answer = client.brokers.connection(coordinator).call(commit_request(group, offsets))
    codes = {
        f"`{topic.name}-{partition.partition_index}`": error_of(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }
    passing = sorted({code.name for code in codes.values() if code in RETRIABLE_COMMIT})
    if passing:
        raise TryAgain(", ".join(passing))
    return ", ".join(
        f"{place}: {code.name}" for place, code in codes.items() if code is not ErrorCode.NONE
    )


def find_request(group: str) -> Call[Any]:
    return request(
        ApiKey.FIND_COORDINATOR, key=group, key_type=_GROUP_KEY, coordinator_keys=[group]
    )


def commit_request(group: str, offsets: Offsets) -> Call[Any]:
    """A commit by a client that is not a member: the group must have no members."""
    rows = {
        tp: {"committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
        for tp, offset in sorted(offsets.items())
    }
    return request(
        ApiKey.OFFSET_COMMIT,
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        group_instance_id=None,
        topics=by_topic(rows),
    )


def _coordinator(answer: Any) -> Address:
    found: Any = (field(answer, "coordinators", None) or (answer,))[0]
    code = error_of(found.error_code)
    if code is not ErrorCode.NONE:
        raise TryAgain(f"no coordinator: {code.name}")
    return Address(found.host, int(found.port))
