"""What every command that runs on Spark shares: where it runs, and a session for its time."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from tidelog.cli.output import WorkFailed, progress
from tidelog.errors import UsageError

Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Where Spark runs the job's tasks.")
]

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
            "run `tidelog spark doctor`, which says how to install what is missing",
        ) from None


@contextmanager
def open_session(
    master: str, conf: Mapping[str, str] | None = None, *, short_run: bool = True
) -> Iterator[Any]:
    """A session for one command, by default one that takes a minute or so.

    Raises `UsageError` where Spark is not installed, `WorkFailed` for a job that fails.
    """
    with needs_spark():
        from tidelog.pipeline.spark.spark_session import SHORT_RUN, session
    with progress("starting Spark"):
        spark = session(
            "tidelog spark", master, {**(SHORT_RUN if short_run else {}), **(conf or {})}
        )
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield spark
    except (PySparkException, Py4JJavaError) as error:
        raise WorkFailed(*told_by_spark(str(error))) from error
    finally:
        spark.stop()


def told_by_spark(text: str) -> tuple[str, str]:
    """Message and hint out of what Spark says of a failure: the last error of the Python that it
    ran for us if there is one, else its own first line."""
    errors = list(_PYTHON_ERROR.finditer(text))
    if not errors:
        return text.strip().partition("\n")[0], "run it again with `--debug` for the whole trace"
    told = errors[-1]
    return told["message"], told["hint"] or "run it again with `--debug` for the whole trace"
