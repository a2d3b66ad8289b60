"""Telling a consumer group how far a stream is, so that lag tools see it.

Spark's own checkpoint decides where a query goes on; what is committed here is for others to look
at. So a commit that fails later is a warning, never a failed query; but a cluster that has no
groups at all is told at once, because nobody would ever see what the option promised.

The commit is that of a consumer without a membership (generation -1), which brokers accept for a
group without members. Source: the Kafka protocol guide, OffsetCommit.
"""

import logging
import time
from typing import Any, Final

from tidelog.errors import ErrorCode, MalformedFrame, UsageError
from tidelog.pipeline.cluster.client import Client, TryAgain
from tidelog.pipeline.cluster.connection import BrokerConnection
from tidelog.pipeline.cluster.requests import find_group_request, offset_commit_request
from tidelog.pipeline.errors import ClusterUnavailable
from tidelog.pipeline.values import Address, Offsets
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.values import error_of

_PATIENCE_S: Final = 1.0
_BACKOFF_S: Final = 0.1
_PASSING: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

_LOG: Final = logging.getLogger("tidelog.pipeline")


def check_groups_are_served(client: Client, group: str) -> None:
    """Raises `UsageError` when the brokers have no consumer groups, `ClusterUnavailable`."""
    connection = client.patiently("broker", client.any_connection)
    if not connection.serves(ApiKey.OFFSET_COMMIT):
        raise UsageError(
            f"`kafka.group.id` is `{group}`, but the brokers have no consumer groups",
            "leave it out; progress reports of the query tell its lag",
        )


def commit_progress(client: Client, group: str, offsets: Offsets) -> bool:
    """Commits the next offsets of a stream; whether the group has them now. A coordinator that is
    just coming up, as for the very first commit of a cluster, is waited for a little."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            refused = _commit(client, group, offsets)
            break
        except (TryAgain, ClusterUnavailable, MalformedFrame) as error:
            refused = str(error)
            if not isinstance(error, TryAgain) or time.monotonic() > deadline:
                # Whatever was under way on the connections is of no use to the next question.
                client.close()
                break
        time.sleep(_BACKOFF_S)
    if refused:
        _LOG.warning("progress was not committed to group `%s`: %s", group, refused)
    return not refused


def _commit(client: Client, group: str, offsets: Offsets) -> str:
    """What was refused; empty when nothing was. Raises `TryAgain`, `ClusterUnavailable`."""
    coordinator = _coordinator(client.any_connection(), group)
    connection = client.connect(coordinator)
    version = connection.version_of(ApiKey.OFFSET_COMMIT)
    answer = connection.ask(offset_commit_request(version, group, offsets))
    codes = {
        f"`{topic.name}-{partition.partition_index}`": error_of(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }
    passing = sorted({code.name for code in codes.values() if code in _PASSING})
    if passing:
        raise TryAgain(", ".join(passing))
    return ", ".join(
        f"{place}: {code.name}" for place, code in codes.items() if code is not ErrorCode.NONE
    )


def _coordinator(connection: BrokerConnection, group: str) -> Address:
    version = connection.version_of(ApiKey.FIND_COORDINATOR)
    answer = connection.ask(find_group_request(version, group))
    found: Any = (field(answer, "coordinators", None) or (answer,))[0]
    code = error_of(found.error_code)
    if code is not ErrorCode.NONE:
        raise TryAgain(f"no coordinator: {code.name}")
    return Address(found.host, int(found.port))
