"""The core, as a driver sees it."""

from typing import Final, Protocol

from tidelog.env import effects
from tidelog.env.instant import Instant
from tidelog.env.steps import ClientFigures, Steps

STEPS: Final[dict[type, str]] = {
    effects.Received: "bytes received",
    effects.Opened: "connection opened",
    effects.Connected: "connected",
    effects.Closed: "connection closed",
    effects.Stalled: "connection stalled",
    effects.Flushed: "file flushed",
    effects.FlushFailed: "flush failed",
    effects.WallClock: "wall clock",
    effects.KeysFetched: "keys fetched",
    effects.TokenFetched: "token fetched",
    effects.StoresChecked: "stores checked",
    effects.Computed: "computed",
    effects.StopRequested: "stop requested",
}
"""What an input is called as a step of its turn, until the core names another."""


class Core(Protocol):
    """Of the five verbs (`ARCHITECTURE.md`) what a driver needs; `broker.node.Node` has them."""

    steps: Steps
    """What it is doing; the driver measures how long."""

    @property
    def client_figures(self) -> ClientFigures:
        """What it counts of its clients."""

    @property
    def under_replicated(self) -> int:
        """How many partitions it leads whose ISR is smaller than their replicas."""

    def receive(self, event: effects.Input, now: Instant, /) -> None:
        """One input; runs to completion."""

    def wake(self, now: Instant, /) -> None:
        """Due timers and end-of-tick work."""

    def deadline(self) -> Instant | None:
        """When it wants to be woken."""

    def take_effects(self) -> list[effects.Effect]:
        """What to carry out, in order."""
