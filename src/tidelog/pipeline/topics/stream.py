"""A stream over topics: where it begins, how far the next batch goes, which ranges that makes.

Spark logs the offsets of a batch before it reads the batch, and after a crash reads the same range
again. So everything here is a function of the given offsets and of what the cluster has.

A partition that a batch does not know yet was added since; it begins at its first record, because
all its records are newer than the batch.

*Admission control*: a batch of at most `maxOffsetsPerTrigger` offsets takes from every partition
in proportion to its lag, and at least one offset from each that has any, so no partition starves
behind a large one.

*Data loss* fails the query, unless `failOnDataLoss` is false: then the stream goes on with what is
there. It is one of these:

- a partition begins behind the wanted offset, because retention was faster;
- a partition ends before the wanted offset, because an unclean election cut it;
- a topic was deleted and created again;
- a partition of the checkpoint does not exist, or is not subscribed to any more.
"""

from dataclasses import replace
from functools import partial

from tidelog.client.core.values import EARLIEST, LATEST
from tidelog.model import TopicPartition, uuid_to_text
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.errors import LOSS_CHOICES, DataLoss, fail_or_warn
from tidelog.pipeline.topics.offset_choice import resolve_choice
from tidelog.pipeline.topics.option_names import Option
from tidelog.pipeline.topics.options import SourceOptions
from tidelog.pipeline.topics.plan import with_topic_ids
from tidelog.pipeline.topics.stream_offsets import Position
from tidelog.pipeline.values import OffsetRange, Offsets, PlannedRange


def initial_position(options: SourceOptions, client: Client) -> Position:
    """Where a new query begins. Raises `UsageError`, `ClusterUnavailable`."""
    partitions = options.subscription.find(client)
    committed = options.rules.read_committed
    earliest, latest = client.earliest_and_latest(partitions, read_committed=committed)
    lookup = partial(client.offsets_for_times, read_committed=committed)
    starts = resolve_choice(Option.STARTING_OFFSETS, options.starting, earliest, latest, lookup)
    return Position(starts, client.known.topic_ids())


def available(options: SourceOptions, client: Client) -> Position:
    """The end of every partition now, exclusive: the high watermark or last stable offset."""
    partitions = options.subscription.find(client)
    ends = client.list_offsets(partitions, LATEST, read_committed=options.rules.read_committed)
    return Position(ends, client.known.topic_ids())


def next_position(
    options: SourceOptions, client: Client, start: Position, ends: Position, limit: int | None
) -> Position:
    """Where the batch that begins at `start` ends. `ends` is how far it may go; with `limit` at
    most so many offsets are taken. Raises `DataLoss`, `ClusterUnavailable`."""
    begin = readable_position(options, start, ends)
    first = client.list_offsets(sorted(set(ends.offsets) - set(begin.offsets)), EARLIEST)
    taken = next_offsets({**first, **begin.offsets}, ends.offsets, limit)
    return Position(taken, {**begin.topic_ids, **ends.topic_ids})


def readable_position(
    options: SourceOptions, start: Position, ends: Position, begins: Offsets | None = None
) -> Position:
    """The part of `start` from which the stream can go on: existing partitions, below their ends.
    Raises `DataLoss` where that is less than `start`, unless the options allow it; it names the
    range from `begins` on."""
    kept = {}
    for tp, offset in sorted(start.offsets.items()):
        wanted = OffsetRange(*tp, (begins or {}).get(tp, offset), offset)
        loss = _find_loss(options, wanted, start, ends)
        if loss is not None:
            fail_or_warn(loss, options.rules)
        if tp in ends.offsets and not start.is_other_topic(tp.topic, ends):
            kept[tp] = min(offset, ends.offsets[tp])
    return Position(kept, start.topic_ids)


def _find_loss(
    options: SourceOptions, wanted: OffsetRange, start: Position, ends: Position
) -> DataLoss | None:
    tp = wanted.tp
    if tp not in ends.offsets:
        return DataLoss(
            wanted,
            f"the checkpoint has read this partition, but it is not in the {options.subscription}",
            "give the checkpoint of this query, or subscribe to the topic again; " + LOSS_CHOICES,
        )
    if start.is_other_topic(tp.topic, ends):
        old, new = (uuid_to_text(each.topic_ids[tp.topic]) for each in (start, ends))
        return DataLoss(
            wanted, f"the topic was deleted and created again: its id was `{old}` and is `{new}`"
        )
    if ends.offsets[tp] < wanted.end:
        return DataLoss(wanted, f"the log ends at {ends.offsets[tp]}")
    return None


def next_offsets(begins: Offsets, ends: Offsets, limit: int | None) -> dict[TopicPartition, int]:
    """Where a batch ends in each partition. With `limit` at most so many offsets are taken, but
    one from each partition that has any."""
    waiting = {tp: max(ends.get(tp, 0) - begin, 0) for tp, begin in begins.items()}
    total = sum(waiting.values())
    if limit is None or total <= limit:
        taken = waiting
    else:
        taken = {
            tp: min(count, max(count * limit // total, 1)) if count else 0
            for tp, count in waiting.items()
        }
    return {tp: begin + taken[tp] for tp, begin in begins.items()}


def offsets_between(start: Position, end: Position) -> int:
    """How many offsets lie between two positions, in the partitions that both know."""
    return sum(max(offset - start.offsets.get(tp, offset), 0) for tp, offset in end.offsets.items())


def plan_batch(
    options: SourceOptions, client: Client, start: Position, end: Position
) -> list[PlannedRange]:
    """The ranges of one batch. Raises `DataLoss` when records of the batch are gone, unless the
    options allow it."""
    topics = sorted({tp.topic for tp in end.offsets})
    there = client.metadata(topics if options.subscription.names is not None else None)
    partitions = [tp for tp in sorted(end.offsets) if tp in there.leaders]
    earliest, latest = client.earliest_and_latest(
        partitions, read_committed=options.rules.read_committed
    )
    now = Position(latest, client.known.topic_ids())
    renewed = {topic for topic in topics if start.is_other_topic(topic, end)}
    begins = {
        tp: earliest[tp] if tp.topic in renewed else start.offsets.get(tp, earliest[tp])
        for tp in partitions
    }
    kept = readable_position(options, end, now, begins)
    ranges = []
    for tp in sorted(kept.offsets):
        wanted = OffsetRange(*tp, begins[tp], kept.offsets[tp])
        if wanted.length and wanted.start < earliest[tp]:
            loss = DataLoss(wanted, f"the log has [{earliest[tp]}, {latest[tp]})")
            fail_or_warn(loss, options.rules)
            wanted = replace(wanted, start=earliest[tp])
        ranges.append(wanted)
    return with_topic_ids([one for one in ranges if one.length], client.known.topic_ids())
