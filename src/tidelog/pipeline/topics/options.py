"""The options of the Spark source: the official Kafka connector's names and meanings.

A wrong option is refused with one message and a hint before any broker is asked; unlike with the
connector, so is an unknown one, because a misspelt `startingOffsets` would silently read something
else. An option of the connector that has no effect here is refused with the reason.

A batch reads from `earliest` to `latest` by default. A stream begins at `latest`, once, when its
checkpoint is created, and has no end. `offset_choice.py` reads where a read begins and ends.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from tidelog.client.core.values import Address
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.topics.offset_choice import OffsetChoice, ending_choice, starting_choice
from tidelog.pipeline.topics.option_names import Option, one_of
from tidelog.pipeline.topics.security import split_security
from tidelog.pipeline.topics.subscription import Subscription
from tidelog.pipeline.values import ReadRules

_KNOWN: Final = {name.lower(): name for name in Option} | {
    f"kafka.{Option.ISOLATION_LEVEL}": Option.ISOLATION_LEVEL,
    f"kafka.{Option.CLIENT_RACK}": Option.CLIENT_RACK,
}
_BATCH_ONLY: Final = (Option.ENDING_OFFSETS, Option.ENDING_TIMESTAMP, Option.ENDING_BY_TIMESTAMP)
SUBSCRIPTIONS: Final = (Option.SUBSCRIBE, Option.SUBSCRIBE_PATTERN, Option.ASSIGN)
_STREAM_ONLY: Final = (
    Option.MAX_OFFSETS_PER_TRIGGER,
    Option.MIN_OFFSETS_PER_TRIGGER,
    Option.MAX_TRIGGER_DELAY,
    Option.GROUP_ID,
)
_MEANINGLESS: Final = {
    "groupidprefix": "no consumer group is made here; leave it out",
    "kafkaconsumer.polltimeoutms": "a task waits a minute for a leader; leave it out",
    "fetchoffset.numretries": "the source retries for a minute; leave it out",
    "fetchoffset.retryintervalms": "the source retries for a minute; leave it out",
    "kafka.auto.offset.reset": f"give `{Option.STARTING_OFFSETS}` instead",
    "kafka.enable.auto.commit": f"progress is committed to `{Option.GROUP_ID}`, if one is given",
    "kafka.key.deserializer": "keys come as binary; cast the column",
    "kafka.value.deserializer": "values come as binary; cast the column",
}
"""Options of the connector that have no effect here, and what to do instead."""
_UNITS_S: Final = {"": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class TaskSizes:
    """How ranges become tasks."""

    min_partitions: int = 0
    """At least so many input partitions, if there are so many records; 0 for no minimum."""
    max_records: int | None = None
    """At most so many offsets in one input partition."""


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """How much a stream takes at a time."""

    max_offsets: int | None = None
    """At most so many offsets in one batch; `None` for all that are there."""
    min_offsets: int = 0
    """No batch with fewer offsets until `max_delay_s` are over."""
    max_delay_s: float = 900.0


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read, as the user gave it; offsets are not resolved yet."""

    subscription: Subscription
    starting: OffsetChoice
    """Inclusive."""
    ending: OffsetChoice
    """Exclusive."""
    rules: ReadRules
    sizes: TaskSizes
    trigger: TriggerLimits
    columns: tuple[str, ...] | None
    """The columns of the source; `None` for the default ones, with or without headers."""
    include_headers: bool
    commit_group: str | None
    """The consumer group to which a stream's progress is committed."""


def parse_options(options: Mapping[str, str], *, streaming: bool | None = False) -> SourceOptions:
    """Reads the options of `spark.read` or `spark.readStream`, or of either when that is not known
    yet (`None`). Names are compared without regard to case. Raises `UsageError`."""
    security, others = split_security(options)
    given = _known_options(others)
    _check_mode(given, streaming)
    bootstrap = parse_bootstrap(_required(given, Option.BOOTSTRAP_SERVERS))
    subscription = _subscription(given)
    isolation_levels = "read_committed", "read_uncommitted"
    isolation = one_of(given, Option.ISOLATION_LEVEL, isolation_levels, "read_uncommitted")
    return SourceOptions(
        subscription=subscription,
        starting=starting_choice(given, subscription, streaming=streaming),
        ending=ending_choice(given, subscription),
        rules=ReadRules(
            bootstrap=bootstrap,
            read_committed=isolation == "read_committed",
            rack=given.get(Option.CLIENT_RACK, ""),
            fail_on_data_loss=_flag(given, Option.FAIL_ON_DATA_LOSS),
            security=security,
        ),
        sizes=TaskSizes(
            min_partitions=_number(given, Option.MIN_PARTITIONS, 0) or 0,
            max_records=_number(given, Option.MAX_RECORDS_PER_PARTITION, 1),
        ),
        trigger=_trigger(given),
        columns=_names(Option.COLUMNS, given[Option.COLUMNS]) if Option.COLUMNS in given else None,
        include_headers=_flag(given, Option.INCLUDE_HEADERS),
        commit_group=given.get(Option.GROUP_ID),
    )


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """`host:port` addresses separated by commas; IPv6 hosts in brackets. Raises `UsageError`."""
    addresses = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        address = Address.parse(item)
        if address is None:
            raise UsageError(
                f"`{item}` in `{Option.BOOTSTRAP_SERVERS}` is not an address",
                "write `host:port`, several separated by commas",
            )
        addresses.append(address)
    if not addresses:
        raise UsageError(f"`{Option.BOOTSTRAP_SERVERS}` is empty", "write `host:port`")
    return tuple(addresses)


def _known_options(options: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in options.items():
        known = _KNOWN.get(name.lower())
        if known is None:
            raise UsageError(f"the tidelog source has no option `{name}`", _advice(name.lower()))
        if given.setdefault(known, value) != value:
            raise UsageError(f"`{known}` is given twice, with different values", "give it once")
    return given


def _advice(name: str) -> str:
    if name in _MEANINGLESS:
        return _MEANINGLESS[name]
    close = get_close_matches(name, _KNOWN, n=1)
    meant = f"did you mean `{_KNOWN[close[0]]}`? " if close else ""
    return f"{meant}the options are {', '.join(f'`{known}`' for known in Option)}"


def _check_mode(given: Mapping[str, str], streaming: bool | None) -> None:
    for name in _BATCH_ONLY if streaming else ():
        if name in given:
            raise UsageError(f"a stream has no `{name}`", "read a batch, or leave it out")
    for name in _STREAM_ONLY if streaming is False else ():
        if name in given:
            raise UsageError(
                f"`{name}` is for streams", f"leave it out, or give `{Option.ENDING_OFFSETS}`"
            )


def _required(given: Mapping[str, str], name: str) -> str:
    if given.get(name, "").strip():
        return given[name]
    raise UsageError(f"the option `{name}` is missing", f'add `.option("{name}", …)` to the reader')


def _subscription(given: Mapping[str, str]) -> Subscription:
    ways = [name for name in SUBSCRIPTIONS if name in given]
    if len(ways) > 1:
        raise UsageError(f"`{ways[0]}` and `{ways[1]}` are both given", "give one of the two")
    if Option.SUBSCRIBE_PATTERN in given:
        pattern = given[Option.SUBSCRIBE_PATTERN]
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(
                f"`{Option.SUBSCRIBE_PATTERN}` is not a regular expression: `{pattern}`: {error}",
                "write one that matches whole topic names, like `orders.*`",
            ) from None
        return Subscription(pattern=pattern)
    if Option.ASSIGN in given:
        return Subscription(assigned=_assigned(given[Option.ASSIGN]))
    if not given.get(Option.SUBSCRIBE, "").strip():
        raise UsageError(
            "the query names no topic: `subscribe`, `subscribePattern` or `assign` is missing",
            f'add `.option("{Option.SUBSCRIBE}", "orders,edge")` to the reader, '
            f'`.option("{Option.SUBSCRIBE_PATTERN}", "orders.*")`, or '
            f'`.option("{Option.ASSIGN}", \'{{"orders": [0, 1]}}\')`',
        )
    return Subscription(topics=_names(Option.SUBSCRIBE, given[Option.SUBSCRIBE]))


def _assigned(text: str) -> frozenset[TopicPartition]:
    try:
        pairs = [(topic, number) for topic, found in json.loads(text).items() for number in found]
        if not pairs or not all(type(number) is int and number >= 0 for _, number in pairs):
            raise ValueError(text)
    except (ValueError, AttributeError, TypeError):
        raise UsageError(
            f"`{Option.ASSIGN}` is not JSON of partition numbers by topic: `{text}`",
            'write them like `{"topic": [0, 1]}`',
        ) from None
    return frozenset(TopicPartition(topic, number) for topic, number in pairs)


def _names(option: str, text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(
            f"`{option}` has an empty name: `{text}`", "separate names by single commas"
        )
    return tuple(dict.fromkeys(names))


def _trigger(given: Mapping[str, str]) -> TriggerLimits:
    most = _number(given, Option.MAX_OFFSETS_PER_TRIGGER, 1)
    least = _number(given, Option.MIN_OFFSETS_PER_TRIGGER, 1) or 0
    if most is not None and least > most:
        raise UsageError(
            f"`minOffsetsPerTrigger` `{least}` is more than `maxOffsetsPerTrigger`",
            "give a smaller number",
        )
    text = given.get(Option.MAX_TRIGGER_DELAY, "15m")
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _UNITS_S:
        raise UsageError(f"`maxTriggerDelay` is `{text}`", "give a time like `15m` or `30s`")
    return TriggerLimits(most, least, int(match[1]) * _UNITS_S[match[2]])


def _number(given: Mapping[str, str], name: str, lowest: int) -> int | None:
    text = given.get(name)
    if text is not None and (not text.isdecimal() or int(text) < lowest):
        raise UsageError(f"`{name}` is `{text}`", f"give a number of {lowest} or more")
    return None if text is None else int(text)


def _flag(given: Mapping[str, str], name: str) -> bool:
    return one_of(given, name, ("true", "false"), "true") == "true"
