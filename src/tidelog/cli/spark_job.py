"""What every command that runs on Spark shares: where it runs, and a session for its time.

`spark_failures.py` has what becomes of its failures, and the exit codes.
"""

import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Annotated, Any, Final

from tidelog.cli.arguments import option
from tidelog.cli.spark_failures import failures_named
from tidelog.cli.spark_log import LogFile, Relay, SparkLog
from tidelog.cli.terminal import progress
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

_MASTERS: Final = re.compile(
    r"local(\[(\d+|\*)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|(spark|k8s)://.+|yarn"
)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


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
    `prompt` it is a session for a person at a prompt, and goes to the terminal; else Ctrl-C and
    SIGTERM raise `KeyboardInterrupt`.

    Raises `UsageError` where Spark is not installed, `WorkFailed` for a job that fails.
    """
    check_master(master, conf or {})
    with needs_spark():
        from tidelog.pipeline.spark.spark_session import SHORT_RUN, end_session, session
    given = {**({} if prompt else SHORT_RUN), **(conf or {})}
    log: SparkLog = Relay() if prompt else LogFile()
    try:
        with nullcontext() if prompt else _handling(_interrupt):
            with needs_spark(), progress("starting Spark"):
                try:
                    with failures_named(log):
                        spark = session("tidelog spark", master, given, log.path)
                except UsageError as error:
                    raise UsageError(error.message, log.named(error.hint)) from error
            # Spark has set a handler of Ctrl-C, which calls Java in the middle of a call to Java.
            with nullcontext() if prompt else _handling(_interrupt):
                in_time = True
                try:
                    with failures_named(log):
                        yield spark
                except KeyboardInterrupt:
                    in_time = False
                    raise
                finally:
                    log.mute()
                    end_session(spark, in_time=in_time)
    finally:
        log.close()


def check_master(master: str, conf: Mapping[str, str]) -> None:
    """Refuses an address that Spark has no cluster manager for, and a conf that would win over the
    option. Raises `UsageError`."""
    if not _MASTERS.fullmatch(master):
        raise UsageError(
            f"`--master` is `{master}`, which is not an address of a Spark cluster",
            "give `local[*]`, `local-cluster[2,1,1024]`, `spark://HOST:PORT`, `yarn` or "
            "`k8s://HOST:PORT`",
        )
    if "spark.master" in conf:
        raise UsageError(
            f"`--conf spark.master={conf['spark.master']}` would be another master than `{master}`",
            "give it with `--master`",
        )


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether Ctrl-C or SIGTERM asked for the end; a second one does
    not wait for it."""
    asked = Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    with _handling(ask):
        yield asked.is_set
