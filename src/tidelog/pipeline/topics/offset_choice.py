"""Where a read begins and ends, as the user gives it: the connector's offset and time options.

Offsets are `earliest`, `latest`, or JSON like `{"flights": {"0": 120, "1": -2}}`, where -2 is
earliest and -1 latest and every partition of every topic must be named. Times are milliseconds
since 1970: one for all partitions (`startingTimestamp`), or the same JSON
(`startingOffsetsByTimestamp`). A time means the first offset whose timestamp is at least that.
Where no record is that late, an end is the end of the log, and a start is an error, or the end of
the log by `startingOffsetsByTimestampStrategy=latest`. The one timestamp wins over timestamps by
partition, and these over offsets, as with the connector.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.client.core.values import EARLIEST, LATEST
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.topics.option_names import Option, one_of
from tidelog.pipeline.topics.subscription import Subscription
from tidelog.pipeline.values import Offsets

_EXAMPLE: Final = '`{"topic": {"0": 120, "1": -2}}`'
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class ByTimestamp:
    """The first records with these timestamps or later."""

    option: str
    """The option that gives them."""
    timestamps: int | Mapping[TopicPartition, int]
    """In ms since 1970; for all partitions, or for each."""
    else_latest: bool
    """Whether the end of the log stands in where no record is that late; else it is an error."""


OffsetChoice = int | Mapping[TopicPartition, int] | ByTimestamp
"""`EARLIEST` or `LATEST` for all partitions, an offset for each, or times."""


def starting_choice(
    given: Mapping[str, str], subscription: Subscription, *, streaming: bool | None
) -> OffsetChoice:
    """Where to begin, inclusive. Raises `UsageError`."""
    strategy = one_of(given, Option.STARTING_STRATEGY, ("error", "latest"), "error")
    names = Option.STARTING_TIMESTAMP, Option.STARTING_BY_TIMESTAMP, Option.STARTING_OFFSETS
    default = "latest" if streaming else "earliest"
    refused = "latest" if streaming is False else None
    return _choice(given, names, default, subscription, refused, else_latest=strategy == "latest")


def ending_choice(given: Mapping[str, str], subscription: Subscription) -> OffsetChoice:
    """Where a batch ends, exclusive. Raises `UsageError`."""
    names = Option.ENDING_TIMESTAMP, Option.ENDING_BY_TIMESTAMP, Option.ENDING_OFFSETS
    return _choice(given, names, "latest", subscription, "earliest", else_latest=True)


def _choice(
    given: Mapping[str, str],
    names: tuple[Option, Option, Option],
    default: str,
    subscription: Subscription,
    refused: str | None,
    *,
    else_latest: bool,
) -> OffsetChoice:
    """What the first of the three options that is given names. `refused` makes no sense here: a
    batch cannot start at the end nor end at the start."""
    for_all, by_partition, by_offset = names
    if for_all in given:
        text = given[for_all].strip()
        if not text.isdecimal():
            raise UsageError(
                f"`{for_all}` is `{text}`", "give milliseconds since 1970, `1700000000000`"
            )
        return ByTimestamp(for_all, int(text), else_latest)
    if by_partition in given:
        text = given[by_partition]
        times = _by_partition(by_partition, text, subscription, lowest=0)
        return ByTimestamp(by_partition, times, else_latest)
    text = given.get(by_offset, default)
    word = text.strip().lower()
    chosen = _WORDS.get(word) or _by_partition(by_offset, text, subscription, lowest=EARLIEST)
    offsets = [chosen] if isinstance(chosen, int) else chosen.values()
    if refused is not None and _WORDS[refused] in offsets:
        (other,) = _WORDS.keys() - {refused}
        raise UsageError(
            f"`{by_offset}` may not be {refused} in a batch: `{text}`", f"give `{other}` or offsets"
        )
    return chosen


def _by_partition(
    name: str, text: str, subscription: Subscription, lowest: int
) -> dict[TopicPartition, int]:
    try:
        chosen = {
            TopicPartition(topic, int(partition)): _number(value, lowest)
            for topic, partitions in json.loads(text).items()
            for partition, value in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        wanted = "" if lowest == 0 else "`earliest`, `latest` or "
        raise UsageError(
            f"`{name}` is not {wanted}JSON by topic and partition: `{text}`",
            f"write numbers like {_EXAMPLE}",
        ) from error
    names = subscription.names
    strangers = sorted({tp.topic for tp in chosen} - names) if names is not None else []
    if strangers:
        raise UsageError(
            f"`{name}` names topic `{strangers[0]}`, which the query does not read",
            f"it reads the {subscription}",
        )
    return chosen


def _number(value: Any, lowest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
        raise ValueError(f"{value!r} is not allowed")
    return value


Lookup = Callable[[Mapping[TopicPartition, int]], Offsets]
"""The first offset at or after a timestamp for each partition; -1 where no record is that late."""


def resolve_choice(
    name: str, choice: OffsetChoice, earliest: Offsets, latest: Offsets, lookup: Lookup
) -> dict[TopicPartition, int]:
    """The offset of every partition of `earliest`. Raises `UsageError`."""
    if isinstance(choice, ByTimestamp):
        return _resolve_timestamps(choice, latest, lookup)
    if isinstance(choice, int):
        return dict(earliest if choice == EARLIEST else latest)
    check_complete(name, choice, earliest, "-2 is earliest, -1 latest")
    special = {EARLIEST: earliest, LATEST: latest}
    return {
        tp: special[offset][tp] if offset in special else offset for tp, offset in choice.items()
    }


def _resolve_timestamps(
    choice: ByTimestamp, latest: Offsets, lookup: Lookup
) -> dict[TopicPartition, int]:
    name, timestamps = choice.option, choice.timestamps
    if isinstance(timestamps, int):
        timestamps = dict.fromkeys(latest, timestamps)
    check_complete(name, timestamps, latest, "the times are ms since 1970")
    resolved = {}
    for tp, offset in lookup(timestamps).items():
        if offset < 0 and not choice.else_latest:
            raise UsageError(
                f"`{name}`: no record of `{tp}` has a timestamp of `{timestamps[tp]}` or later",
                f"give an earlier time, or `{Option.STARTING_STRATEGY}=latest` to begin at the end",
            )
        resolved[tp] = latest[tp] if offset < 0 else min(offset, latest[tp])
    return resolved


def check_complete(
    name: str,
    choice: Mapping[TopicPartition, int],
    partitions: Mapping[TopicPartition, int],
    numbers: str,
) -> None:
    """Raises `UsageError` unless exactly these partitions are named. `numbers` says what the
    choice's numbers mean."""
    for given, wanted, verb in (
        (choice, partitions, "names `{}`, which does not exist"),
        (partitions, choice, "does not name `{}`"),
    ):
        strangers = sorted(set(given) - set(wanted))
        if strangers:
            raise UsageError(
                f"`{name}` {verb.format(strangers[0])}",
                f"name every partition of the topic and no other; {numbers}",
            )
