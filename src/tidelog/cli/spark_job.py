"""What every command that runs on Spark shares: where it runs, and a session for its time."""

import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Annotated, Any, Final

import typer

from tidelog.cli.arguments import option
from tidelog.cli.spark_log import LogFile, Relay, SparkLog
from tidelog.cli.terminal import BadAnswer, WorkFailed, progress
from tidelog.errors import UsageError

DataDirs = Annotated[
    list[Path],
    option(
        "--data-dir",
        "A cluster's directory, or a broker's log directory; give it several times.",
        "DIR",
    ),
]
Topics = Annotated[
    list[str] | None, option("--topic", "Only this topic; give it several times.", "NAME")
]
Master = Annotated[str, option("--master", "Where Spark runs the job's tasks.", "URL")]

_PYTHON_ERROR: Final = re.compile(
    r"^(?:[a-z_]+\.)*[A-Z]\w+: (?P<message>.+?)(?:\nhint: (?P<hint>.+?))?$", re.MULTILINE
)
"""The last line of a Python traceback, and the hint below it if the error is one of ours."""


@contextmanager
def needs_spark() -> Iterator[None]:
    """Raises `UsageError` for what is imported inside and not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tidelog"):
            raise
        raise UsageError(
            f"this needs the package `{error.name}`",
            "run `tidelog spark doctor`, which shows how to install what is missing",
        ) from None


@contextmanager
def open_session(
    master: str, conf: Mapping[str, str] | None = None, *, prompt: bool = False
) -> Iterator[Any]:
    """A session for one command, by default for one that takes about a minute. What Java and its
    workers write goes to a file, which is deleted at the end unless a failure named it. With
    `prompt` it is a session for a person at a prompt, and goes to the terminal.

    Raises `UsageError` where Spark is not installed, `WorkFailed` for a job that fails.
    """
    with needs_spark():
        from tidelog.pipeline.spark.spark_session import SHORT_RUN, session
    given = {**({} if prompt else SHORT_RUN), **(conf or {})}
    log: SparkLog = Relay() if prompt else LogFile()
    try:
        with needs_spark(), progress("starting Spark"):
            try:
                spark = session("tidelog spark", master, given, log.path)
            except UsageError as error:
                raise UsageError(error.message, log.named(error.hint)) from error
        try:
            with failures_name(log):
                yield spark
        finally:
            log.mute()
            spark.stop()
    finally:
        log.close()


@contextmanager
def failures_name(log: SparkLog) -> Iterator[None]:
    """Adds the place of Spark's log to failures; not to wrong use, a bad answer or an interrupt.

    Raises `WorkFailed` for a failure that Spark reports; other errors are raised again.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        message, hint = spark_failure(str(error))
        raise WorkFailed(message, log.named(hint)) from error
    except (UsageError, BadAnswer, typer.Exit):
        raise
    except Exception:
        place = log.named("")
        if place:
            sys.stderr.write(f"{place.removeprefix('; ')}\n")
        raise


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether Ctrl-C or SIGTERM asked for the end.

    Spark's own handler of Ctrl-C, set by every session, raises in the middle of a call to Java, and
    the command ends in tracebacks. A second Ctrl-C still does that.
    """
    asked = Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def spark_failure(text: str) -> tuple[str, str]:
    """Message and hint of a failure, out of Spark's text: the last error of our Python code in it,
    else its first line."""
    errors = list(_PYTHON_ERROR.finditer(text))
    if not errors:
        return text.strip().partition("\n")[0], "run it again with `--debug` for the whole trace"
    last = errors[-1]
    return last["message"], last["hint"] or "run it again with `--debug` for the whole trace"
