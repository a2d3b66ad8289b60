"""Values that are where they must not be, or are not where they must be."""

from collections.abc import Iterator

from tidelog.sim.checkers.log_history.index import Anomaly, KeyIndex, LogIndex
from tidelog.sim.evidence.history import Outcome


def inconsistent_offsets(index: LogIndex) -> Iterator[Anomaly]:
    """One offset was seen with two values."""
    for key, one in index.keys.items():
        for offset in sorted(one.log):
            if len(one.log[offset]) > 1:
                message = f"offset {offset} has {', '.join(one.log[offset])}"
                yield Anomaly("inconsistent-offsets", key, message)


def duplicates(index: LogIndex) -> Iterator[Anomaly]:
    """One value was seen at two offsets."""
    for key, one in index.keys.items():
        offsets: dict[str, list[int]] = {}
        for offset in sorted(one.log):
            for value in one.log[offset]:
                offsets.setdefault(value, []).append(offset)
        for value, found in offsets.items():
            if len(found) > 1:
                yield Anomaly("duplicate", key, f"`{value}` is at {found}")


def aborted_reads(index: LogIndex) -> Iterator[Anomaly]:
    """G1a: a poll returned what surely was not written."""
    for key, one in index.keys.items():
        for value, reader in one.read_ok.items():
            writer = one.writers.get(value)
            if writer is not None and writer.outcome is Outcome.FAIL:
                message = f"`{value}` of op {writer.index}, which failed, read by op {reader.index}"
                yield Anomaly("G1a", key, message)


def precommitted_reads(index: LogIndex) -> Iterator[Anomaly]:
    """A transaction polled what itself had not committed yet."""
    for op in index.ops:
        own = {(sent.key, sent.value) for sent in op.sent}
        for key, values in op.polled.items():
            for polled in values:
                if (key, polled.value) in own:
                    message = f"op {op.index} read its own `{polled.value}`"
                    yield Anomaly("precommitted-read", key, message)


def lost_writes(index: LogIndex) -> Iterator[Anomaly]:
    """A write that must have committed lies below what was read, and no poll returned it.

    Robust against inconsistent offsets and duplicates: a value counts as below only if its last
    position is, the bound is the highest first position of any poll.
    """
    for key, one in index.keys.items():
        bound, bound_reader = _read_bound(one)
        if bound_reader is None:
            continue
        for position, value in enumerate(one.order[: bound + 1]):
            if one.position[value] != position or value in one.read_ok:
                continue
            writer = one.writers.get(value)
            if writer is not None and index.must_commit(writer):
                message = (
                    f"`{value}` of op {writer.index} is version {position}; op {bound_reader} "
                    f"read version {bound}, no poll has this one"
                )
                yield Anomaly("lost-write", key, message)


def _read_bound(one: KeyIndex) -> tuple[int, int | None]:
    bound, reader = -1, None
    for value, op in one.read_ok.items():
        position = one.first_position.get(value, -1)
        if position > bound:
            bound, reader = position, op.index
    return bound, reader


def unseen(index: LogIndex) -> Iterator[Anomaly]:
    """Acknowledged, and not read by the end. Needs a history that ends with reading everything."""
    for key, one in index.keys.items():
        for value, writer in one.writers.items():
            if writer.outcome is Outcome.OK and value not in one.readers:
                yield Anomaly("unseen", key, f"`{value}` of op {writer.index}")


def consume_counts(index: LogIndex) -> dict[int, int]:
    """How many values were read how often; reported, not judged."""
    counts: dict[int, int] = {}
    for one in index.keys.values():
        for readers in one.readers.values():
            counts[len(readers)] = counts.get(len(readers), 0) + 1
    return dict(sorted(counts.items()))


def realtime_lag_ms(index: LogIndex) -> int:
    """The largest provable staleness of a poll: how long before its beginning something was
    acknowledged that lies right after what it saw last. Reported, not judged."""
    worst = 0
    for key, one in index.keys.items():
        acknowledged: list[tuple[int, int]] = []
        for value, writer in one.writers.items():
            if writer.outcome is Outcome.OK and value in one.position:
                acknowledged.append((one.position[value], writer.completed_at))
        first_after = _suffix_minimum(acknowledged, len(one.order))
        for op in index.ops:
            values = op.polled.get(key)
            if not values or values[-1].value not in one.position:
                continue
            following = one.position[values[-1].value] + 1
            if following < len(first_after):
                worst = max(worst, op.invoked_at - first_after[following])
    return worst


def _suffix_minimum(acknowledged: list[tuple[int, int]], count: int) -> list[int]:
    """For each version: when the first acknowledgement at or above it came."""
    never = 1 << 62
    times = [never] * count
    for position, completed_at in acknowledged:
        times[position] = completed_at
    for position in range(count - 2, -1, -1):
        times[position] = min(times[position], times[position + 1])
    return times
