"""The Spark source's options by name: the official Kafka connector's, and a few of our own."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from tidelog.errors import UsageError


class Option(StrEnum):
    """Every option of the source."""

    BOOTSTRAP_SERVERS = "kafka.bootstrap.servers"
    SUBSCRIBE = "subscribe"
    SUBSCRIBE_PATTERN = "subscribePattern"
    ASSIGN = "assign"
    STARTING_OFFSETS = "startingOffsets"
    STARTING_TIMESTAMP = "startingTimestamp"
    STARTING_BY_TIMESTAMP = "startingOffsetsByTimestamp"
    STARTING_STRATEGY = "startingOffsetsByTimestampStrategy"
    ENDING_OFFSETS = "endingOffsets"
    ENDING_TIMESTAMP = "endingTimestamp"
    ENDING_BY_TIMESTAMP = "endingOffsetsByTimestamp"
    FAIL_ON_DATA_LOSS = "failOnDataLoss"
    ISOLATION_LEVEL = "isolation.level"
    CLIENT_RACK = "client.rack"
    COLUMNS = "columns"
    INCLUDE_HEADERS = "includeHeaders"
    MIN_PARTITIONS = "minPartitions"
    MAX_RECORDS_PER_PARTITION = "maxRecordsPerPartition"
    MAX_OFFSETS_PER_TRIGGER = "maxOffsetsPerTrigger"
    MIN_OFFSETS_PER_TRIGGER = "minOffsetsPerTrigger"
    MAX_TRIGGER_DELAY = "maxTriggerDelay"
    GROUP_ID = "kafka.group.id"


ISOLATION_NAMES: Final = frozenset((str(Option.ISOLATION_LEVEL), f"kafka.{Option.ISOLATION_LEVEL}"))
"""The two names of that option."""


def one_of(given: Mapping[str, str], name: str, words: tuple[str, str], default: str) -> str:
    """The word given, without regard to case. Raises `UsageError` for any other than the two."""
    text = given.get(name, default)
    if text.lower() not in words:
        raise UsageError(f"`{name}` is `{text}`", f"give `{words[0]}` or `{words[1]}`")
    return text.lower()
