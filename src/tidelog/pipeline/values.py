"""What to read and where: the small values that travel between driver and tasks.

Spark imports the source anew in several short-lived Python processes, so what they need first is
kept free of heavy imports.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

EARLIEST: Final = -2
LATEST: Final = -1
"""Special timestamps of ListOffsets, and special offsets in options; `LATEST` is the high
watermark."""


class Address(NamedTuple):
    """Where a broker is reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition from `start` up to `end` exclusive."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def length(self) -> int:
        """How many offsets lie in the range."""
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        return f"`{self.topic}-{self.partition}` [{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """The work of one task."""

    wanted: OffsetRange
    allow_gaps: bool
    """The topic is compacted: offsets may be missing."""
