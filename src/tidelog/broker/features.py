"""The feature levels that this software can run, as registered and advertised."""

from collections.abc import Mapping
from typing import Final

METADATA_VERSION: Final = 30
"""4.3-IV0, the level that Apache Kafka 4.3.1 finalises."""

GROUP_VERSION: Final = "group.version"
"""1: consumer groups (KIP-848)."""

METADATA: Final = "metadata.version"

FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    METADATA: (7, METADATA_VERSION),
    "kraft.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "transaction.version": (0, 2),
    GROUP_VERSION: (0, 1),
}
"""Feature name to the range of levels served. A feature whose maximum is 0 is known and off."""


def has_consumer_groups(finalised: Mapping[str, int]) -> bool:
    """Whether the cluster has them switched on. A node that does not know the levels yet says so:
    it coordinates no group, and a client that were refused would not come back."""
    return finalised.get(GROUP_VERSION, 0) > 0 or METADATA not in finalised
