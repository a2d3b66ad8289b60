"""`tidelog consume`: prints records of a topic of any Kafka cluster.

It ends at the end that the topic had when it began, or follows. With a group it begins where the
group has committed, and commits what it has printed. It is not a member of the group. A group that
has members is refused, because these decide what is committed.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

from tidelog.cli.arguments import (
    DEFAULT_DATA_DIR,
    MAX_PARTITION,
    Bootstrap,
    DataDir,
    argument,
    brokers_of,
    hinted,
    option,
)
from tidelog.cli.positions import WHERE, Bounds, Position, partitions_of
from tidelog.cli.record_formats import VALUES, Show, printer
from tidelog.cli.terminal import NoAnswer, WorkFailed
from tidelog.errors import CorruptBatch, ErrorCode, UsageError
from tidelog.model import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.groups import Groups
    from tidelog.client.reading import Reader

_WAIT_MS: Final = 500
_MEMBERS: Final = "its members commit its offsets: stop them first, or use another group"
_HINTS: Final = dict.fromkeys(
    (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS), _MEMBERS
)

Offsets = Mapping[TopicPartition, int]


class Isolation(StrEnum):
    """Kafka's isolation levels."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


def consume(
    topic: Annotated[str, argument("TOPIC", "The topic.")],
    partition: Annotated[
        int | None, option("--partition", "Only this one.", "P", min=0, max=MAX_PARTITION)
    ] = None,
    from_: Annotated[
        str, option("--from", f"{WHERE}; of a group, where nothing is committed.", "WHERE")
    ] = "earliest",
    group: Annotated[
        str | None,
        option("--group", "Begin where it has committed, and commit what is printed.", "NAME"),
    ] = None,
    follow: Annotated[bool, option("--follow", "Wait for records to come.")] = False,
    max_records: Annotated[
        int | None, option("--max-records", "End after so many.", "N", min=1)
    ] = None,
    timeout_s: Annotated[
        float | None,
        option(
            "--timeout", "With --follow: exit code 3 after so long without one.", "SECONDS", min=0
        ),
    ] = None,
    isolation_level: Annotated[
        Isolation, option("--isolation-level", "Whether records of open transactions are shown.")
    ] = Isolation.READ_UNCOMMITTED,
    format_: Annotated[
        str, option("--format", "`json`, or fields in braces: `{key} {value}`.", "FORMAT")
    ] = VALUES,
    bootstrap: Bootstrap = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Print the records of a topic, a line each, up to its present end.

    Fields are topic, partition, offset, timestamp, key, value and headers.
    """
    from tidelog.client.groups import Groups
    from tidelog.client.reading import Reader

    if timeout_s is not None and not follow:
        raise UsageError("`--timeout` is for `--follow`", "without it the command does not wait")
    show, position = printer(format_), Position.parse(from_)
    committed = isolation_level is Isolation.READ_COMMITTED
    with closing(brokers_of(bootstrap, data_dir, "tidelog-consume")) as brokers:
        groups = Groups(brokers)
        partitions = partitions_of(groups, topic, partition)
        bounds = Bounds.of(groups, partitions, read_committed=committed)
        begin = _begin(groups, group, bounds, position)
        printing = Printing(
            Reader(brokers, begin, read_committed=committed),
            show,
            lambda offsets: _commit(groups, group, offsets),
            ends=None if follow else bounds.ends,
            quiet_s=timeout_s,
        )
        with _explained(topic):
            printing.run(max_records)


@contextmanager
def _explained(topic: str) -> Iterator[None]:
    """What ends the reading of a topic is a failure with a hint."""
    from tidelog.client.reading import OutOfRange

    try:
        yield
    except OutOfRange as error:
        raise WorkFailed(
            str(error),
            f"`tidelog topics describe {topic}` shows what is; "
            "`tidelog groups reset-offsets` moves a group",
        ) from None
    except CorruptBatch as error:
        hint = "`tidelog spark audit` shows which replicas are sound"
        raise WorkFailed(error.message, hint) from None


def _begin(groups: "Groups", group: str | None, bounds: Bounds, position: Position) -> Offsets:
    """Where to begin in each partition. Raises `WorkFailed` for a group with members."""
    begin = bounds.offsets_at(groups, position)
    if group is None:
        return begin
    states = {each.group_id: each.state for each in groups.list()}
    if states.get(group, "Empty") not in ("Empty", "Dead"):
        raise WorkFailed(f"group `{group}` has members: it is `{states[group]}`", _MEMBERS)
    committed = groups.offsets(group)
    return {tp: committed.get(tp, offset) for tp, offset in begin.items()}


def _commit(groups: "Groups", group: str | None, offsets: Offsets) -> None:
    if group is not None and offsets:
        hinted(_HINTS, lambda: groups.reset(group, offsets))


class Printing:
    """What is read goes to stdout; then it is committed."""

    def __init__(
        self,
        reader: "Reader",
        show: Show,
        commit: Callable[[Offsets], None],
        *,
        ends: Offsets | None,
        quiet_s: float | None,
    ) -> None:
        self._reader = reader
        self._show = show
        # Takes positions behind what was printed, of the partitions in which they moved.
        self._commit = commit
        # Where each partition ends, exclusive; `None` to follow.
        self._ends = ends
        # How long no record may come; `None` for ever.
        self._quiet_s = quiet_s
        # The positions behind what was printed last.
        self._positions = dict(reader.positions)

    def run(self, max_records: int | None) -> None:
        """Prints until all is printed that is asked for. Raises `NoAnswer` when no record comes;
        else as `Reader.poll` does."""
        left, quiet_since = max_records, time.monotonic()
        while left != 0 and self._has_more():
            count = self._print_some(left)
            left = None if left is None else left - count
            if count:
                quiet_since = time.monotonic()
            elif self._quiet_s is not None and time.monotonic() - quiet_since > self._quiet_s:
                raise NoAnswer(
                    f"no record came for {self._quiet_s:g} s",
                    "look whether a producer writes to the topic",
                )

    def _has_more(self) -> bool:
        """Drops the partitions that are read up to their end."""
        positions = self._reader.positions
        for tp, end in () if self._ends is None else self._ends.items():
            if tp in positions and positions[tp] >= end:
                del positions[tp]
        return bool(positions)

    def _print_some(self, limit: int | None) -> int:
        """Prints and commits what comes next; returns how many records that is."""
        found = self._reader.poll(_WAIT_MS)
        ends = self._ends
        shown = [
            each for each in found if ends is None or each.record.offset < ends[each.partition]
        ]
        shown = shown[:limit]
        sys.stdout.write("".join([f"{self._show(*each)}\n" for each in shown]))
        sys.stdout.flush()
        behind = dict(self._reader.positions)
        printed = set(map(id, shown))
        for each in reversed(found):
            if id(each) not in printed:
                behind[each.partition] = each.record.offset
        moved = {tp: at for tp, at in behind.items() if at != self._positions[tp]}
        self._commit(moved)
        self._positions |= moved
        return len(shown)
