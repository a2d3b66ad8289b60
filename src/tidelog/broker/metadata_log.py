"""The quorum as the controller's replicated log (`rsm.kernel.ReplicatedLog`).

The controller appends within one input; the time of that input is the time of the append. The
node says at the beginning of each input what time it is.
"""

from collections.abc import Sequence

from tidelog.env.instant import Instant
from tidelog.kraft.quorum import Quorum


class MetadataLog:
    """Appends go to the quorum's leader, which must be this node."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        # The instant and wall time of the input being handled.
        self._now = Instant(0)
        self._wall_ms = 0

    def at(self, now: Instant, wall_ms: int) -> None:
        """The node handles an input of this time."""
        self._now = now
        self._wall_ms = wall_ms

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""
        return self._quorum.log_end_offset

    def append(self, records: Sequence[bytes]) -> int:
        """Appends one batch; returns its last offset. Raises `NotLeader`."""
        return self._quorum.append(records, self._now, self._wall_ms)
