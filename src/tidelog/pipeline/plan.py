"""From options to fixed ranges: what exactly a batch read will read.

Offsets are resolved once, here, and not again by the tasks: records that arrive later are not
part of the read, and records that vanish meanwhile make it fail. Spark plans again for every
action, so a job that must see the same records twice gives explicit `endingOffsets`.

Invariants: ranges are disjoint, none is empty, together they are exactly the offsets asked for.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.client import Client
from tidelog.pipeline.errors import DataLoss
from tidelog.pipeline.options import (
    ENDING_OFFSETS,
    STARTING_OFFSETS,
    OffsetChoice,
    SourceOptions,
)
from tidelog.pipeline.values import EARLIEST, LATEST, OffsetRange, PlannedRange

Offsets = Mapping[TopicPartition, int]


def plan_ranges(options: SourceOptions, client: Client) -> list[PlannedRange]:
    """Asks the cluster and fixes the ranges.

    Raises `UsageError`, `DataLoss` (a start before the log's), `ClusterUnavailable`.
    """
    metadata = client.metadata(options.topics)
    partitions = sorted(metadata.leaders)
    earliest = client.list_offsets(partitions, EARLIEST)
    latest = client.list_offsets(partitions, LATEST)
    return into_tasks(resolve(options, earliest, latest), options, client)


def into_tasks(
    ranges: Sequence[OffsetRange], options: SourceOptions, client: Client
) -> list[PlannedRange]:
    """Ranges split as the options want it, with what the cluster says of their topics."""
    compacted = client.compacted_topics(options.topics) if ranges else frozenset()
    return [
        PlannedRange(piece, piece.topic in compacted)
        for piece in split(ranges, options.min_partitions)
    ]


def resolve(options: SourceOptions, earliest: Offsets, latest: Offsets) -> list[OffsetRange]:
    """One range per partition, checked against what the cluster has; empty ones are left out."""
    partitions = sorted(earliest)
    starts = _choose(STARTING_OFFSETS, options.starting, partitions, earliest, latest)
    ends = _choose(ENDING_OFFSETS, options.ending, partitions, earliest, latest)
    ranges = []
    for tp in partitions:
        wanted = OffsetRange(tp.topic, tp.partition, starts[tp], ends[tp])
        available = f"the log has [{earliest[tp]}, {latest[tp]})"
        if wanted.start < earliest[tp] and not options.fail_on_data_loss:
            begin = min(earliest[tp], wanted.end)
            wanted = OffsetRange(tp.topic, tp.partition, begin, wanted.end)
        elif wanted.start < earliest[tp]:
            raise DataLoss(wanted, f"{available}; the records before are deleted")
        if wanted.end > latest[tp] or wanted.start > latest[tp] or wanted.end < wanted.start:
            raise UsageError(f"no range to read: {wanted}", f"{available}; correct the offsets")
        if wanted.length:
            ranges.append(wanted)
    return ranges


def choose_starts(
    options: SourceOptions, earliest: Offsets, latest: Offsets
) -> dict[TopicPartition, int]:
    """Where a stream begins in each partition. Raises `UsageError`."""
    return _choose(STARTING_OFFSETS, options.starting, sorted(earliest), earliest, latest)


def _choose(
    name: str,
    choice: OffsetChoice,
    partitions: Sequence[TopicPartition],
    earliest: Offsets,
    latest: Offsets,
) -> dict[TopicPartition, int]:
    if isinstance(choice, int):
        return dict(earliest if choice == EARLIEST else latest)
    for given, wanted, verb in (
        (choice, partitions, "names `{}`, which does not exist"),
        (partitions, choice, "does not say where `{}` is"),
    ):
        strangers = sorted(set(given) - set(wanted))
        if strangers:
            raise UsageError(
                f"`{name}` {verb.format(strangers[0])}",
                "name every partition of the topic and no other; -2 is earliest, -1 latest",
            )
    special = {EARLIEST: earliest, LATEST: latest}
    return {
        tp: special[offset][tp] if offset in special else offset for tp, offset in choice.items()
    }


def split(ranges: Sequence[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Cuts ranges into about equal pieces until there are `min_partitions`, if their length
    allows."""
    total = sum(item.length for item in ranges)
    pieces: list[OffsetRange] = []
    for item in ranges:
        share = -(-item.length * min_partitions // total)
        count = max(1, min(share, item.length))
        edges = [item.start + item.length * index // count for index in range(count + 1)]
        pieces += [
            OffsetRange(item.topic, item.partition, start, end) for start, end in pairwise(edges)
        ]
    return pieces
