"""`tidelog spark compact` and `checkpoint show`: what an ingest leaves, looked at without Spark.

How a table is named is the same for all commands.
"""

from pathlib import Path
from typing import Annotated

from tidelog.cli import terminal
from tidelog.cli.arguments import argument, assignments, command, command_group, option
from tidelog.cli.spark_failures import damaged, unreachable
from tidelog.cli.spark_job import needs_spark
from tidelog.cli.terminal import TABLE, NoAnswer, Output, OutputFormat, WorkFailed

checkpoint_app = command_group("Checkpoints of ingests.", no_args_is_help=True)

Table = Annotated[
    str,
    option(
        "--table",
        "The Delta table: a directory or s3://bucket/path; with {topic}, one for each topic.",
        "PLACE",
    ),
]
TableOptions = Annotated[
    list[str] | None,
    option(
        "--table-option",
        "An option of the table's object store, by delta-rs's names; give it several times.",
        "NAME=VALUE",
    ),
]


def compact(
    table: Table,
    table_options: TableOptions = None,
    target_mb: Annotated[
        int, option("--target-mb", "About how large files become.", "MB", min=1)
    ] = 128,
    cluster_by: Annotated[
        str | None,
        option(
            "--cluster-by",
            "Rewrite all files, and lay rows that are near each other in these columns together.",
            "NAME,…",
        ),
    ] = None,
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
        from tidelog.pipeline.errors import (
            OtherWriter,
            StoreUnavailable,
            TableConflict,
            TableDamaged,
        )
        from tidelog.pipeline.tables.addresses import TableAddress
        from tidelog.pipeline.tables.compaction import compact as run_compaction
    address = TableAddress.of(table, assignments(table_options))
    try:
        with terminal.progress("rewriting small files"):
            done = run_compaction(
                address,
                target_bytes=target_mb << 20,
                cluster_by=[name.strip() for name in (cluster_by or "").split(",") if name],
                vacuum_hours=vacuum_hours,
            )
    except StoreUnavailable as error:
        raise unreachable(error) from error
    except TableDamaged as error:
        raise damaged(error) from error
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
