"""Simulated streams: what two ends of a TCP connection see of each other.

A link delivers bytes in order after a delay drawn per delivery; a link between two hosts that are
cut keeps bytes back until the cut heals (as retransmission does) and then delivers them. When one
end's process dies, its kernel closes the stream: the other end sees the close after all bytes that
were sent before it. A connect to a process that is dead is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Stream:
    """One connection between two ends, each named by (host, connection id)."""

    # Who asked for the connection, and its id there.
    opener: str
    opener_id: int
    # Who accepted it, and its id there.
    acceptor: str
    acceptor_id: int
    # False once either end closed.
    open: bool = True
    # Time of the newest delivery in each direction; deliveries must not overtake each other.
    last_to_opener: int = 0
    last_to_acceptor: int = 0
    # What a cut keeps back, by receiving host, in order.
    held: dict[str, list[Callable[[], None]]] = field(default_factory=dict)

    def other_end(self, host: str, connection_id: int) -> tuple[str, int]:
        """The end opposite to the given one."""
        if (host, connection_id) == (self.opener, self.opener_id):
            return self.acceptor, self.acceptor_id
        return self.opener, self.opener_id
