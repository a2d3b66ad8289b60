"""`tidelog spark export`: topics out of log directories into Parquet files."""

import time
from pathlib import Path
from typing import Annotated

from tidelog.cli import terminal
from tidelog.cli.arguments import option
from tidelog.cli.spark_job import DataDirs, Master, Topics, open_session
from tidelog.cli.terminal import TABLE, Output, OutputFormat


def export(
    data_dirs: DataDirs,
    out: Annotated[Path, option("--out", "A directory to be made.", "DIR")],
    topics: Topics = None,
    allow_gaps: Annotated[
        bool, option("--allow-gaps", "Write what there is where offsets are missing.")
    ] = False,
    master: Master = "local[*]",
    output: Output = TABLE,
) -> None:
    """Write the committed records of topics to Parquet files, straight from log directories.

    It asks no broker: the nodes may be running, stopped or dead, Tidelog's or Apache Kafka's.
    Committed records are those below the high watermark that a broker last checkpointed. A broker
    checkpoints it every five seconds and at a clean stop. All of these records are in the files,
    except those that the cleaner removed. The directory appears when it is complete.
    """
    from tidelog.pipeline.logs.parquet_files import require_new

    require_new(out)  # Before Java starts.
    begun = time.monotonic()
    with open_session(master) as spark:
        from tidelog.pipeline.jobs.export import export as run_export

        with terminal.progress("writing Parquet files"):
            done = run_export(spark, data_dirs, topics, out, allow_gaps=allow_gaps)
    seconds = round(time.monotonic() - begun, 3)
    rows = [terminal.plain(one) for one in done.partitions]
    if output is OutputFormat.JSON:
        counts = {"records": done.records, "files": done.files, "bytes": done.bytes}
        terminal.print_json({"out": str(out), **counts, "seconds": seconds, "partitions": rows})
        return
    terminal.print_table(
        "",
        ("partition", "broker", "offsets", "records"),
        [
            (
                f"{one.topic}-{one.partition}",
                str(one.broker),
                f"[{one.start_offset}, {one.end_offset})",
                f"{one.records:,}",
            )
            for one in done.partitions
        ],
    )
    terminal.print_line(
        f"{terminal.counted(done.records, 'record')} in {terminal.counted(done.files, 'file')}, "
        f"{done.bytes:,} bytes, in `{out}`: {seconds:.1f} s"
    )
