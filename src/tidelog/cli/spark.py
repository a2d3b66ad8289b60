"""`tidelog spark`: the pipeline's jobs from the command line.

What a job needs is imported when it runs, so that `doctor` works, and `--help` is quick, where
Spark is not installed.
"""

import json
import os
import time
from pathlib import Path
from typing import Annotated, Any

from tidelog.cli import terminal
from tidelog.cli.arguments import command, command_group, option
from tidelog.cli.spark_campaign import campaign
from tidelog.cli.spark_export import export
from tidelog.cli.spark_health import health
from tidelog.cli.spark_ingest import ingest
from tidelog.cli.spark_job import DataDirs, Master, Topics, open_session
from tidelog.cli.spark_tables import checkpoint_app, compact
from tidelog.cli.spark_tools import fetch_jars, package, shell
from tidelog.cli.terminal import TABLE, BadAnswer, NoAnswer, Output, counted
from tidelog.errors import UsageError

spark_app = command_group(
    "Jobs on Spark: audit replicas, run simulations; check what Spark needs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

command(
    spark_app, "campaign", "spark campaign --seeds 1:1001 --scenario kills --out build/campaign"
)(campaign)
command(spark_app, "ingest", "spark ingest --topic orders --table tables/orders")(ingest)
command(spark_app, "compact", "spark compact --table tables/orders")(compact)
spark_app.add_typer(checkpoint_app, name="checkpoint")
command(spark_app, "export", "spark export --data-dir tidelog-data --out build/orders")(export)
command(spark_app, "health", "spark health --events tidelog-data --report build/health")(health)
command(spark_app, "shell", "spark shell --command 'spark.range(3).show()'")(shell)
command(spark_app, "fetch-jars", "spark fetch-jars --spark-version 4.0.0")(fetch_jars)
command(spark_app, "package", "spark package --out build/tidelog-spark.tar.gz")(package)


@command(spark_app, "doctor", "spark doctor --output json")
def doctor(output: Output = TABLE) -> None:
    """Check that everything that Spark needs is installed, and show how to fix what is not.

    Starts no Java and takes a moment. Exit code 3 when Spark would not run.
    """
    from tidelog.pipeline.spark.doctor import describe, examine, faults

    findings = examine(os.environ)
    bad = faults(findings)
    # `mend` is the name that `fix` had in 0.1.0; it stays for one release.
    rows = [{**terminal.plain(one), "mend": one.fix} for one in findings]
    value = {"healthy": not bad, "findings": rows}
    terminal.print_rows(
        output, value, ("what", "found", "verdict", "fix"), list(describe(findings))
    )
    if bad:
        names = ", ".join(f"`{one.name}`" for one in bad)
        raise NoAnswer(f"Spark would not run, because of {names}", bad[0].fix)


@command(spark_app, "audit", "spark audit --data-dir tidelog-data --topic orders")
def audit(
    data_dirs: DataDirs,
    topics: Topics = None,
    sample: Annotated[
        str, option("--sample", "Recompute the CRC of one batch in K.", "1/K")
    ] = "1/1",
    report: Annotated[
        Path | None, option("--report", "Write the findings there as JSON lines.", "DIR")
    ] = None,
    master: Master = "local[*]",
    output: Output = TABLE,
) -> None:
    """Prove that all replicas are equal below the high watermark, or find where they are not.

    Reads the brokers' own files, running or stopped, Tidelog's or Apache Kafka's. Exit code 1 on
    any finding but TORN_TAIL, which is an append that a crash cut short.
    """
    every = _sample(sample)
    begun = time.monotonic()
    with open_session(master) as spark:
        from tidelog.pipeline.jobs.audit import audit as run_audit

        with terminal.progress("comparing replicas"):
            found = run_audit(spark, data_dirs, topics=topics, sample=every)
    seconds = round(time.monotonic() - begun, 3)
    rows = [terminal.plain(finding) for finding in found.findings]
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (report / "findings.jsonl").write_text(lines)
    counts = {"replicas": found.replicas, "batches": found.batches, "bytes": found.bytes}
    value = {**counts, "seconds": seconds, "findings": rows}
    terminal.print_answer(output, value, lambda: _print_audit(found, seconds))
    if not found.is_clean:
        raise BadAnswer


def _sample(text: str) -> int:
    one, _, every = text.partition("/")
    if one != "1" or not every.isdecimal() or int(every) < 1:
        raise UsageError(f"`--sample` is `{text}`", "write 1/K, for example 1/10")
    return int(every)


def _print_audit(found: Any, seconds: float) -> None:
    for finding in found.findings:
        brokers = ",".join(map(str, finding.brokers))
        terminal.print_line(
            f"{finding.kind} {finding.topic}-{finding.partition} "
            f"offsets {finding.base_offset}-{finding.last_offset} brokers {brokers}: "
            f"{finding.detail}"
        )
    verdict = "equal below the high watermarks" if found.is_clean else "NOT equal"
    terminal.print_line(
        f"{counted(found.replicas, 'replica')}, {counted(found.batches, 'batch', 'batches')}, "
        f"{found.bytes:,} bytes in "
        f"{seconds:.1f} s: {verdict}"
    )
