"""What the node asks of the components that it drives at the end of each tick.

A coordinator that is added (groups, transactions) is one more component: one line in
`Node._make_components`, and nothing else of the node changes.
"""

from typing import Protocol

from tidelog.env.instant import Instant


class Component(Protocol):
    """A part of the node with timers of its own and outputs for other parts."""

    def flow(self, now: Instant) -> bool:
        """One round: handles due timers, then carries outputs to their receivers. Returns whether
        there were any; if so, all components have another round in this tick."""

    def deadline(self) -> Instant | None:
        """The earliest instant at which a timer is due."""

    def check(self) -> None:
        """Asserts its invariants."""
