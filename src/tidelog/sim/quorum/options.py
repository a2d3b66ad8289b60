"""What a quorum in virtual time is made of, and what its network and disks do to it."""

from dataclasses import dataclass
from typing import Final

from tidelog.config import QuorumConfig

QUICK: Final = QuorumConfig(
    election_timeout_ms=200,
    fetch_timeout_ms=400,
    election_backoff_max_ms=200,
    request_timeout_ms=400,
    fetch_max_wait_ms=100,
    first_election_max_ms=50,
)
"""Kafka's timers divided by five: more happens in a virtual second."""
CALM_SLOWNESS: Final = 5
"""On slower hardware no quorum has to find a leader. With Kafka's own timers that is hardware 25
times slower than the one of `COSTS_US`."""


@dataclass(frozen=True, slots=True)
class Composition:
    """The replicas at the beginning, voters 1..n and observers after them, and their logs."""

    voters: int
    observers: int = 0
    dynamic: bool = False
    """Whether the voters stand in the metadata log (`kraft.version` 1): the first ones are
    formatted with the set, the others know nothing but the addresses of all."""
    upgradable: bool = False
    """Whether the voters are configured and may be moved to the log."""
    snapshot_every: int = 0
    """Records between two snapshots; 0 for none."""
    segment_bytes: int = 1 << 14
    """Of the log."""
    slowness: int = 0
    """What work costs, in times of the usual; 0 for nothing."""


@dataclass(slots=True)
class Conditions:
    """How network and disks behave; may change while the cluster runs."""

    latency_ms: int = 1
    """Longest way of one message."""
    flush_ms: int = 1
    """Longest flush."""
    loss_percent: int = 0
    hold_percent: int = 0
    """Of messages over a cut link that arrive when it heals."""

    def become_calm(self) -> None:
        """Nothing is lost any more, and nothing takes long."""
        self.latency_ms = self.flush_ms = 3
        self.loss_percent = self.hold_percent = 0
