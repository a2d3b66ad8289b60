"""`tidelog spark ingest`: topics into Delta tables.

An ingest is prepared before Spark starts, so that a wrong path or topic is reported at once.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from tidelog.cli import terminal
from tidelog.cli.arguments import (
    DEFAULT_DATA_DIR,
    Bootstrap,
    assignments,
    find_bootstrap,
    option,
    security,
)
from tidelog.cli.spark_failures import damaged, spark_failure, unreachable
from tidelog.cli.spark_ingest_report import Done, print_done, schemas_of, show_topic, shown_progress
from tidelog.cli.spark_job import Master, check_master, interruptible, needs_spark, open_session
from tidelog.cli.spark_tables import Table, TableOptions
from tidelog.cli.terminal import TABLE, BadAnswer, NoAnswer, Output, WorkFailed
from tidelog.errors import UsageError
from tidelog.pipeline.typed.formats import Format, Mode

if TYPE_CHECKING:
    from tidelog.pipeline.jobs.ingest_plan import IngestPlan
    from tidelog.pipeline.jobs.ingest_topics import Topics as ChosenTopics
    from tidelog.pipeline.tables.addresses import TableAddress

MASTER: Final = "local[*,4]"
"""All cores; a task whose worker dies is tried again, which plain `local[*]` would not do."""
_EACH: Final = "{topic}"
"""In a path: the name of each topic."""
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}

Topics = Annotated[
    list[str] | None, option("--topic", "A topic to read; give it several times.", "NAME")
]
Pattern = Annotated[
    str | None,
    option(
        "--topic-pattern",
        "All topics whose whole name matches; new ones join a run without an end.",
        "REGEX",
    ),
]
Checkpoint = Annotated[
    Path | None,
    option(
        "--checkpoint",
        "A directory where Spark notes its batches. Default: inside the table's.",
        "DIR",
    ),
]
Trigger = Annotated[
    str | None,
    option(
        "--trigger",
        "availableNow (the default): read what is there and end. An interval such as 5s: "
        "a batch each time, until interrupted.",
        "WHEN",
    ),
]
Continuous = Annotated[
    bool, option("--continuous", "One batch after the other, until interrupted.")
]
StartingOffsets = Annotated[
    str | None,
    option(
        "--starting-offsets",
        "Where to begin what the table does not have: earliest (the default), latest, or "
        "JSON as the source takes it.",
        "WHERE",
    ),
]
Verify = Annotated[
    bool, option("--verify", "At the end, check the whole table against its accounts.")
]
KeyFormat = Annotated[
    Format,
    option(
        "--key-format", "What keys are: raw bytes, string, json, csv, avro or protobuf.", "FORMAT"
    ),
]
KeySchema = Annotated[Path | None, option("--key-schema", "The same for keys.", "FILE")]
ValueFormat = Annotated[
    Format,
    option(
        "--value-format",
        "What values are: raw bytes, string, json, csv, avro or protobuf.",
        "FORMAT",
    ),
]
ValueSchema = Annotated[
    Path | None,
    option(
        "--value-schema",
        "The fields, in a file: `id bigint, …`, an Avro schema, or a Protobuf descriptor set.",
        "FILE",
    ),
]
Registry = Annotated[
    str,
    option(
        "--registry",
        "Schema registry of avro and protobuf: values begin with the id of their schema.",
        "URL",
    ),
]
TableMode = Annotated[
    Mode,
    option(
        "--mode",
        "append: a row for each record. upsert: a row for each key, its newest record's.",
        "MODE",
    ),
]
RowKey = Annotated[
    str | None,
    option(
        "--key",
        "What names a row for upsert: fields of the record's key. Default: all of it.",
        "FIELD,…",
    ),
]
TransformName = Annotated[
    str | None,
    option(
        "--transform",
        "A function from Arrow table to Arrow table that adds columns to parsed rows.",
        "MODULE:FUNCTION",
    ),
]
PartitionBy = Annotated[
    str | None,
    option(
        "--partition-by",
        "Divide the table by `date`, the day of the record, or by columns that a transform adds.",
        "NAME,…",
    ),
]
SourceOptions = Annotated[
    list[str] | None,
    option("--option", "An option of the source; give it several times.", "NAME=VALUE"),
]
MetricsPort = Annotated[
    int | None,
    option("--metrics-port", "Serve Prometheus metrics of the run on this port.", "PORT"),
]
Conf = Annotated[
    list[str] | None, option("--conf", "A conf of Spark's; several times.", "NAME=VALUE")
]


def ingest(
    table: Table,
    table_options: TableOptions = None,
    topics: Topics = None,
    topic_pattern: Pattern = None,
    bootstrap: Bootstrap = None,
    checkpoint: Checkpoint = None,
    trigger: Trigger = None,
    continuous: Continuous = False,
    starting_offsets: StartingOffsets = None,
    key_format: KeyFormat = Format.RAW,
    key_schema: KeySchema = None,
    value_format: ValueFormat = Format.RAW,
    value_schema: ValueSchema = None,
    registry: Registry = "",
    mode: TableMode = Mode.APPEND,
    key: RowKey = None,
    transform: TransformName = None,
    partition_by: PartitionBy = None,
    verify: Verify = False,
    options: SourceOptions = None,
    metrics_port: MetricsPort = None,
    conf: Conf = None,
    master: Master = MASTER,
    output: Output = TABLE,
) -> None:
    """Copy topics into a Delta table, every record exactly once, with its lineage.

    Several topics share the table, side by side; with `{topic}` in its path each has one of its
    own. The table knows how far it has each partition: after a crash, or with a new checkpoint, the
    ingest goes on where the table ends. Each batch is accounted for in the table `_continuity`
    beside the rows; records that do not parse are in the table `_quarantine`. Exit code 1 when
    offsets are missing without a reason, came twice, or leader epochs went back.
    """
    given: dict[str, Any] = {"interval_s": _interval(trigger, continuous)}
    names = _topics(topics, topic_pattern, checkpoint)
    servers = ",".join(find_bootstrap(bootstrap, DEFAULT_DATA_DIR))
    login = _connection(bootstrap)
    given |= {"starting_offsets": starting_offsets, "table_options": assignments(table_options)}
    given["options"] = {**login, **assignments(options)}
    rows = _upsert_key(mode, key), transform, partition_by
    _check_registry(registry, (key_format, value_format))
    asked = {"key": (key_format, key_schema), "value": (value_format, value_schema)}

    def plan(topic: str) -> "IngestPlan":
        from tidelog.pipeline.jobs.ingest_plan import IngestPlan

        fields = given | _layouts(topic, asked, registry) | _rows(*rows)
        return IngestPlan(servers, topic, _of(topic, table), _of_any(topic, checkpoint), **fields)

    with needs_spark(), _named_failures(names or [str(topic_pattern)], table):
        from tidelog.pipeline.jobs.ingest_topics import Topics as ChosenTopics

        connection = {"kafka.bootstrap.servers": servers, **login}
        chosen = ChosenTopics(connection, names, topic_pattern, plan, show_topic)
        where = master, assignments(conf)
        done = _run(chosen, table, where, metrics_port, verify=verify)
    print_done(done, output)
    if not all(one.is_good for one in done):
        raise BadAnswer


def _run(
    chosen: "ChosenTopics",
    table: str,
    where: tuple[str, dict[str, str]],
    metrics_port: int | None,
    *,
    verify: bool,
) -> list[Done]:
    """Prepares the topics, starts Spark by its master and confs, and runs the ingest to its end."""
    from tidelog.pipeline.jobs.ingest import Progress, ingest_all
    from tidelog.pipeline.jobs.ingest_metrics import served_metrics

    check_master(*where)
    prepared = chosen.first()
    is_endless = prepared[0].plan.interval_s is not None
    with (
        served_metrics(metrics_port) as metrics,
        open_session(*where) as spark,
        interruptible() as is_over,
        shown_progress(is_endless=is_endless) as show,
    ):

        def on_progress(far: Progress) -> None:
            metrics.take(far)
            show(far)

        joining = chosen.joining if chosen.may_grow else None
        results = ingest_all(spark, prepared, on_progress, is_over, joining)
        tables = {topic: chosen.prepared[topic].table.address for topic in results}
        checked = dict.fromkeys(tables.values()) if verify else {}
        faults = {one: _faults(spark, one) for one in checked}
    return [
        Done(topic, _of(topic, table), result, faults.get(tables[topic]), schemas_of(one))
        for topic, result in results.items()
        for one in [chosen.prepared[topic]]
    ]


def _connection(bootstrap: str | None) -> dict[str, str]:
    """TLS and login of the cluster, as options of the source. Raises `UsageError`."""
    from tidelog.pipeline.topics.security import as_options

    return as_options(security(bootstrap, DEFAULT_DATA_DIR).settings)


def _rows(
    upsert_key: tuple[str, ...] | None, transform: str | None, partition_by: str | None
) -> dict[str, Any]:
    """What the options say of the table's rows, as fields of a plan. Raises `UsageError`."""
    from tidelog.pipeline.tables.upserts import Upsert
    from tidelog.pipeline.typed.transforms import load_transform

    columns = (partition_by or "").split(",")
    return {
        "upsert": None if upsert_key is None else Upsert(upsert_key),
        "transform": None if transform is None else load_transform(transform),
        "partition_by": tuple(name.strip() for name in columns if name),
    }


def _topics(
    topics: list[str] | None, pattern: str | None, checkpoint: Path | None
) -> list[str] | None:
    """The topics that are named; `None` for a pattern. Raises `UsageError` unless it is one of the
    two, for a topic that is named twice, and where topics would share a checkpoint."""
    if (topics is None) == (pattern is None):
        raise UsageError(
            "`--topic` and `--topic-pattern` both say what is read"
            if topics
            else "what is read is not said",
            "give `--topic NAME`, several times if you want, or `--topic-pattern REGEX`",
        )
    if topics is not None and len(set(topics)) < len(topics):
        raise UsageError("`--topic` names a topic twice", "name each topic once")
    several = topics is None or len(topics) > 1
    if checkpoint is not None and several and _EACH not in str(checkpoint):
        raise UsageError(
            f"`--checkpoint {checkpoint}` would be the checkpoint of several topics",
            f"leave it out, or put `{_EACH}` into it: each topic has a checkpoint of its own",
        )
    return topics


def _of(topic: str, place: str) -> str:
    return place.replace(_EACH, topic)


def _faults(spark: Any, table: "TableAddress") -> list[Any]:
    """What is wrong with the whole table, by its rows."""
    from tidelog.pipeline.jobs.table import (
        faults,
        read_accounts,
        read_quarantine,
        read_table,
        row_key,
    )

    with terminal.progress("checking the table"):
        reads = read_table, read_accounts, read_quarantine
        rows, accounts, quarantine = (read(spark, table) for read in reads)
        return faults(rows, accounts, quarantine, row_key(table))


def _of_any(topic: str, place: Path | None) -> Path | None:
    return None if place is None else Path(_of(topic, str(place)))


def _layouts(
    topic: str, asked: Mapping[str, tuple[Format, Path | None]], registry: str
) -> dict[str, Any]:
    """What the options say of the keys and values of a topic, as fields of a plan. Raises
    `UsageError`."""
    from tidelog.pipeline.jobs.ingest_layout import AskedLayout
    from tidelog.pipeline.typed.definitions import named_schema

    found = {}
    for part, (what, schema) in asked.items():
        subject = f"{topic}-{part}"
        named = named_schema(what, _of_any(topic, schema), registry, subject)
        found[part] = AskedLayout(what, *named)
    return found


def _check_registry(registry: str, formats: Sequence[Format]) -> None:
    if registry and not any(one.is_decoded for one in formats):
        raise UsageError(
            f"`--registry {registry}` has no effect on keys and values of other formats",
            "leave it out, or give `--value-format avro` or `protobuf`",
        )


def _upsert_key(mode: Mode, key: str | None) -> tuple[str, ...] | None:
    """The fields that name a row; `None` for a table that has a row for each record."""
    if mode is Mode.APPEND:
        if key is not None:
            raise UsageError(
                f"`--key {key}` has no effect with `--mode append`: each record is a row",
                "give `--mode upsert`, or leave `--key` out",
            )
        return None
    return () if key in (None, "key") else tuple(name.strip() for name in key.split(","))


def _interval(trigger: str | None, continuous: bool) -> float | None:
    """Seconds between batches; `None` for a run that ends by itself."""
    if trigger is not None and continuous:
        raise UsageError(
            f"`--continuous` has no pause between batches, `--trigger {trigger}` says when they "
            "begin",
            "give one of the two",
        )
    if trigger is None:
        return 0.0 if continuous else None
    if trigger == "availableNow":
        return None
    found = re.fullmatch(r"(\d+)(ms|s|m)", trigger)
    if not found:
        raise UsageError(
            f"`--trigger` is `{trigger}`", "give `availableNow` or an interval such as `5s`"
        )
    return int(found[1]) * _UNITS[found[2]]


@contextmanager
def _named_failures(topics: Sequence[str], table: str) -> Iterator[None]:
    """Failures, with the topics and the table. Raises `WorkFailed`, `UsageError`."""
    from tidelog.pipeline.errors import (
        ClusterUnavailable,
        JobFailed,
        OtherWriter,
        TableConflict,
        TableDamaged,
    )

    try:
        yield
    except TableDamaged as error:
        raise damaged(error) from error
    except OtherWriter as error:
        raise NoAnswer(str(error), "end the other ingest of this topic, or wait for it") from error
    except TableConflict as error:
        raise WorkFailed(
            str(error),
            "end the other ingest of this topic; or, if the checkpoint is older than the table, "
            "give a new `--checkpoint`: the ingest goes on where the table ends",
        ) from error
    except JobFailed as error:
        found = spark_failure(str(error))
        hint = str(error).partition("\nhint: ")[2]
        raise type(found)(
            f"the ingest of `{', '.join(topics)}` into `{table}` ended: {found.message}",
            hint or "table and checkpoint are usable as they are; fix the cause and run it again",
        ) from error
    except ClusterUnavailable as error:
        raise unreachable(error) from error
