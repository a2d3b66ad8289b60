"""What can go wrong between a job and the cluster, in words that name the place.

Wrong options are `tidelog.errors.UsageError`; damaged record bytes are `CorruptBatch`.
"""

from dataclasses import dataclass
from typing import Any


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


class ClusterUnavailable(Exception):
    """Nobody answered in time; the text says who was asked, for what and how long."""


class DataLoss(Exception):
    """Records that the job was promised are not there any more, or never were."""

    def __init__(self, wanted: OffsetRange, reason: str) -> None:
        super().__init__(f"{wanted}: {reason}")
        # The range that could not be read.
        self.wanted = wanted
        # What was found instead.
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions cross process borders in Spark.
        return DataLoss, (self.wanted, self.reason)
