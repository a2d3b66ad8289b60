"""Which partitions a query reads: the connector's `subscribe`, `subscribePattern` and `assign`.

A name or an assigned partition that does not exist is an error. A pattern takes what is there now,
and a stream asks again for each batch, so that new topics join. Internal topics are never matched
by a pattern, as with Kafka's consumers; by name they can be read.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.errors import UsageError
from tidelog.model import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    # Options are read in processes that never ask a broker.
    from tidelog.pipeline.cluster import Client


@dataclass(frozen=True, slots=True)
class Subscription:
    """Exactly one of the three is given."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression that matches whole topic names."""
    assigned: frozenset[TopicPartition] = frozenset()

    @property
    def names(self) -> frozenset[str] | None:
        """The topics named; `None` for a pattern."""
        if self.pattern is not None:
            return None
        return frozenset(self.topics) | {tp.topic for tp in self.assigned}

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"`subscribePattern` `{self.pattern}`"
        if self.assigned:
            return f"`assign` of {', '.join(f'`{tp}`' for tp in sorted(self.assigned))}"
        return f"`subscribe` of {', '.join(f'`{topic}`' for topic in self.topics)}"

    def find(self, client: "Client") -> list[TopicPartition]:
        """The partitions as they are now, in order. Raises `UsageError` for what does not exist,
        `ClusterUnavailable`."""
        names = self.names
        metadata = client.metadata(None if names is None else sorted(names))
        if self.pattern is not None:
            topics = {tp.topic for tp in metadata.leaders} - INTERNAL_TOPICS
            matching = {topic for topic in topics if re.fullmatch(self.pattern, topic)}
            return sorted(tp for tp in metadata.leaders if tp.topic in matching)
        if not self.assigned:
            return sorted(metadata.leaders)
        missing = sorted(self.assigned - set(metadata.leaders))
        if missing:
            count = len(metadata.partitions_of(missing[0].topic))
            raise UsageError(
                f"`assign` names partition `{missing[0]}`, which does not exist",
                f"topic `{missing[0].topic}` has partitions 0 to {count - 1}",
            )
        return sorted(self.assigned)
