"""What an ingest is to do, checked before Spark starts.

Spark takes seconds to start. So `prepare` finds out before that whether the table and the
checkpoint can be used, whether they belong together, whether the topic exists, and whether every
option that was given has an effect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from tidelog.client.core.values import EARLIEST, LATEST
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.jobs.ingest_layout import (
    RAW_BYTES,
    AskedLayout,
    check_asked,
    check_partitioned,
    choose_layout,
    row_names,
    sample_of,
)
from tidelog.pipeline.places import Place, local_path
from tidelog.pipeline.tables import checkpoint
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.table import CHECKPOINTS_DIRECTORY, BronzeTable
from tidelog.pipeline.tables.table_files import parsed_schema, table_schema
from tidelog.pipeline.tables.table_schema import existing_schema
from tidelog.pipeline.tables.upserts import Upsert
from tidelog.pipeline.topics.option_names import ISOLATION_NAMES, Option
from tidelog.pipeline.topics.options import SUBSCRIPTIONS, SourceOptions, parse_options
from tidelog.pipeline.topics.stream import initial_position
from tidelog.pipeline.topics.stream_offsets import from_text, to_text
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.parsing import Layout
from tidelog.pipeline.typed.transforms import Transform
from tidelog.pipeline.values import Offsets

_TIMES: Final = (Option.STARTING_TIMESTAMP, Option.STARTING_BY_TIMESTAMP, Option.STARTING_STRATEGY)
"""Where an ingest begins; its checkpoint has the offsets that this meant."""
_BEGIN: Final = frozenset(name.lower() for name in _TIMES)
_FROZEN_OPTIONS: Final = _BEGIN | ISOLATION_NAMES
"""Options of the source that decide which records it reads, in lower case."""
_SET_BY_INGEST: Final = dict.fromkeys(
    (name.lower() for name in (*SUBSCRIPTIONS, Option.BOOTSTRAP_SERVERS, Option.STARTING_OFFSETS)),
    "use `--topic`, `--bootstrap-server` and `--starting-offsets`",
) | dict.fromkeys(
    (Option.COLUMNS.lower(), Option.INCLUDE_HEADERS.lower()),
    "leave it out: the table has every column, so that nothing of a record is lost",
)
_UPSERT_OFFSETS: Final = "2000000"
"""At most so many a batch of upserts, unless the user says another number: a task that merges
holds the changes of one bucket."""
_FOR_ENDLESS_RUNS: Final = frozenset(
    (Option.MIN_OFFSETS_PER_TRIGGER.lower(), Option.MAX_TRIGGER_DELAY.lower())
)


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What the user asked for."""

    bootstrap_servers: str
    topic: str
    table: Place
    checkpoint: Place | None = None
    """A directory; `None` for the one inside the table's, which a table in an object store does not
    have."""
    starting_offsets: str | None = None
    """Where a topic begins that the table does not have yet; `None` for `earliest`."""
    interval_s: float | None = None
    """Seconds between two batches of a continuous run; `None` for a run that ends when it has read
    what is there."""
    options: Mapping[str, str] = field(default_factory=dict)
    key: AskedLayout = RAW_BYTES
    value: AskedLayout = RAW_BYTES
    upsert: Upsert | None = None
    """How changes name the rows of a table of upserts; without fields, by the whole key. `None`
    for a table that has a row for each record."""
    transform: Transform | None = None
    partition_by: tuple[str, ...] = ()
    table_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """How the object store of the table is reached; credentials may be among them."""

    @property
    def address(self) -> TableAddress:
        """The table's. Raises `UsageError`."""
        return TableAddress.of(self.table, self.table_options)

    @property
    def checkpoint_directory(self) -> Path:
        """Raises `UsageError`."""
        if self.checkpoint is not None:
            return local_path(self.checkpoint).absolute()
        directory = self.address.directory
        if directory is None:
            raise UsageError(
                f"a checkpoint cannot be in an object store, as the table `{self.address}` is",
                "give a directory with `--checkpoint`; without it the ingest goes on where the "
                "table ends",
            )
        return directory / CHECKPOINTS_DIRECTORY / self.topic

    def source_options(self, starting: str, *, is_first: bool = False) -> dict[str, str]:
        """Options to read from `starting` on; `is_first` when that is still the user's choice."""
        given = self.options.items()
        bounds: dict[str, str] = {}
        bound = Option.MAX_OFFSETS_PER_TRIGGER
        if self.upsert is not None and bound.lower() not in map(str.lower, self.options):
            bounds[bound] = _UPSERT_OFFSETS
        return {
            **bounds,
            **{name: text for name, text in given if is_first or name.lower() not in _BEGIN},
            Option.BOOTSTRAP_SERVERS: self.bootstrap_servers,
            Option.SUBSCRIBE: self.topic,
            Option.STARTING_OFFSETS: starting,
        }


@dataclass(frozen=True, slots=True)
class Prepared:
    """Table, checkpoint and topic, checked and found to fit."""

    plan: IngestPlan
    options: SourceOptions
    table: BronzeTable
    identity: checkpoint.Identity
    starting: str
    """The source's `startingOffsets`, with every partition that the topic has now."""
    key: Layout
    value: Layout
    upsert: Upsert | None = None
    transform: Transform | None = None


def prepare(plan: IngestPlan) -> Prepared:
    """`prepare_all` for one topic."""
    return prepare_all([plan])[0]


def prepare_all(plans: Sequence[IngestPlan]) -> list[Prepared]:
    """Asks for the topics; when all are there, opens their tables (and makes them) and reads their
    checkpoints (and begins them). Raises `UsageError`, `ClusterUnavailable` and `StoreUnavailable`,
    which is one."""
    return [_open(topic) for topic in [_find(plan) for plan in plans]]


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic as it was found."""

    plan: IngestPlan
    """With an isolation level."""
    options: SourceOptions
    topic_id: str
    starts: Offsets
    """Where the ingest would begin, if the table has nothing of it."""
    undecided: Offsets
    """Where open transactions begin that the ingest waits for."""
    sample: Any
    """The first keys and values, an Arrow table; `None` where none is needed, or none is there."""
    known: checkpoint.Identity | None
    """The ingest that the checkpoint belongs to; `None` for a new one."""


def _find(plan: IngestPlan) -> _Topic:
    _check_options(plan)
    address, known = plan.address, checkpoint.read_identity(plan.checkpoint_directory)
    plan = _isolated(plan, known)
    for part, layout in (("key", plan.key), ("value", plan.value)):
        check_asked(part, layout)
    asked = plan.starting_offsets or "earliest"
    options = parse_options(plan.source_options(asked, is_first=True), streaming=True)
    with Client.of(options.rules) as client:
        leaders = client.metadata([plan.topic]).leaders
        topic_id = leaders[min(leaders)].topic_id.hex()
        starts = initial_position(options, client).offsets
        undecided = _undecided(options, client, sorted(starts)) if known is None else {}
        needs_sample = (
            plan.key.format is not Format.RAW or plan.value.format is not Format.RAW
        ) and existing_schema(address) is None
        sample = sample_of(options, client, starts) if needs_sample else None
    return _Topic(plan, options, topic_id, starts, undecided, sample, known)


def _isolated(plan: IngestPlan, known: checkpoint.Identity | None) -> IngestPlan:
    """The plan with an isolation level: that of the options, else that of the checkpoint, else
    `read_committed`."""
    options = plan.options.items()
    given = {text.lower() for name, text in options if name.lower() in ISOLATION_NAMES}
    if len(given) > 1:
        return plan  # The source refuses it.
    level = "read_committed" if known is None else known.isolation_level
    others = {name: text for name, text in options if name.lower() not in ISOLATION_NAMES}
    chosen: dict[str, str] = {Option.ISOLATION_LEVEL: given.pop() if given else level}
    return replace(plan, options={**others, **chosen})


def _undecided(
    options: SourceOptions, client: Client, partitions: Sequence[TopicPartition]
) -> Offsets:
    """The last stable offsets of partitions in which transactions are open, if the ingest waits for
    their end."""
    if not options.rules.read_committed:
        return {}
    stable, ends = (
        client.list_offsets(partitions, LATEST, read_committed=committed)
        for committed in (True, False)
    )
    return {tp: stable[tp] for tp in partitions if stable[tp] < ends[tp]}


def _check_decided(table: BronzeTable, undecided: Offsets) -> None:
    """Refuses to begin where the records are not decided yet. Raises `UsageError`."""
    for tp, stable in undecided.items():
        if tp in table.positions and table.positions[tp].end > stable:
            raise UsageError(
                f"`{table.address}` has `{tp}` up to offset {table.positions[tp].end}, and a "
                f"transaction from {stable} on is still open: it was read with `read_uncommitted`",
                "run it again when the transaction has ended, or give "
                "`--option isolation.level=read_uncommitted`",
            )


def _open(topic: _Topic) -> Prepared:
    plan, known = topic.plan, topic.known
    key = _layout("key", plan.key, plan, topic)
    value = _layout("value", plan.value, plan, topic)
    upsert = None if plan.upsert is None else row_names(plan.upsert, key)
    transform = plan.transform
    if transform is not None:
        transform = transform.planned(parsed_schema(key, value))
    check_partitioned(plan.partition_by, upsert, transform)
    table = BronzeTable.open(
        plan.address,
        plan.topic,
        topic.topic_id,
        schema=table_schema(key, value, upsert, transform, plan.partition_by),
        create=known is None,
        upsert=upsert,
        partition_by=plan.partition_by,
    )
    _check_decided(table, topic.undecided)
    birth = {
        tp: table.positions[tp].end if tp in table.positions else start
        for tp, start in sorted(topic.starts.items())
    }
    identity = checkpoint.Identity(
        app=f"tidelog-ingest-{uuid4()}",
        topic=plan.topic,
        topic_id=topic.topic_id,
        table=str(table.address),
        table_id=table.table_id,
        starting_offsets=plan.starting_offsets or "earliest",
        birth=to_text(birth),
        options={
            name: value for name, value in plan.options.items() if name.lower() in _FROZEN_OPTIONS
        },
    )
    if known is None:
        checkpoint.write_identity(plan.checkpoint_directory, identity)
    else:
        checkpoint.check_same(
            plan.checkpoint_directory, known, identity, asked=plan.starting_offsets
        )
        identity = known
        begun = from_text(known.birth)
        birth = {tp: begun.get(tp, EARLIEST) for tp in topic.starts}
    starting = checkpoint.starting_json(birth)
    if upsert is not None:
        upsert = replace(upsert, app=identity.app)
    layouts = key, value, upsert, transform
    return Prepared(plan, topic.options, table, identity, starting, *layouts)


def _layout(part: str, asked: AskedLayout, plan: IngestPlan, topic: _Topic) -> Layout:
    there = existing_schema(plan.address)
    sample = [] if topic.sample is None else topic.sample.column(part).to_pylist()
    return choose_layout(part, asked, None if there is None else there.field(part).type, sample)


def _check_options(plan: IngestPlan) -> None:
    """Refuses options of the source that would have no effect. Raises `UsageError`."""
    for name in plan.options:
        if name.lower() in _SET_BY_INGEST:
            raise UsageError(
                f"the ingest sets the source's `{name}` itself", _SET_BY_INGEST[name.lower()]
            )
        if name.lower() in _FOR_ENDLESS_RUNS and plan.interval_s is None:
            raise UsageError(
                f"`{name}` has no effect on a run that reads what is there and ends",
                "leave it out, or give `--continuous` or an interval such as `--trigger 5s`",
            )
        if name.lower() in _BEGIN and plan.starting_offsets is not None:
            raise UsageError(
                f"`{name}` and `--starting-offsets` both say where the ingest begins",
                "give one of the two",
            )
