"""What every command that runs on Spark shares: where it runs, and a session for its time."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from tidelog.cli.output import progress
from tidelog.errors import UsageError

Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Where Spark runs the job's tasks.")
]


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
def open_session(master: str, conf: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A session for one command. Raises `UsageError` where Spark is not installed."""
    with needs_spark():
        from tidelog.pipeline.spark_session import SHORT_RUN, session
    with progress("starting Spark"):
        spark = session("tidelog spark", master, {**SHORT_RUN, **(conf or {})})
    try:
        yield spark
    finally:
        spark.stop()
