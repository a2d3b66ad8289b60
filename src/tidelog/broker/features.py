"""The feature levels that this software can run, as registered and advertised."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.metadata.image import SHARE_VERSION, BrokerImage

METADATA_VERSION: Final = 30
"""4.3-IV0, the level that Apache Kafka 4.3.1 finalises."""

GROUP_VERSION: Final = "group.version"
"""1: consumer groups (KIP-848)."""

METADATA: Final = "metadata.version"

OLDEST_PARTNER: Final = 21
"""`metadata.version` of Kafka 3.9: the oldest nodes that were tried beside ours."""

FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    METADATA: (7, METADATA_VERSION),
    "kraft.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "transaction.version": (0, 2),
    GROUP_VERSION: (0, 1),
    SHARE_VERSION: (0, 1),
}
"""Feature name to the range of levels served. A feature whose maximum is 0 is known and off."""


class UnservedFeature(NamedTuple):
    """A feature that the cluster has finalised above what this software can run."""

    name: str
    level: int
    served: int
    """The highest level that can be run; 0 where the feature is not known."""

    def __str__(self) -> str:
        return f"`{self.name}` is {self.level}, this node serves {self.served} at most"


def unserved(finalised: Mapping[str, int]) -> tuple[UnservedFeature, ...]:
    """What keeps this software out of a cluster, by name. A level below the range, which only
    `metadata.version` can have, is none of it: that one must be raised."""
    return tuple(
        UnservedFeature(name, level, FEATURES.get(name, (0, 0))[1])
        for name, level in sorted(finalised.items())
        if level > FEATURES.get(name, (0, 0))[1]
    )


def lowering(features: Iterable[UnservedFeature]) -> str:
    """The command that lowers the features to what can be run."""
    wanted = " ".join(f"--feature {each.name}={each.served}" for each in features)
    return f"kafka-features.sh --bootstrap-server HOST:PORT downgrade {wanted}"


def version_for(peer: BrokerImage | None, newest: int, since: int) -> int:
    """The version in which a request goes to another broker: the newest, or the one before where
    the peer's software is older than the `metadata.version` that the newest came with. Apache Kafka
    closes the connection on a version that it does not know."""
    highest = METADATA_VERSION if peer is None else peer.features.get(METADATA, (0, since))[1]
    return newest if highest >= since else newest - 1


def older_than_partners(peer: BrokerImage) -> int | None:
    """The highest `metadata.version` of another broker, if nothing that old was tried."""
    highest = peer.features.get(METADATA, (0, 0))[1]
    return highest if highest < OLDEST_PARTNER else None


def has_consumer_groups(finalised: Mapping[str, int]) -> bool:
    """Whether the cluster has them switched on. A node that does not know the levels yet says so:
    it coordinates no group, and a client that were refused would not come back."""
    return finalised.get(GROUP_VERSION, 0) > 0 or METADATA not in finalised


def has_share_groups(finalised: Mapping[str, int]) -> bool:
    """Likewise for share groups (KIP-932)."""
    return finalised.get(SHARE_VERSION, 0) > 0 or METADATA not in finalised
