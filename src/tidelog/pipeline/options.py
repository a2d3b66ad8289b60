"""The options of the Spark source: the official Kafka connector's names and meanings.

A wrong option is refused with one message and a hint before any broker is asked. Unlike the
connector, an option that nobody knows is refused too, because a misspelt `startingOffsets` would
otherwise silently read something else.

A batch reads from `earliest` to `latest` unless told otherwise; a stream begins at `latest`, once,
at the birth of its checkpoint, and has no end.

Offsets are `earliest`, `latest`, or JSON like `{"flights": {"0": 120, "1": -2}}`, where -2 is
earliest and -1 latest and every partition of every topic must be named.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.values import EARLIEST, LATEST, Address

BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"
SUBSCRIBE: Final = "subscribe"
STARTING_OFFSETS: Final = "startingOffsets"
ENDING_OFFSETS: Final = "endingOffsets"
MIN_PARTITIONS: Final = "minPartitions"
INCLUDE_HEADERS: Final = "includeHeaders"
MAX_OFFSETS_PER_TRIGGER: Final = "maxOffsetsPerTrigger"
FAIL_ON_DATA_LOSS: Final = "failOnDataLoss"

_KNOWN: Final = {
    name.lower(): name
    for name in (
        BOOTSTRAP_SERVERS,
        SUBSCRIBE,
        STARTING_OFFSETS,
        ENDING_OFFSETS,
        MIN_PARTITIONS,
        INCLUDE_HEADERS,
        MAX_OFFSETS_PER_TRIGGER,
        FAIL_ON_DATA_LOSS,
    )
}

OffsetChoice = int | Mapping[TopicPartition, int]
"""`EARLIEST` or `LATEST` for all partitions, or an offset for each."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read, as the user said it; nothing is resolved yet."""

    bootstrap: tuple[Address, ...]
    topics: tuple[str, ...]
    starting: OffsetChoice
    """Inclusive."""
    ending: OffsetChoice
    """Exclusive."""
    min_partitions: int
    """At least so many input partitions, if there are so many records; 0 for one per partition."""
    include_headers: bool
    max_offsets_per_trigger: int | None
    """At most so many offsets in one batch of a stream; `None` for all that are there."""
    fail_on_data_loss: bool
    """Whether records that are gone fail the query."""


def parse_options(options: Mapping[str, str], *, streaming: bool | None = False) -> SourceOptions:
    """Reads the options of `spark.read` or `spark.readStream`, or of either while nobody knows yet
    (`None`); names are compared without regard to case.

    Raises `UsageError`.
    """
    given = {}
    for name, value in options.items():
        if name.lower() not in _KNOWN:
            raise UsageError(
                f"the tidelog source has no option `{name}`",
                f"the options are {', '.join(f'`{known}`' for known in _KNOWN.values())}",
            )
        given[_KNOWN[name.lower()]] = value
    topics = _topics(given)
    if streaming and ENDING_OFFSETS in given:
        raise UsageError(f"a stream has no `{ENDING_OFFSETS}`", "read a batch, or leave it out")
    if streaming is False and MAX_OFFSETS_PER_TRIGGER in given:
        raise UsageError(
            f"`{MAX_OFFSETS_PER_TRIGGER}` is for streams", f"give `{ENDING_OFFSETS}` to a batch"
        )
    first = "latest" if streaming else "earliest"
    return SourceOptions(
        bootstrap=parse_bootstrap(_required(given, BOOTSTRAP_SERVERS)),
        topics=topics,
        starting=_offsets(
            STARTING_OFFSETS,
            given.get(STARTING_OFFSETS, first),
            topics,
            refused=LATEST if streaming is False else None,
        ),
        ending=_offsets(
            ENDING_OFFSETS, given.get(ENDING_OFFSETS, "latest"), topics, refused=EARLIEST
        ),
        min_partitions=_min_partitions(given.get(MIN_PARTITIONS, "0")),
        include_headers=_flag(INCLUDE_HEADERS, given.get(INCLUDE_HEADERS, "true")),
        max_offsets_per_trigger=_limit(given.get(MAX_OFFSETS_PER_TRIGGER)),
        fail_on_data_loss=_flag(FAIL_ON_DATA_LOSS, given.get(FAIL_ON_DATA_LOSS, "true")),
    )


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """`host:port` addresses separated by commas; IPv6 hosts in brackets. Raises `UsageError`."""
    addresses = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = item.rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
            raise UsageError(
                f"`{item}` in `{BOOTSTRAP_SERVERS}` is no address",
                "write `host:port`, several separated by commas",
            )
        addresses.append(Address(host.strip("[]"), int(port)))
    if not addresses:
        raise UsageError(f"`{BOOTSTRAP_SERVERS}` is empty", "write `host:port`")
    return tuple(addresses)


def _required(given: Mapping[str, str], name: str) -> str:
    if not given.get(name, "").strip():
        raise UsageError(
            f"the option `{name}` is missing", f'add `.option("{name}", …)` to the reader'
        )
    return given[name]


def _topics(given: Mapping[str, str]) -> tuple[str, ...]:
    names = [name.strip() for name in _required(given, SUBSCRIBE).split(",")]
    if not all(names):
        raise UsageError(
            f"`{SUBSCRIBE}` has an empty topic name: `{given[SUBSCRIBE]}`",
            "separate topic names by single commas",
        )
    return tuple(dict.fromkeys(names))


def _min_partitions(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"`{MIN_PARTITIONS}` is `{text}`", "give a number of 0 or more")
    return int(text)


def _limit(text: str | None) -> int | None:
    if text is not None and (not text.isdecimal() or int(text) < 1):
        raise UsageError(f"`{MAX_OFFSETS_PER_TRIGGER}` is `{text}`", "give a number of 1 or more")
    return None if text is None else int(text)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"`{name}` is `{text}`", "give `true` or `false`")
    return text.lower() == "true"


def _offsets(name: str, text: str, topics: tuple[str, ...], *, refused: int | None) -> OffsetChoice:
    """`refused` is the special offset that makes no sense here, if any."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        _check_direction(name, EARLIEST if word == "earliest" else LATEST, text, refused)
        return EARLIEST if word == "earliest" else LATEST
    try:
        by_topic = json.loads(text)
        chosen = {
            TopicPartition(topic, int(partition)): _offset(value)
            for topic, partitions in by_topic.items()
            for partition, value in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise UsageError(
            f"`{name}` is neither `earliest` nor `latest` nor JSON offsets: `{text}`",
            'write offsets like `{"topic": {"0": 120, "1": -2}}`',
        ) from error
    strangers = sorted({tp.topic for tp in chosen} - set(topics))
    if strangers:
        raise UsageError(
            f"`{name}` names topic `{strangers[0]}`, which `{SUBSCRIBE}` does not",
            f"the topics subscribed to are {', '.join(f'`{topic}`' for topic in topics)}",
        )
    for offset in chosen.values():
        _check_direction(name, offset, text, refused)
    return chosen


def _offset(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST:
        raise ValueError(f"{value!r} is no offset")
    return value


def _check_direction(name: str, offset: int, text: str, refused: int | None) -> None:
    """A batch cannot start at the end nor end at the start."""
    if offset == refused:
        word, other = ("latest", "earliest") if refused == LATEST else ("earliest", "latest")
        raise UsageError(
            f"`{name}` may not be {word} in a batch: `{text}`", f"give `{other}` or offsets"
        )
