"""Positions in partitions as users write them: a word, an offset, or a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from tidelog.cli.terminal import NoAnswer, WorkFailed
from tidelog.client.core.values import EARLIEST, LATEST
from tidelog.errors import ErrorCode, UsageError
from tidelog.model import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.groups import Groups

WHERE: Final = "`earliest`, `latest`, an offset or a time (`2026-11-23T04:00:00Z`)"
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class Position:
    """Where to read from, in any partition."""

    timestamp: int
    """What ListOffsets is asked for: a time in ms since 1970, or a special value."""
    offset: int | None
    """In its place, an offset."""

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Reads what a user wrote. Raises `UsageError`."""
        if text in _WORDS:
            return cls(_WORDS[text], None)
        if text.isdecimal():
            return cls(LATEST, int(text))
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(f"`{text}` is not a place", f"use {WHERE}") from None
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return cls(max(0, round(time.timestamp() * 1000)), None)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What partitions hold."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    """Exclusive, as the reader sees them."""

    @classmethod
    def of(
        cls, groups: "Groups", partitions: Sequence[TopicPartition], *, read_committed: bool = False
    ) -> "Bounds":
        """Asks the leaders. Raises `NoAnswer` when one of them does not answer."""
        starts = groups.ends(partitions, EARLIEST)
        ends = groups.ends(partitions, LATEST, read_committed=read_committed)
        unknown = [tp for tp in partitions if tp not in starts or tp not in ends]
        if unknown:
            raise NoAnswer(
                f"the leader of `{unknown[0]}` does not answer", "try again when it has a leader"
            )
        return cls(starts, ends)

    def offsets_at(self, groups: "Groups", position: Position) -> dict[TopicPartition, int]:
        """The offset in each partition; of an offset that it does not have, the nearest that it
        has, and the end where all records are older than a time."""
        if position.offset is not None:
            wanted = dict.fromkeys(self.starts, position.offset)
        else:
            known = {EARLIEST: self.starts, LATEST: self.ends}.get(position.timestamp)
            found = known or groups.ends(list(self.starts), position.timestamp)
            wanted = {tp: found.get(tp, -1) for tp in self.starts}
        return {
            tp: self.ends[tp] if offset < 0 else min(max(offset, self.starts[tp]), self.ends[tp])
            for tp, offset in wanted.items()
        }


def partitions_of(groups: "Groups", topic: str, partition: int | None) -> list[TopicPartition]:
    """The partitions of a topic, or one of them. Raises `WorkFailed` when it is not there."""
    from tidelog.client import AdminError

    try:
        found = groups.partitions_of(topic)
    except AdminError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise WorkFailed(error.message, "`tidelog topics list` shows the topics") from None
    chosen = [each for each in found if partition in (None, each.partition)]
    if not chosen:
        raise WorkFailed(
            f"`{topic}` has no partition `{partition}`",
            f"`tidelog topics describe {topic}` shows its partitions",
        )
    return chosen
