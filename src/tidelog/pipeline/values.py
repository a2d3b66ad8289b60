"""What to read and where: the small values that travel between driver and tasks.

Spark imports the source anew in several short-lived processes, so heavy imports are kept out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.client.core.values import Address
from tidelog.client.security_options import PLAINTEXT, ClientSecurity
from tidelog.model import ZERO_TOPIC_ID, TopicId, TopicPartition

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition from `start` up to `end` exclusive."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def length(self) -> int:
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        return f"`{self.topic}-{self.partition}` [{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """A range as it was planned."""

    wanted: OffsetRange
    topic_id: TopicId = ZERO_TOPIC_ID
    """Of the topic that was planned for: one that was made anew is another. All zeros where the
    brokers name none."""


def is_other_topic(known: TopicId, found: TopicId) -> bool:
    """Whether two ids under the same name are those of two topics, one created after the other was
    deleted. False where brokers give no ids, because then there is nothing to compare."""
    return ZERO_TOPIC_ID not in (known, found) and known != found


@dataclass(frozen=True, slots=True)
class ReadRules:
    """How a query reads; the same for all its ranges."""

    bootstrap: tuple[Address, ...]
    read_committed: bool = False
    """Skips records of aborted transactions, and ends at the last stable offset."""
    rack: str = ""
    """The reader's rack: the leader may send the reader to a replica of the same rack. Empty for
    none."""
    fail_on_data_loss: bool = True
    """Whether records that are gone or damaged fail the query, or are left out with a warning."""
    security: ClientSecurity = PLAINTEXT
    """TLS and login of all connections; files that it names are read where a connection opens."""
