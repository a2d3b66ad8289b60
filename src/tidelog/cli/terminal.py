"""The output of commands: tables on a terminal, JSON for scripts, a message and a hint for errors.

stdout carries the answer and nothing else; progress goes to stderr, and only to a terminal.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import typer

T = TypeVar("T")

PIPED_WIDTH: Final = 160
"""How wide a table may get where there is no terminal and `COLUMNS` is not set."""


class OutputFormat(StrEnum):
    """What `--output` may be."""

    TABLE = "table"
    JSON = "json"


TABLE: Final = OutputFormat.TABLE
Output = Annotated[OutputFormat, typer.Option("--output", help="Print a table, or JSON.")]
"""The option of every command that reports."""


class BadAnswer(Exception):
    """The command did its work, and the answer is bad: exit code 1, nothing more is printed."""


class WorkFailed(Exception):
    """The command began its work and could not finish it: exit code 1, a message and a hint."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NoAnswer(WorkFailed):
    """No answer, for a reason that may pass: exit code 3, a message and a hint."""


def print_json(value: object) -> None:
    """One line of JSON on stdout."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def print_line(text: str) -> None:
    """One line on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_aside(text: str) -> None:
    """One line on stderr: what the user may want to know beside the answer."""
    sys.stderr.write(text + "\n")


def print_answer(output: OutputFormat, value: object, show: "str | Callable[[], object]") -> None:
    """What a command did or found: the value as JSON, or a line of text, or what `show` prints."""
    if output is OutputFormat.JSON:
        print_json(value)
    elif isinstance(show, str):
        print_line(show)
    else:
        show()


def print_rows(
    output: OutputFormat, value: object, columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> None:
    """What a command found: the value as JSON, or the rows of a table."""
    print_answer(output, value, lambda: print_table("", columns, rows))


def print_found(
    output: OutputFormat,
    found: Sequence[T],
    columns: Sequence[str],
    row_of: Callable[[T], Sequence[object]],
) -> None:
    """What a command found, of one kind: as JSON, or a row of a table for each."""
    print_rows(output, plain(found), columns, [row_of(each) for each in found])


def counted(number: int, noun: str, nouns: str = "") -> str:
    """So many of something: `1 file`, `2,000 batches`."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on stdout; numbers are aligned to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int) for row in rows)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = None if is_known else PIPED_WIDTH
    Console(file=sys.stdout, width=width, highlight=False, markup=False).print(table)


def print_error(message: str, hint: str) -> None:
    """What happened, and what to do about it."""
    sys.stderr.write(f"error: {message}\nhint: {hint}\n")
    sys.stderr.flush()


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Shows on a terminal that something takes its time."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def ids(values: Sequence[int]) -> str:
    """Node ids as people write them."""
    return ",".join(map(str, values)) or "-"


def offset(value: int) -> str:
    """An offset; `?` for one that is not known."""
    return "?" if value < 0 else str(value)


def moment(timestamp_ms: int) -> str:
    """A time in ms since 1970, in UTC; `-` for none."""
    if timestamp_ms < 0:
        return "-"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


def plain(value: Any) -> Any:
    """Dataclasses and tuples as JSON has them."""
    from dataclasses import asdict, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value
