"""The options of the topic sink: the official Kafka connector's, and the delivery guarantee.

`kafka.*` options go to the client, librdkafka, by its names, which are mostly Kafka's own; TLS and
logins also by Kafka's (`client_names.py`). The user cannot set those on which the guarantee rests:

- `at-least-once`: every record is acknowledged by all in-sync replicas before the task is done.
  A task that is tried again, or a batch that is repeated, writes again.
- `exactly-once`: a task's records are one transaction (see `commits.py`). A stream names itself
  by its query's id; a batch write needs a `writeId`, by which a repetition is recognised.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.core.values import Address
from tidelog.errors import UsageError
from tidelog.pipeline.sink.client_names import for_librdkafka
from tidelog.pipeline.topics.option_names import Option, one_of
from tidelog.pipeline.topics.options import parse_bootstrap

TOPIC: Final = "topic"
GUARANTEE: Final = "deliveryGuarantee"
WRITE_ID: Final = "writeId"
AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"

_CLIENT_PREFIX: Final = "kafka."
_RESERVED: Final = ("acks", "request.required.acks", "enable.idempotence", "transactional.id")
_SPARK_OPTIONS: Final = ("checkpointlocation", "path", "queryname")
"""Options of Spark itself that it shows to every sink."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write and how, as the user gave it."""

    bootstrap: tuple[Address, ...]
    topic: str | None
    """The topic of every record; `None` if the column `topic` names it."""
    exactly_once: bool
    write_id: str | None
    """The name of a batch write; streams have their query's id."""
    client: Mapping[str, str]
    """Configuration for librdkafka, the bootstrap servers included."""


def parse_sink_options(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Reads the options of `df.write` or `df.writeStream`; names are compared without regard to
    case, and those of the client are all in lower case. Raises `UsageError`."""
    given: dict[str, str] = {}
    client: dict[str, str] = {}
    known = {name.lower(): name for name in (TOPIC, GUARANTEE, WRITE_ID)}
    for name, value in options.items():
        if name.lower().startswith(_CLIENT_PREFIX):
            client[name[len(_CLIENT_PREFIX) :].lower()] = value
        elif name.lower() in known:
            given[known[name.lower()]] = value
        elif name.lower() not in _SPARK_OPTIONS:
            raise UsageError(
                f"the tidelog sink has no option `{name}`",
                f"the options are `kafka.*`, {', '.join(f'`{one}`' for one in known.values())}",
            )
    bootstrap = _bootstrap(client)
    guarantee = one_of(given, GUARANTEE, (AT_LEAST_ONCE, EXACTLY_ONCE), AT_LEAST_ONCE)
    exactly_once = guarantee == EXACTLY_ONCE
    write_id = given.get(WRITE_ID)
    if exactly_once and not streaming and not write_id:
        raise UsageError(
            f"a batch write with `{GUARANTEE}` `{EXACTLY_ONCE}` needs a name",
            f'add `.option("{WRITE_ID}", …)`: a second write of that name writes nothing',
        )
    if write_id and (streaming or not exactly_once):
        raise UsageError(
            f"`{WRITE_ID}` is for batch writes with `{GUARANTEE}` `{EXACTLY_ONCE}`", "leave it out"
        )
    topic, client = given.get(TOPIC) or None, for_librdkafka(client)
    return SinkOptions(bootstrap, topic, exactly_once, write_id, client)


def _bootstrap(client: Mapping[str, str]) -> tuple[Address, ...]:
    text = client.get(Option.BOOTSTRAP_SERVERS.removeprefix(_CLIENT_PREFIX), "").strip()
    if not text:
        raise UsageError(
            f"the option `{Option.BOOTSTRAP_SERVERS}` is missing",
            f'add `.option("{Option.BOOTSTRAP_SERVERS}", …)` to the writer',
        )
    for name in _RESERVED:
        if name in client:
            raise UsageError(
                f"`{_CLIENT_PREFIX}{name}` is set by the sink itself",
                f"leave it out; `{GUARANTEE}` sets the delivery guarantee",
            )
    return parse_bootstrap(text)
