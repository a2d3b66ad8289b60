"""The feature levels that this software can run, as registered and advertised."""

from collections.abc import Mapping
from typing import Final

METADATA_VERSION: Final = 30
"""4.3-IV0, the level that Apache Kafka 4.3.1 finalises."""

FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    "metadata.version": (7, METADATA_VERSION),
    "kraft.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 0),
}
"""Feature name to the range of levels served. A feature whose maximum is 0 is known and off."""
