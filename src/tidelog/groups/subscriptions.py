"""The topics that the members of a group of consumers are subscribed to.

It is the one thing that the coordinator reads of what members of a classic group say: committed
offsets of these topics neither expire nor are deleted. Metadata begins with a version, then a list
of topics, in the classic notation; every version so far begins so. What does not parse counts as a
subscription to nothing, as in Kafka.
"""

from typing import Final

from tidelog.errors import MalformedFrame
from tidelog.groups.classic_group import ClassicGroup
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.group_state import GroupState
from tidelog.wire.consumer_protocol import TOPICS
from tidelog.wire.notation import MALFORMED

CONSUMERS: Final = "consumer"
"""The protocol type of Kafka's consumers."""

_VERSION_BYTES: Final = 2


def subscribed_topics(
    group: ClassicGroup | None, consumers: ConsumerGroup | None = None
) -> frozenset[str] | None:
    """The topics of all members, of a classic or of a consumer group; `None` for a group with
    members that are not consumers."""
    if consumers is not None:
        return frozenset(consumers.topics())
    if group is None or group.state is GroupState.EMPTY:
        return frozenset()
    if group.protocol_type != CONSUMERS:
        return None
    return frozenset(
        topic
        for member in group.members.values()
        for protocol in member.protocols
        for topic in topics_of(protocol.metadata)
    )


def topics_of(metadata: bytes) -> list[str]:
    """The topics in what a consumer says about itself."""
    try:
        return list(TOPICS.read(metadata, _VERSION_BYTES)[0])
    except (MalformedFrame, *MALFORMED):
        return []
