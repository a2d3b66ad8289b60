"""What the keys and values of an ingest are: what the user says, what the table has, a sample.

A table keeps the types that it was made with, and may get further fields (`merging.py`). A new
table gets those of a schema file, or, for JSON, those of a sample: the first records of the topic.
A sample of which no record parses is refused before anything is written, because then the format is
wrong and not the records.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from tidelog.errors import CorruptBatch, UsageError
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.errors import DataLoss, RegistryUnavailable
from tidelog.pipeline.tables.table_files import DATE_COLUMN
from tidelog.pipeline.tables.table_schema import WHOLE_KEY
from tidelog.pipeline.tables.upserts import Upsert
from tidelog.pipeline.topics.options import SourceOptions
from tidelog.pipeline.topics.plan import with_topic_ids
from tidelog.pipeline.topics.source import read_ranges
from tidelog.pipeline.typed.decoding import Definition
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.inference import infer
from tidelog.pipeline.typed.merging import merged_type
from tidelog.pipeline.typed.parsing import BYTES, Layout, parse
from tidelog.pipeline.typed.schema_text import type_text
from tidelog.pipeline.typed.transforms import Transform
from tidelog.pipeline.values import OffsetRange, Offsets

SAMPLE_RECORDS: Final = 1000
_SAMPLED_PARTITIONS: Final = 20
_PARTITION_TYPES: Final = (
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.date32()),
)
_TYPES: Final = {Format.RAW: BYTES, Format.STRING: pa.string()}


@dataclass(frozen=True, slots=True)
class AskedLayout:
    """What the user says of the keys, or of the values."""

    format: Format = Format.RAW
    schema: Any = None
    """An Arrow struct; `None` for what the table has, or a sample shows."""
    definition: Definition | None = None
    """What the library of Avro or Protobuf decodes by."""


RAW_BYTES: Final = AskedLayout()


def check_asked(part: str, asked: AskedLayout) -> None:
    """Refuses a schema without a use, and a format that needs one. `part` is `key` or `value`.
    Raises `UsageError`."""
    option = f"`--{part}-schema`"
    if asked.schema is not None and not asked.format.has_fields:
        raise UsageError(
            f"{option} has no effect on {part}s of format `{asked.format}`",
            f"leave it out, or give `--{part}-format json` or `csv`",
        )
    if asked.format is not Format.CSV:
        return
    if asked.schema is None:
        raise UsageError(
            f"the fields of CSV {part}s have no names",
            f"give {option} with the fields in their order: `id bigint, name string`",
        )
    nested = [field.name for field in asked.schema if pa.types.is_nested(field.type)]
    if nested:
        raise UsageError(
            f"field `{nested[0]}` of the {part}s' schema has parts, which a CSV field cannot have",
            "give it the type `string`",
        )


def choose_layout(
    part: str, asked: AskedLayout, there: pa.DataType | None, sample: Sequence[bytes | None]
) -> Layout:
    """How the keys or values of a topic are read. `there` is their type in the table, if there is
    one. Raises `UsageError`."""
    if there is not None and not _takes(there, asked.format):
        raise UsageError(
            f"the {part}s in the table are `{type_text(there)}`, and those of format "
            f"`{asked.format}` would be something else",
            f"give the `--{part}-format` with which the table was made, or a new `--table`",
        )
    wanted = _TYPES.get(asked.format, asked.schema)
    if wanted is None:
        wanted = there or infer(value for value in sample if value is not None)
    if wanted is None:
        raise UsageError(
            f"there is no {part} to infer a schema from: no JSON object among the first "
            f"{len(sample)} records",
            f"give `--{part}-schema`, or ingest when the topic has records",
        )
    type_ = wanted if there is None else merged_type(there, wanted, part)
    fields = tuple(field.name for field in wanted) if asked.format is Format.CSV else ()
    layout = Layout(asked.format, type_, fields, asked.definition)
    _check_sample(part, layout, sample)
    return layout


def row_names(asked: Upsert, key: Layout) -> Upsert:
    """How the keys of a topic name rows: by the fields that the user named, or by all. Raises
    `UsageError`."""
    if not pa.types.is_struct(key.type):
        if asked.fields:
            raise UsageError(
                f"`--key {','.join(asked.fields)}` names fields, and keys of format "
                f"`{key.format}` have none",
                f"leave `--key` out, or give `--key {WHOLE_KEY}`: the whole key names a row; or "
                "give `--key-format json` or another format with fields",
            )
        return asked
    fields = asked.fields or tuple(field.name for field in key.type)
    for name in fields:
        index = key.type.get_field_index(name)
        type_ = None if index < 0 else key.type.field(index).type
        if type_ is None or pa.types.is_nested(type_) or pa.types.is_floating(type_):
            what = "has no such field" if type_ is None else f"that field is `{type_text(type_)}`"
            raise UsageError(
                f"`--key {name}` names no row: the record's key, `{type_text(key.type)}`, {what}",
                "name fields of the key that are neither lists, structs nor fractions; fields of "
                "the value do not do, because a tombstone has no value",
            )
    return Upsert(fields)


def check_partitioned(
    partition_by: Sequence[str], upsert: Upsert | None, transform: Transform | None
) -> None:
    """Refuses columns by which a table cannot be partitioned. Raises `UsageError`."""
    asked = f"`--partition-by {','.join(partition_by)}`"
    if partition_by and upsert is not None:
        raise UsageError(
            f"{asked} does not go with `--mode upsert`, whose tables are divided by the key",
            "leave it out",
        )
    if len(set(partition_by)) < len(partition_by):
        raise UsageError(f"{asked} names a column twice", "name each column once")
    added = {} if transform is None else {field.name: field.type for field in transform.added}
    for name in partition_by:
        type_ = added.get(name, pa.date32() if name == DATE_COLUMN else None)
        if type_ is None:
            raise UsageError(
                f"{asked}: there is no column `{name}` to partition by",
                f"name `{DATE_COLUMN}`, the day of the record's timestamp, or a column that "
                "`--transform` adds",
            )
        if type_ not in _PARTITION_TYPES:
            raise UsageError(
                f"{asked}: `{name}` is `{type_text(type_)}`",
                "partition by columns of whole numbers, `boolean`, `string` or `date`",
            )


def _takes(there: pa.DataType, asked: Format) -> bool:
    return bool(pa.types.is_struct(there) if asked.has_fields else there == _TYPES[asked])


def _check_sample(part: str, layout: Layout, sample: Sequence[bytes | None]) -> None:
    values = [value for value in sample if value is not None]
    try:
        reasons = parse(layout, pa.array(values, BYTES)).reasons
    except RegistryUnavailable as error:
        what = f"one of the first {len(values)} {part}s"
        raise RegistryUnavailable(error.args[0], what) from error
    if values and len(reasons) == len(values):
        raise UsageError(
            f"none of the first {len(values)} {part}s is `{layout.format}` by the schema "
            f"`{type_text(layout.type)}`; the first: {reasons[0]}",
            f"give another `--{part}-format` or `--{part}-schema`, or begin behind them with "
            "`--starting-offsets`",
        )


def sample_of(options: SourceOptions, client: Client, starts: Offsets) -> pa.Table | None:
    """Keys and values of the first records behind `starts`; `None` where there is none. Ends
    before records that are lost or damaged: the ingest reports them. Raises
    `ClusterUnavailable`."""
    committed = options.rules.read_committed
    earliest, latest = client.earliest_and_latest(sorted(starts), read_committed=committed)
    ranges = [
        OffsetRange(*tp, max(start, earliest[tp]), latest[tp])
        for tp, start in sorted(starts.items())
    ]
    batches = []
    with suppress(DataLoss, CorruptBatch):
        for batch in _first_records([one for one in ranges if one.length], options, client):
            batches.append(batch)
    return pa.Table.from_batches(batches) if batches else None


def _first_records(
    ranges: Sequence[OffsetRange], options: SourceOptions, client: Client
) -> Iterator[pa.RecordBatch]:
    ranges = ranges[:_SAMPLED_PARTITIONS]
    for one in ranges:
        share = SAMPLE_RECORDS // len(ranges)
        head = OffsetRange(*one.tp, one.start, min(one.start + share, one.end))
        planned = with_topic_ids([head], client.known.topic_ids())
        yield from read_ranges(planned, options.rules, ["key", "value"])
