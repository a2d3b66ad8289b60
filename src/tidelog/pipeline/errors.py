"""What can go wrong between a job and the cluster; each message names the place and the choices.

Wrong options are `tidelog.errors.UsageError`; damaged record bytes are `CorruptBatch`.
"""

from typing import Any, Final

from tidelog.pipeline.values import OffsetRange

LOSS_CHOICES: Final = (
    "restore the records; or begin behind them (a batch by `startingOffsets`, a stream with a new "
    "checkpoint); or go on without them with `failOnDataLoss=false`"
)


class ClusterUnavailable(Exception):
    """No broker answered in time; the message names the brokers, the request and the time."""


class DataLoss(Exception):
    """Records that the job must read are not there any more, or never were."""

    def __init__(self, wanted: OffsetRange, reason: str, hint: str = LOSS_CHOICES) -> None:
        super().__init__(f"{wanted}: {reason}\nhint: {hint}")
        # The range that could not be read.
        self.wanted = wanted
        # What was found instead.
        self.reason = reason
        # What may be done.
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions cross process borders in Spark.
        return DataLoss, (self.wanted, self.reason, self.hint)


class TableConflict(Exception):
    """The table refuses a batch: it has those offsets already, or another writer changed it."""


class JobFailed(Exception):
    """Spark ended a job; the message is one line."""


class WriteFailed(Exception):
    """A record, or the transaction that it is in, was not written."""

    def __init__(self, where: str, reason: str, hint: str) -> None:
        super().__init__(f"`{where}`: {reason}\nhint: {hint}")
        # The topic and, where it is known, the partition: `orders-3`.
        self.where = where
        # The error of the client or the broker.
        self.reason = reason
        # What can be done.
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        return WriteFailed, (self.where, self.reason, self.hint)
