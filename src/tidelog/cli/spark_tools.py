"""`tidelog spark shell`, `fetch-jars`, `package`: Spark by hand, the official connector's jars, and
an archive for workers."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli.arguments import option
from tidelog.cli.spark_job import Master, needs_spark, open_session
from tidelog.cli.terminal import (
    TABLE,
    Output,
    OutputFormat,
    counted,
    print_json,
    print_line,
    progress,
)

_BANNER = """\
Spark {version} on Java {java}; `spark` is the session, `F` its functions.
    spark.read.format("tidelog").option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "orders").load()
    spark.read.format("tidelog.segments").option("path", "tidelog-data").load()
Ctrl-D ends it."""


def shell(
    command: Annotated[
        str | None, typer.Option("--command", "-c", metavar="CODE", help="Run this, and end.")
    ] = None,
    kafka: Annotated[
        bool, option("--kafka", 'With the official connector: `format("kafka")` works too.')
    ] = False,
    master: Master = "local[*]",
) -> None:
    """Open a Python prompt on a Spark session that has the sources.

    Without a terminal, what comes on stdin is run as a script.
    """
    conf = _with_connector() if kafka else {}
    with open_session(master, conf, prompt=True) as spark:
        from pyspark.sql import functions

        names = {"__name__": "__main__", "spark": spark, "F": functions}
        if command is not None:
            exec(compile(command, "<command>", "exec"), names)
        elif sys.stdin.isatty():
            _prompt(spark, names)
        else:
            exec(compile(sys.stdin.read(), "<stdin>", "exec"), names)


def _prompt(spark: Any, names: dict[str, Any]) -> None:
    import code
    from importlib.util import find_spec

    if find_spec("readline") is not None:
        __import__("readline")  # The prompt gets a history by it.
    java = spark._jvm.System.getProperty("java.version")
    code.interact(_BANNER.format(version=spark.version, java=java), local=names, exitmsg="")


def fetch_jars(
    spark_version: Annotated[
        str | None, option("--spark-version", "Default: that of the installed pyspark.", "V")
    ] = None,
    output: Output = TABLE,
) -> None:
    """Fetch the official Kafka connector's jars through Maven, once, into the user's cache.

    Our own sources need no jars. The jars' SHA-256 are recorded, and compared at every use.
    """
    from tidelog.pipeline.spark.connector_jars import SUMS, connector_conf
    from tidelog.pipeline.spark.connector_jars import fetch_jars as fetch

    with progress("fetching jars"):
        jars = fetch(spark_version or _pyspark_version(), os.environ)
    conf = connector_conf(jars)
    if output is OutputFormat.JSON:
        print_json({"jars": [str(jar) for jar in jars], "conf": conf})
        return
    for line in (jars[0].parent / SUMS).read_text().splitlines():
        print_line(line)
    print_line(f"in `{jars[0].parent}`; `tidelog spark shell --kafka` uses them, and so does")
    print_line("".join(f"    --conf {name}={value}" for name, value in conf.items()))


def package(
    out: Annotated[Path, option("--out", "The archive to write, `….tar.gz`.", "FILE")] = Path(
        "tidelog-spark.tar.gz"
    ),
    output: Output = TABLE,
) -> None:
    """Make an archive that brings Tidelog to Spark's workers, which need no installation then.

    It holds Tidelog and all packages that it needs besides Spark, for this Python version and this
    platform. A wheel given by `--py-files` does not work: Spark's planning does not see it.
    """
    from tidelog.pipeline.spark.package import DIRECTORY
    from tidelog.pipeline.spark.package import package as run_package

    with progress("packing"):
        done = run_package(out)
    if output is OutputFormat.JSON:
        described = {"archive": str(done.archive), "bytes": done.size_bytes, "python": done.python}
        print_json({**described, "packages": done.packages, "conf": done.conf})
        return
    print_line(
        f"`{done.archive}`: {counted(len(done.packages), 'package')} and Tidelog, "
        f"{done.size_bytes:,} bytes, for Python {done.python}. Workers get it by"
    )
    for name, value in done.conf.items():
        print_line(f"    --conf {name}={value}")
    print_line(f"A driver without Tidelog: unpack it, and set PYTHONPATH to that `{DIRECTORY}`.")


def _with_connector() -> dict[str, str]:
    from tidelog.pipeline.spark.connector_jars import connector_conf
    from tidelog.pipeline.spark.connector_jars import fetch_jars as fetch

    return connector_conf(fetch(_pyspark_version(), os.environ))


def _pyspark_version() -> str:
    with needs_spark():
        import pyspark
    return str(pyspark.__version__)
