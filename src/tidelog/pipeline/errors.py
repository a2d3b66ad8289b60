"""What can go wrong between a job and the cluster; each message names the place and the choices.

Wrong options are `tidelog.errors.UsageError`; damaged record bytes are `CorruptBatch`.

The code that finds a loss of records reports it to `fail_or_warn` and then goes on with those that
are left. Only that function decides whether the query may (`failOnDataLoss`); for damaged batches,
`reader.py` decides.

Exceptions cross process borders in Spark by their positional arguments: give them no others.
"""

import logging
from dataclasses import dataclass
from typing import Final

from tidelog.pipeline.values import OffsetRange, ReadRules

LOG: Final = logging.getLogger("tidelog.pipeline")
LOSS_CHOICES: Final = (
    "restore the records; or begin behind them (a batch by `startingOffsets`, a stream with a new "
    "checkpoint); or go on without them with `failOnDataLoss=false`"
)


class ClusterUnavailable(Exception):
    """No broker answered in time; the message names the brokers, the request and the time."""


class RegistryUnavailable(ClusterUnavailable):
    """The registry of schemas did not answer; the message names it. Then comes the number of the
    record among those that were decoded together, or the record's place."""

    def __str__(self) -> str:
        return ", for ".join(map(str, self.args))


class StoreUnavailable(ClusterUnavailable):
    """The object store of a table did not answer, or refused; the message names the table."""


class DiskFull(StoreUnavailable):
    """A file cannot be written because its disk, or the user's quota, is full. The message names
    the file or its directory, and has a hint."""


@dataclass(eq=False)
class DataLoss(Exception):
    """Records that the job must read are not there any more, or never were."""

    wanted: OffsetRange
    reason: str
    """What was found instead."""
    hint: str = LOSS_CHOICES

    def __str__(self) -> str:
        return f"{self.wanted}: {self.reason}\nhint: {self.hint}"


def fail_or_warn(loss: DataLoss, rules: ReadRules) -> None:
    """Raises the loss, unless the query may go on without the records."""
    if rules.fail_on_data_loss:
        raise loss
    LOG.warning("%s: %s; goes on because `failOnDataLoss` is false", loss.wanted, loss.reason)


class TableConflict(Exception):
    """The table refuses a batch: it has those offsets already, or another writer changed it."""


class TableDamaged(Exception):
    """Files of a table are gone or torn: others deleted or changed them. The message has a hint."""


class FilesGone(Exception):
    """Others deleted files of a batch before its commit; the batch can be written again."""


class OtherWriter(TableConflict):
    """Another writer was faster. What the table has is right, and another run may succeed."""


class FilesReplaced(OtherWriter):
    """Another writer, a compaction for one, has replaced files that a batch read to write them
    anew."""


@dataclass(eq=False)
class KeyMoved(Exception):
    """A key has changes in two partitions, which have no order."""

    topic: str
    key: str
    one: str
    """A partition and an offset where it is."""
    other: str

    def __str__(self) -> str:
        return (
            f"key {self.key} of `{self.topic}` is in partition {self.one} and in partition "
            f"{self.other}: which change is the newer one cannot be known; nothing of the batch "
            "was written\nhint: write each key to one partition, into a topic whose number of "
            "partitions stays; or ingest this one with `--mode append`"
        )


class JobFailed(Exception):
    """Spark ended a job; the message is one line."""


@dataclass(eq=False)
class WriteFailed(Exception):
    """A record, or the transaction that it is in, was not written."""

    where: str
    """The topic and, where it is known, the partition: `orders-3`."""
    reason: str
    """The error of the client or the broker."""
    hint: str

    def __str__(self) -> str:
        return f"`{self.where}`: {self.reason}\nhint: {self.hint}"
