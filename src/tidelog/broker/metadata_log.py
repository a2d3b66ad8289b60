"""The quorum as the controller's replicated log (`rsm.kernel.ReplicatedLog`), and as the owner of
one of the features (`controller.features.QuorumVersion`).

The controller appends within one input; the time of that input is the time of the append. The
node sets that time at the beginning of each input.
"""

from collections.abc import Sequence

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
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

    @property
    def kraft_version(self) -> int:
        """The quorum's `kraft.version`."""
        return self._quorum.kraft_version

    @property
    def voter_ids(self) -> Sequence[int]:
        """The nodes that vote."""
        return tuple(self._quorum.voters)

    def upgrade_version(self, level: int, *, validate_only: bool) -> tuple[ErrorCode, str]:
        """Raises the `kraft.version`; the code and text of the refusal where it cannot."""
        return self._quorum.upgrade_version(level, self._now, validate_only=validate_only)

    def append(self, records: Sequence[bytes]) -> int:
        """Appends one batch; returns its last offset. Raises `NotLeader`."""
        return self._quorum.append(records, self._now, self._wall_ms)
