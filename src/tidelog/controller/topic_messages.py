"""What clients ask of the controller about topics, and what it answers; see `messages.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.model import ZERO_TOPIC_ID, TopicId


class NewTopic(NamedTuple):
    """A topic to create. Counts of -1 ask for the cluster's defaults, or come with
    `assignments`: (partition, replicas) pairs, the preferred leader first."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopics(NamedTuple):
    """API 19. `validate_only` decides everything and writes nothing."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False


class TopicRef(NamedTuple):
    """A topic by name or by id: exactly one of the two is given."""

    name: str | None
    topic_id: TopicId = ZERO_TOPIC_ID


class DeleteTopics(NamedTuple):
    """API 20."""

    topics: tuple[TopicRef, ...]


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """The new total count of a topic; `assignments` places the added ones, in order."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class CreatePartitions(NamedTuple):
    """API 37."""

    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class NewTopicResult:
    """What became of one `NewTopic`."""

    name: str
    error_code: ErrorCode
    message: str | None = None
    topic_id: TopicId = ZERO_TOPIC_ID
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    """The topic's own configs only; defaults are the handler's to add."""


class CreateTopicsResult(NamedTuple):
    """In the order of the request, each name once."""

    topics: tuple[NewTopicResult, ...]


class DeletedTopic(NamedTuple):
    """What became of one `TopicRef`; both name and id are filled in when the topic was known."""

    name: str | None
    topic_id: TopicId
    error_code: ErrorCode
    message: str | None = None


class DeleteTopicsResult(NamedTuple):
    """In the order of the request."""

    topics: tuple[DeletedTopic, ...]


class MorePartitionsResult(NamedTuple):
    """What became of one `MorePartitions`."""

    name: str
    error_code: ErrorCode
    message: str | None = None


class CreatePartitionsResult(NamedTuple):
    """In the order of the request."""

    topics: tuple[MorePartitionsResult, ...]
