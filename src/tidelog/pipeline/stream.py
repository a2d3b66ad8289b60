"""A stream over topics: where it begins, how far the next batch goes, which ranges that makes.

Spark writes the offsets of a batch down before it reads it, and after a crash reads the same
range again. So everything here is a function of the offsets given and of what the cluster has:
nothing is remembered between calls, but for the ceiling of an `availableNow` run.

Offsets travel as `{"topic:partition": next offset}`. A partition that a batch does not know yet
was added since; it begins at its first record, because all its records are newer than the batch.

*Admission control*: a batch of at most `maxOffsetsPerTrigger` offsets takes from every partition
in proportion to what waits there, and at least one offset from each that has any, so no partition
starves behind a large one.

*Data loss*: a partition that now begins behind the offset wanted (retention was faster) or ends
before it (the topic was made anew, or an unclean election cut it) fails the query, unless
`failOnDataLoss` is false: then the stream goes on with what is there.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.model import TopicPartition
from tidelog.pipeline.client import Client
from tidelog.pipeline.errors import DataLoss
from tidelog.pipeline.options import SourceOptions
from tidelog.pipeline.plan import Offsets, choose_starts, into_tasks
from tidelog.pipeline.values import EARLIEST, LATEST, OffsetRange, PlannedRange

StreamOffsets = Mapping[str, int]

_CHOICES: Final = (
    "start anew with another checkpoint, restore the records, or go on without them with "
    "`failOnDataLoss=false`"
)


def to_text(offsets: Offsets) -> dict[str, int]:
    """Offsets as Spark writes them into its checkpoint."""
    return {f"{tp.topic}:{tp.partition}": offsets[tp] for tp in sorted(offsets)}


def from_text(offsets: StreamOffsets) -> dict[TopicPartition, int]:
    """The inverse of `to_text`."""
    parsed = {}
    for name, offset in offsets.items():
        topic, _, partition = name.rpartition(":")
        parsed[TopicPartition(topic, int(partition))] = offset
    return parsed


def initial_offsets(options: SourceOptions, client: Client) -> dict[str, int]:
    """Where a new query begins. Raises `UsageError`, `ClusterUnavailable`."""
    partitions = sorted(client.metadata(options.topics).leaders)
    earliest = client.list_offsets(partitions, EARLIEST)
    latest = client.list_offsets(partitions, LATEST)
    return to_text(choose_starts(options, earliest, latest))


def available(options: SourceOptions, client: Client) -> dict[str, int]:
    """The end of every partition now, exclusive: what is acknowledged lies below."""
    partitions = sorted(client.metadata(options.topics).leaders)
    return to_text(client.list_offsets(partitions, LATEST))


def within(options: SourceOptions, start: StreamOffsets, ends: StreamOffsets) -> dict[str, int]:
    """`start`, or where the log ends now for a partition that ends before it.

    Raises `DataLoss` for such a partition, unless the options allow it.
    """
    for tp, offset in sorted(from_text(start).items()):
        end = ends.get(f"{tp.topic}:{tp.partition}", offset)
        if end < offset and options.fail_on_data_loss:
            wanted = OffsetRange(tp.topic, tp.partition, offset, offset)
            raise DataLoss(wanted, f"the log ends at {end}; {_CHOICES}")
    return {name: min(offset, ends.get(name, offset)) for name, offset in start.items()}


def next_offsets(
    start: StreamOffsets, ends: StreamOffsets, first: StreamOffsets, limit: int | None
) -> dict[str, int]:
    """Where the batch that begins at `start` ends, all exclusive.

    `ends` is what the cluster has, `first` where partitions begin that `start` does not know. With
    `limit` at most so many offsets are taken, but one from each partition that has any.
    """
    begins = {name: start.get(name, first.get(name, 0)) for name in (*start, *ends)}
    waiting = {name: max(ends.get(name, 0) - begin, 0) for name, begin in begins.items()}
    total = sum(waiting.values())
    if limit is None or total <= limit:
        taken = waiting
    else:
        taken = {
            name: min(count, max(count * limit // total, 1)) if count else 0
            for name, count in waiting.items()
        }
    return {name: begin + taken[name] for name, begin in begins.items()}


def unknown_partitions(start: StreamOffsets, ends: StreamOffsets) -> list[TopicPartition]:
    """The partitions that were added since `start`."""
    return sorted(from_text({name: 0 for name in ends if name not in start}))


def plan_batch(
    options: SourceOptions, client: Client, start: StreamOffsets, end: StreamOffsets
) -> list[PlannedRange]:
    """The ranges of one batch, one task each.

    Raises `DataLoss` when records of the batch are gone, unless the options allow it.
    """
    begins, ends = from_text(start), from_text(end)
    client.metadata(options.topics)
    earliest = client.list_offsets(sorted(ends), EARLIEST)
    latest = client.list_offsets(sorted(ends), LATEST)
    ranges = []
    for tp in sorted(ends):
        wanted = OffsetRange(tp.topic, tp.partition, begins.get(tp, earliest[tp]), ends[tp])
        if wanted.start > latest[tp] or (
            wanted.length and not earliest[tp] <= wanted.start <= wanted.end <= latest[tp]
        ):
            if options.fail_on_data_loss:
                there = f"the log has [{earliest[tp]}, {latest[tp]})"
                raise DataLoss(wanted, f"{there}; {_CHOICES}")
            wanted = _what_is_there(wanted, earliest[tp], latest[tp])
        if wanted.length:
            ranges.append(wanted)
    return into_tasks(ranges, options, client)


def _what_is_there(wanted: OffsetRange, earliest: int, latest: int) -> OffsetRange:
    start = min(max(wanted.start, earliest), latest)
    return OffsetRange(wanted.topic, wanted.partition, start, min(wanted.end, latest))
