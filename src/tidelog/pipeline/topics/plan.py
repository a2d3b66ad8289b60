"""From options to fixed ranges: what exactly a batch read will read, and in how many tasks.

Offsets are resolved once, here, and not by the tasks. Records that arrive later are not part of the
read, and records that are deleted meanwhile make it fail. Spark plans again for every action, so a
job that must read the same records twice gives explicit `endingOffsets`.

*Tasks.* A task costs Spark some 70 ms before it has read anything, so ranges with few offsets share
one: otherwise a topic of a thousand idle partitions would cost a minute. Large ranges stay alone,
and options may cut them.

Invariants: ranges are disjoint, none is empty, together they are exactly the wanted offsets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Final

from tidelog.errors import UsageError
from tidelog.model import ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.errors import DataLoss, fail_or_warn
from tidelog.pipeline.topics.offset_choice import resolve_choice
from tidelog.pipeline.topics.option_names import Option
from tidelog.pipeline.topics.options import SourceOptions, TaskSizes
from tidelog.pipeline.topics.pushdown import Bounds
from tidelog.pipeline.values import OffsetRange, PlannedRange

SHARED_TASK_OFFSETS: Final = 5_000
"""Ranges share a task as long as they have no more offsets together."""

_NO_BOUNDS: Final = Bounds()


def plan_ranges(
    options: SourceOptions, client: Client, bounds: Bounds = _NO_BOUNDS
) -> list[PlannedRange]:
    """Asks the cluster and fixes the ranges, one for each partition that has any within `bounds`.
    Raises `UsageError`, `DataLoss` (a start before the log's), `ClusterUnavailable`."""
    partitions = options.subscription.find(client)
    if not partitions:
        raise UsageError(
            f"nothing to read: no topic matches the {options.subscription}",
            "the pattern must match whole names; `tidelog topics list` shows them",
        )
    committed = options.rules.read_committed
    earliest, latest = client.earliest_and_latest(partitions, read_committed=committed)
    lookup = partial(client.offsets_for_times, read_committed=committed)
    starts = resolve_choice(Option.STARTING_OFFSETS, options.starting, earliest, latest, lookup)
    ends = resolve_choice(Option.ENDING_OFFSETS, options.ending, earliest, latest, lookup)
    ranges = bounds.narrow(
        checked_range(tp, (starts[tp], ends[tp]), (earliest[tp], latest[tp]), options)
        for tp in partitions
    )
    if bounds.earliest_time is not None:
        # What lies before the first record that is late enough is left out; so is all, without one.
        firsts = lookup({one.tp: bounds.earliest_time for one in ranges})
        starts = {tp: latest[tp] if first < 0 else first for tp, first in firsts.items()}
        ranges = [replace(one, start=max(one.start, starts[one.tp])) for one in ranges]
    return with_topic_ids([one for one in ranges if one.length], client.known.topic_ids())


def checked_range(
    tp: TopicPartition, wanted: tuple[int, int], there: tuple[int, int], options: SourceOptions
) -> OffsetRange:
    """The range of one partition, checked against what the cluster has. Offsets that are not there
    are an error; with `failOnDataLoss=false` what is there of the range is read, as the connector
    does."""
    (start, end), (earliest, latest) = wanted, there
    asked = OffsetRange(*tp, start, end)
    available = f"the log has [{earliest}, {latest})"
    if start < earliest:
        loss = DataLoss(asked, f"{available}; the records before are deleted")
        fail_or_warn(loss, options.rules)
    is_behind = max(start, end) > latest
    if end < start <= latest or (is_behind and options.rules.fail_on_data_loss):
        raise UsageError(f"no range to read: {asked}", f"{available}; correct the offsets")
    if is_behind:
        fail_or_warn(DataLoss(asked, available), options.rules)
    start = min(max(start, earliest), latest)
    return replace(asked, start=start, end=min(max(end, start), latest))


def with_topic_ids(
    ranges: Sequence[OffsetRange], topic_ids: Mapping[str, TopicId]
) -> list[PlannedRange]:
    """Ranges with the ids of the topics that they were planned for."""
    return [PlannedRange(one, topic_ids.get(one.topic, ZERO_TOPIC_ID)) for one in ranges]


def into_tasks(ranges: Sequence[PlannedRange], sizes: TaskSizes) -> list[tuple[PlannedRange, ...]]:
    """Cuts ranges as the options want it; without options, small ranges share tasks."""
    pieces = split(ranges, sizes)
    if sizes != TaskSizes():
        return [(piece,) for piece in pieces]
    tasks: list[list[PlannedRange]] = []
    space = 0
    for piece in pieces:
        if piece.wanted.length <= space:
            tasks[-1].append(piece)
        else:
            tasks.append([piece])
            space = SHARED_TASK_OFFSETS
        space -= piece.wanted.length
    return [tuple(task) for task in tasks]


def split(ranges: Sequence[PlannedRange], sizes: TaskSizes) -> list[PlannedRange]:
    """Cuts ranges into about equal pieces: at least `min_partitions`, if their length allows, and
    none longer than `max_records`."""
    total = sum(one.wanted.length for one in ranges)
    pieces: list[PlannedRange] = []
    for one in ranges:
        item = one.wanted
        share = -(-item.length * sizes.min_partitions // total)
        if sizes.max_records is not None:
            share = max(share, -(-item.length // sizes.max_records))
        count = max(1, min(share, item.length))
        edges = [item.start + item.length * index // count for index in range(count + 1)]
        pieces += [
            replace(one, wanted=replace(item, start=start, end=end))
            for start, end in pairwise(edges)
        ]
    return pieces
