"""`tidelog spark ingest`, `compact` and `checkpoint show`: topics into Delta tables.

An ingest is prepared before Spark starts, so that a wrong path or topic is reported at once.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from tidelog.cli import terminal
from tidelog.cli.arguments import (
    DEFAULT_DATA_DIR,
    Bootstrap,
    argument,
    assignments,
    command,
    command_group,
    find_bootstrap,
    option,
)
from tidelog.cli.spark_failures import spark_failure, unreachable
from tidelog.cli.spark_job import Master, check_master, interruptible, needs_spark, open_session
from tidelog.cli.terminal import (
    TABLE,
    BadAnswer,
    NoAnswer,
    Output,
    OutputFormat,
    WorkFailed,
    counted,
)
from tidelog.errors import UsageError

MASTER: Final = "local[*,4]"
"""All cores; a task whose worker dies is tried again, which plain `local[*]` would not do."""
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}

checkpoint_app = command_group("Checkpoints of ingests.", no_args_is_help=True)

Table = Annotated[Path, option("--table", "The Delta table's directory.", "PATH")]


Topic = Annotated[str, option("--topic", "The topic to read.", "NAME")]
Checkpoint = Annotated[
    Path | None,
    option(
        "--checkpoint",
        "Where Spark notes its batches. Default: inside the table's directory.",
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
SourceOptions = Annotated[
    list[str] | None,
    option("--option", "An option of the source; give it several times.", "NAME=VALUE"),
]
Conf = Annotated[
    list[str] | None, option("--conf", "A conf of Spark's; several times.", "NAME=VALUE")
]


def ingest(
    topic: Topic,
    table: Table,
    bootstrap_server: Bootstrap = None,
    checkpoint: Checkpoint = None,
    trigger: Trigger = None,
    continuous: Continuous = False,
    starting_offsets: StartingOffsets = None,
    verify: Verify = False,
    options: SourceOptions = None,
    conf: Conf = None,
    master: Master = MASTER,
    output: Output = TABLE,
) -> None:
    """Copy a topic into a Delta table, every record exactly once, with its lineage.

    The table knows how far it has each partition: after a crash, or with a new checkpoint, the
    ingest goes on where the table ends. Each batch is accounted for in the table `_continuity`
    beside the rows. Exit code 1 when offsets are missing without a reason, came twice, or leader
    epochs went back.
    """
    interval_s = _interval(trigger, continuous)
    check_master(master, assignments(conf))
    bootstrap = ",".join(find_bootstrap(bootstrap_server, DEFAULT_DATA_DIR))
    with needs_spark(), _named_failures(topic, table):
        from tidelog.pipeline.jobs.ingest import ingest as run_ingest
        from tidelog.pipeline.jobs.ingest_plan import IngestPlan, prepare

        prepared = prepare(
            IngestPlan(
                bootstrap,
                topic,
                table,
                checkpoint,
                starting_offsets,
                interval_s,
                assignments(options),
            )
        )
        with (
            open_session(master, assignments(conf)) as spark,
            interruptible() as is_over,
            _shown_progress(is_endless=interval_s is not None) as on_progress,
        ):
            result = run_ingest(spark, prepared, on_progress, is_over)
            faults = _faults(spark, table) if verify else None
    _report(result, faults, table, output)
    if faults or not result.is_clean:
        raise BadAnswer


def _faults(spark: Any, table: Path) -> list[Any]:
    """What is wrong with the whole table, by its rows."""
    from tidelog.pipeline.jobs.table import faults, read_accounts, read_table

    with terminal.progress("checking the table"):
        return faults(read_table(spark, table), read_accounts(spark, table))


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
def _named_failures(topic: str, table: Path) -> Iterator[None]:
    """Failures, with the topic and the table. Raises `WorkFailed`, `UsageError`."""
    from tidelog.pipeline.errors import ClusterUnavailable, JobFailed, OtherWriter, TableConflict

    try:
        yield
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
            f"the ingest of `{topic}` into `{table}` ended: {found.message}",
            hint or "table and checkpoint are usable as they are; fix the cause and run it again",
        ) from error
    except ClusterUnavailable as error:
        raise unreachable(error) from error


@contextmanager
def _shown_progress(*, is_endless: bool) -> Iterator[Any]:
    """Shows how far the ingest is: on a terminal a line that changes; elsewhere, in a run without
    an end, one line of JSON for each batch. Both go to stderr."""
    import sys

    if not sys.stderr.isatty():
        yield _print_batch if is_endless else lambda far: None
        return
    from rich.console import Console

    with Console(stderr=True).status("waiting for the first batch") as status:
        yield lambda far: status.update(progress_line(far))


def _print_batch(far: Any) -> None:
    terminal.print_aside(json.dumps({"at": datetime.now(UTC).isoformat(), **terminal.plain(far)}))


def progress_line(far: Any) -> str:
    """`12,000 rows in 3 batches, 80 behind, 4,000 rows/s, newest record 0.8 s old`."""
    parts = [f"{counted(far.rows, 'row')} in {counted(far.batches, 'batch', 'batches')}"]
    parts += [] if far.lag is None else [f"{far.lag:,} behind"]
    parts.append(f"{far.rows_per_s:,.0f} rows/s")
    parts += [] if far.newest_age_s is None else [f"newest record {far.newest_age_s:,.1f} s old"]
    return ", ".join(parts)


def _report(result: Any, faults: list[Any] | None, table: Path, output: OutputFormat) -> None:
    """`faults` is `None` when the table was not verified."""
    if output is OutputFormat.JSON:
        verified = {} if faults is None else {"faults": terminal.plain(faults)}
        terminal.print_json(
            {"table": str(table), "clean": result.is_clean, **terminal.plain(result), **verified}
        )
        return
    terminal.print_table("", ("partition", "next offset"), sorted(result.positions.items()))
    for violation in (*result.violations, *(faults or ())):
        terminal.print_line(str(violation))
    repeated = f", {result.repeated_batches} run again" if result.repeated_batches else ""
    verdict = "continuous" if result.is_clean else "NOT continuous"
    terminal.print_line(
        f"{counted(result.rows, 'row')} in {counted(result.batches, 'batch', 'batches')}"
        f"{repeated}, {counted(result.control_rows, 'control record')}, "
        f"{counted(result.gap_rows, 'offset')} missing, in "
        f"{result.seconds:.1f} s: {verdict}"
    )
    if faults is not None:
        found = f"{counted(len(faults), 'fault')}" if faults else "rows and accounts agree"
        terminal.print_line(f"the whole table, verified: {found}")


# Compaction ----------------------------------------------------------------------------------


def compact(
    table: Table,
    target_mb: Annotated[
        int, option("--target-mb", "About how large files become.", "MB", min=1)
    ] = 128,
    vacuum_hours: Annotated[
        int | None,
        option(
            "--vacuum-hours",
            "Remove files from the disk that the table has not named for so long; its older "
            "versions are gone then. At least 1.",
            "H",
        ),
    ] = None,
    output: Output = TABLE,
) -> None:
    """Rewrite a table's small files into large ones, and check that the rows are the same.

    Readers and a running ingest are not disturbed. Starts no Spark.
    """
    with needs_spark():
        from tidelog.pipeline.errors import OtherWriter, TableConflict
        from tidelog.pipeline.tables.compaction import compact as run_compaction
    try:
        with terminal.progress("rewriting small files"):
            done = run_compaction(table, target_bytes=target_mb << 20, vacuum_hours=vacuum_hours)
    except OtherWriter as error:
        hint = "run it again when no other job rewrites the table"
        raise NoAnswer(str(error), hint) from error
    except TableConflict as error:
        hint = "the version that the message names is right; report this as a bug"
        raise WorkFailed(str(error), hint) from error
    terminal.print_answer(
        output,
        terminal.plain(done),
        f"{done.files_before} files became {done.files_after}: {done.rewritten} were rewritten "
        f"with {done.rows:,} rows, {done.vacuumed} removed from the disk; version {done.version}",
    )


# Checkpoints ---------------------------------------------------------------------------------


@command(checkpoint_app, "show", "spark checkpoint show tables/orders/_checkpoints/orders")
def checkpoint_show(
    directory: Annotated[Path, argument("DIR", "The checkpoint.")], output: Output = TABLE
) -> None:
    """Show what a checkpoint is about, which ranges it planned, and which are committed."""
    from tidelog.pipeline.tables.checkpoint import describe

    found = describe(directory)
    if output is OutputFormat.JSON:
        terminal.print_json(found)
        return
    identity = found["identity"] or {}
    about = [(name, str(identity[name])) for name in ("topic", "table", "app") if name in identity]
    about += [("begun at", _offsets(identity["birth"]))] if identity else []
    about += [(f"option {name}", value) for name, value in identity.get("options", {}).items()]
    terminal.print_table("", ("checkpoint", str(directory)), about)
    rows = [
        (one["batch"], "committed" if one["committed"] else "planned", ranges)
        for one in found["batches"]
        for ranges in [" ".join(f"{tp} [{a}, {b})" for tp, (a, b) in one["ranges"].items())]
    ]
    terminal.print_table("batches", ("batch", "state", "ranges"), rows)
    terminal.print_table("frozen confs", ("name", "value"), sorted(found["conf"].items()))


def _offsets(offsets: dict[str, int]) -> str:
    return " ".join(f"{tp}@{offset}" for tp, offset in offsets.items())
