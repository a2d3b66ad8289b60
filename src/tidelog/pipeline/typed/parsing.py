"""Keys and values of records from bytes to types, a column at a time, and which rows do not parse.

Arrow's readers take a text of many rows and give a table, or fail without naming all bad rows. So
a *block* of records is joined with newlines and read at once. A block that fails is cut at the row
that the reader names, or halved, down to the single records that do not parse.

*One record, one row* is what must never break: a row of another record would be a wrong value
under a right offset. The number of rows is compared with the number of records, and that is a proof
because no record of a block makes two rows in the place of another's:

- JSON: each record begins with `{` and ends with `}`. The newline between `}` and `{` is legal only
  between two whole objects, so each record is at least one, and all together are as many.
- CSV: a record with a newline or a carriage return is read alone, so each one of a block makes at
  most one row, and all together make as many.

What does not parse: text that is not UTF-8, a field of another type than the schema's, a number
that its type does not hold, a field that is there twice, a wrong number of CSV fields. A null key
or value is a null. Fields that the schema does not have are left out.
Sources: RFC 8259, RFC 4180, the reference of pyarrow's readers.
"""

import csv
import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from tidelog.pipeline.typed.decoding import Definition, decode
from tidelog.pipeline.typed.formats import Format

BYTES: Final = pa.binary()


@dataclass(frozen=True, slots=True)
class Layout:
    """How keys or values are read, and the type of their column in the table."""

    format: Format = Format.RAW
    type: Any = BYTES
    """An Arrow type; a struct for the formats with fields."""
    fields: tuple[str, ...] = ()
    """The names of a CSV record's fields in their order; other fields of the type are null."""
    definition: Definition | None = None
    """The schema of the formats that a library decodes."""


class Parsed(NamedTuple):
    """A column that was parsed."""

    column: pa.Array
    """Of the layout's type; null where the bytes are, and where they do not parse."""
    reasons: dict[int, str]
    """By row: why it does not parse."""


_UNREADABLE: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError)
_MAX_REASON: Final = 200
_MAX_TEXT: Final = 2**31 - 1
_NAMED_ROW: Final = re.compile(r" in row (?P<json>\d+)|Row #(?P<csv>\d+): ")
"""Arrow's readers count the rows of a block, one from 0, the other from 1."""


def parse(layout: Layout, column: pa.Array) -> Parsed:
    """Parses a column of bytes. Raises `RegistryUnavailable`."""
    if layout.format is Format.RAW:
        return Parsed(column, {})
    if layout.definition is not None:
        return Parsed(*decode(layout.format, layout.definition, layout.type, column))
    texts, reasons = _texts(column)
    if layout.format is Format.STRING:
        return Parsed(texts, reasons)
    read, shaped = (_json, _objects) if layout.format is Format.JSON else (_csv, _lines)
    texts = shaped(texts, reasons)
    pieces: list[pa.Array] = []
    # The number of each row among the rows of the pieces, where it is in one.
    places = np.full(len(texts), -1)
    parsed = 0
    waiting = [np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))]
    while waiting:
        rows = waiting.pop()
        if not len(rows):
            continue
        block = texts if len(rows) == len(texts) else texts.take(pa.array(rows))
        try:
            pieces.append(read(layout, block))
        except _UNREADABLE as error:
            if len(rows) == 1:
                reasons[int(rows[0])] = _reason(error)
            else:
                waiting += reversed(_parts(rows, str(error)))
            continue
        places[rows] = np.arange(parsed, parsed + len(rows))
        parsed += len(rows)
    return Parsed(_in_order(pieces, places, layout.type), reasons)


def _texts(column: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """The bytes as texts; null where they are, and where they are not UTF-8."""
    try:
        return column.cast(pa.string()), {}
    except pa.ArrowInvalid:
        reasons: dict[int, str] = {}
        texts = [_decoded(value, row, reasons) for row, value in enumerate(column.to_pylist())]
        return pa.array(texts, pa.string()), reasons


def _decoded(value: bytes | None, row: int, reasons: dict[int, str]) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError as error:
        reasons[row] = f"not UTF-8: {error.reason} at byte {error.start}"
        return None


def _parts(rows: np.ndarray, message: str) -> list[np.ndarray]:
    """A block that failed: what lies before the row that the message names, that row, and the
    rest; or halves."""
    named = _NAMED_ROW.search(message)
    row = -1
    if named is not None:
        row = int(named["json"]) if named["json"] else int(named["csv"]) - 1
    if not 0 <= row < len(rows):
        half = len(rows) // 2
        return [rows[:half], rows[half:]]
    return [rows[:row], rows[row : row + 1], rows[row + 1 :]]


def _in_order(pieces: list[pa.Array], places: np.ndarray, type_: pa.DataType) -> pa.Array:
    if not pieces:
        return pa.nulls(len(places), type_)
    whole = pa.concat_arrays(pieces)
    missing = places < 0
    if len(pieces) == 1 and not missing.any():
        return whole
    return whole.take(pa.array(places, mask=missing))


def _reason(error: BaseException) -> str:
    """The beginning of the reader's message, which may quote all of the record, without the number
    of the row in its block."""
    text = _NAMED_ROW.sub("", str(error).partition("\n")[0])
    text = text.removeprefix("JSON parse error: ").removeprefix("CSV parse error: ")
    return text if len(text) <= _MAX_REASON else text[:_MAX_REASON] + "…"


# JSON ----------------------------------------------------------------------------------------


def _objects(texts: pa.Array, reasons: dict[int, str]) -> pa.Array:
    """The texts that look like objects; null in the place of others."""
    if not _are_objects(texts).false_count:
        return texts
    trimmed = pc.ascii_trim(texts, characters=" \t\r\n")
    shaped = _are_objects(trimmed)
    for row in np.flatnonzero(pc.invert(shaped.fill_null(True)).to_numpy(zero_copy_only=False)):
        reasons[int(row)] = "not a JSON object"
    return pc.if_else(shaped, trimmed, None)


def _are_objects(texts: pa.Array) -> pa.Array:
    return pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))


def _json(layout: Layout, block: pa.Array) -> pa.Array:
    text = _joined(block)
    table = pyarrow.json.read_json(
        pa.BufferReader(text),
        pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
        pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(list(_read_type(layout.type))),
            unexpected_field_behavior="ignore",
        ),
    )
    _check_rows(len(table), len(block))
    return _struct(table, layout.type)


def _read_type(type_: pa.DataType) -> pa.DataType:
    """What the JSON reader is asked for: it takes a date for a number of days."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(one.name, _read_type(one.type)) for one in type_])
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", _read_type(type_.value_type)))
    return pa.string() if pa.types.is_date(type_) else type_


# CSV -----------------------------------------------------------------------------------------


def _lines(texts: pa.Array, reasons: dict[int, str]) -> pa.Array:
    """The texts without the end of their line; null in the place of empty ones, which the reader
    takes for a record of nulls."""
    lines = pc.ascii_rtrim(texts, characters="\r\n")
    is_empty = pc.equal(lines, "")
    for row in np.flatnonzero(is_empty.fill_null(False).to_numpy(zero_copy_only=False)):
        reasons[int(row)] = "an empty text"
    return pc.if_else(is_empty, None, lines)


def _csv(layout: Layout, block: pa.Array) -> pa.Array:
    if len(block) == 1:
        _check_quotes(block[0].as_py())
    elif pc.match_substring_regex(block, r"[\r\n]").true_count:
        raise ValueError("a record of several lines is read alone")
    # A field of the last record whose quotes do not end would end with the text: one more follows.
    end = "," * (len(layout.fields) - 1)
    joined = _joined(pa.concat_arrays([block, pa.array([end])]))
    table = pyarrow.csv.read_csv(
        pa.BufferReader(joined),
        pyarrow.csv.ReadOptions(
            use_threads=False, block_size=len(joined) + 1, column_names=list(layout.fields)
        ),
        pyarrow.csv.ParseOptions(ignore_empty_lines=False, newlines_in_values=True),
        pyarrow.csv.ConvertOptions(
            column_types={name: layout.type.field(name).type for name in layout.fields},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    _check_rows(len(table) - 1, len(block))
    return _struct(table.slice(0, len(block)), layout.type)


def _check_quotes(text: str) -> None:
    """Arrow's reader takes a field whose quotes do not end for one that ends with the text."""
    csv.field_size_limit(_MAX_TEXT)
    try:
        list(csv.reader([text], strict=True))
    except csv.Error as error:
        raise ValueError(str(error)) from None


# Both ----------------------------------------------------------------------------------------


def _joined(texts: pa.Array) -> pa.Buffer:
    """The texts with a newline between each two."""
    lines = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return pc.binary_join(lines, "\n")[0].as_buffer()


def _check_rows(rows: int, records: int) -> None:
    if rows != records:
        raise ValueError(f"{rows} rows in the place of {records}")


def _struct(table: pa.Table, type_: pa.StructType) -> pa.Array:
    """The columns as one struct of the wanted type; those that the table does not have are null.
    Raises `ArrowInvalid`."""
    columns = [
        table.column(field.name).combine_chunks().cast(field.type)
        if field.name in table.schema.names
        else pa.nulls(len(table), field.type)
        for field in type_
    ]
    whole = pa.StructArray.from_arrays(columns, fields=list(type_))
    # The JSON reader makes decimals with more digits than their type has.
    whole.validate(full=True)
    return whole
