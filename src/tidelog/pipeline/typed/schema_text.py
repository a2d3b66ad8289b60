"""Schemas as text, in Spark's notation: `id bigint, lines array<struct<sku: string, n: int>>`.

A schema file has the columns of one struct: name and type, with commas between; `--` begins a
comment; a name with other than word characters stands in backquotes, and a backquote in it is
written twice. The types are those that a Delta table stores and that a text can be read into. So
there is no `map`, which the JSON reader does not make, and no `timestamp_ntz`, which only newer
Delta readers know.

`NOT NULL` is refused: a record without a field has a null there.
Source: Spark's SQL reference, data types and `CREATE TABLE`.
"""

import re
from pathlib import Path
from typing import Final

import pyarrow as pa

from tidelog.errors import UsageError

SIMPLE_TYPES: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_NAMES: Final = {type_: name for name, type_ in SIMPLE_TYPES.items()}
_TOKEN: Final = re.compile(r"\s*(?:--[^\n]*\n\s*)*(`(?:[^`]|``)+`|\w+|\S)")
_MAX_DIGITS: Final = 38


def read_schema(path: Path) -> pa.StructType:
    """The schema in a file. Raises `UsageError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the schema `{path}` cannot be read: {error}", "name a text file of columns and types"
        ) from error
    return parse_schema(text, str(path))


def parse_schema(text: str, name: str = "schema") -> pa.StructType:
    """The columns of a text as one struct; `name` is what messages call the text. Raises
    `UsageError`."""
    parser = _Parser(_TOKEN.findall(text + "\n"), name)
    found = parser.columns(end="")
    if not found.num_fields:
        parser.refuse("it has no column")
    return found


def schema_text(schema: pa.StructType) -> str:
    """The inverse of `parse_schema`."""
    return ", ".join(f"{_quoted(field.name)} {type_text(field.type)}" for field in schema)


def type_text(type_: pa.DataType) -> str:
    """One type in Spark's notation."""
    if pa.types.is_struct(type_):
        inner = ", ".join(f"{_quoted(field.name)}: {type_text(field.type)}" for field in type_)
        return f"struct<{inner}>"
    if pa.types.is_list(type_):
        return f"array<{type_text(type_.value_type)}>"
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _NAMES.get(type_, str(type_))


def check_stored(type_: pa.DataType, what: str) -> None:
    """Raises `UsageError` for a type that no schema can name; `what` is what has it."""
    if pa.types.is_struct(type_):
        for field in type_:
            check_stored(field.type, what)
    elif pa.types.is_list(type_):
        check_stored(type_.value_type, what)
    elif type_ not in _NAMES and not pa.types.is_decimal128(type_):
        raise UsageError(
            f"{what} has the Arrow type `{type_}`",
            "cast it to one that a table stores: " + ", ".join(map(str, _NAMES)),
        )


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


class _Parser:
    """Reads a type by recursive descent."""

    def __init__(self, tokens: list[str], name: str) -> None:
        # What is not read yet, the next one last.
        self._tokens = [token for token in reversed(tokens) if not token.startswith("--")]
        self._name = name

    def columns(self, end: str) -> pa.StructType:
        """Names and types until `end`, which is `>`, or empty for the end of the text."""
        fields: dict[str, pa.Field] = {}
        while self._next() != end:
            name = self._take()
            if not re.match(r"[\w`]", name):
                self.refuse(f"`{name}` stands where a column's name would be")
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            if self._next() == ":":
                self._take()
            if name.lower() in fields:
                self.refuse(f"column `{name}` is there twice")
            fields[name.lower()] = pa.field(name, self._type(name))
            if self._next() == ",":
                self._take()
            elif self._next() != end:
                what = f"stands `{self._next()}`" if self._tokens else "it ends, within a struct"
                self.refuse(f"after column `{name}` {what}")
        if end:
            self._take()
        return pa.struct(list(fields.values()))

    def _type(self, column: str) -> pa.DataType:
        word = self._take()
        kind = word.lower()
        if kind == "array":
            self._expect("<")
            element = self._type(column)
            self._expect(">")
            return pa.list_(pa.field("element", element))
        if kind == "struct":
            self._expect("<")
            fields = self.columns(end=">")
            if not fields.num_fields:
                self.refuse(f"column `{column}` has no field")
            return fields
        if kind == "decimal":
            return self._decimal()
        if kind not in SIMPLE_TYPES:
            self.refuse(f"the type of column `{column}` is `{word}`")
        return SIMPLE_TYPES[kind]

    def _decimal(self) -> pa.DataType:
        self._expect("(")
        precision = self._take()
        self._expect(",")
        scale = self._take()
        self._expect(")")
        if not (precision.isdecimal() and scale.isdecimal()):
            self.refuse(f"`decimal({precision},{scale})` has no two numbers")
        if not 0 < int(precision) <= _MAX_DIGITS or int(scale) > int(precision):
            self.refuse(f"`decimal({precision},{scale})` has no such digits")
        return pa.decimal128(int(precision), int(scale))

    def _next(self) -> str:
        return self._tokens[-1] if self._tokens else ""

    def _take(self) -> str:
        if not self._tokens:
            self.refuse("it ends within a column")
        return self._tokens.pop()

    def _expect(self, token: str) -> None:
        found = self._take()
        if found != token:
            self.refuse(f"`{found}` stands where `{token}` would be")

    def refuse(self, what: str) -> None:
        """Raises `UsageError`."""
        types = ", ".join(f"`{name}`" for name in SIMPLE_TYPES)
        raise UsageError(
            f"`{self._name}` is not a schema: {what}",
            "write `id bigint, name string, lines array<struct<sku: string>>`; the types are "
            f"{types}, `decimal(p,s)`, `array<…>`, `struct<…>`",
        )
