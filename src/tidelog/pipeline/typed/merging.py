"""How a table's schema takes another one: fields are added, and nothing is taken away.

A field that the table does not have is added behind the others; older rows have a null there. A
field that the other schema leaves out stays. Of two types of numbers the wider one holds, the one
that has all values of the other: `int` and `bigint`, `float` and `double`, `decimal(9,2)` and
`decimal(12,2)`. Any other difference of types cannot be merged.
"""

from typing import Final

import pyarrow as pa

from tidelog.errors import UsageError
from tidelog.pipeline.typed.schema_text import type_text

_ORDERS: Final = ((pa.int8(), pa.int16(), pa.int32(), pa.int64()), (pa.float32(), pa.float64()))
"""Types of which each holds all values of those before it."""


def merged_type(there: pa.DataType, wanted: pa.DataType, place: str) -> pa.DataType:
    """The type of `place` in the table, which has `there`, so that it takes `wanted`. Raises
    `UsageError`."""
    if pa.types.is_struct(there) and pa.types.is_struct(wanted):
        return _merged_struct(there, wanted, place)
    if pa.types.is_list(there) and pa.types.is_list(wanted):
        element = merged_type(there.value_type, wanted.value_type, f"{place}[]")
        return pa.list_(pa.field("element", element))
    if there == wanted or _is_wider(there, wanted):
        return there
    if _is_wider(wanted, there):
        return wanted
    raise UsageError(
        f"`{place}` is `{type_text(there)}` in the table and would become `{type_text(wanted)}`",
        "fields can be added to a table, and numbers become wider: keep the type, or ingest into "
        "a new `--table`",
    )


def _merged_struct(there: pa.StructType, wanted: pa.StructType, place: str) -> pa.StructType:
    fields = {field.name.lower(): field for field in there}
    for new in wanted:
        name = f"{place}.{new.name}".removeprefix(".")
        old = fields.get(new.name.lower())
        if old is None:
            fields[new.name.lower()] = new
        elif old.name != new.name:
            raise UsageError(
                f"`{name}` is `{old.name}` in the table, which differs in case alone",
                "Delta tables do not distinguish such names: write it as the table does",
            )
        else:
            fields[new.name.lower()] = old.with_type(merged_type(old.type, new.type, name))
    return pa.struct(list(fields.values()))


def _is_wider(one: pa.DataType, other: pa.DataType) -> bool:
    if pa.types.is_decimal128(one) and pa.types.is_decimal128(other):
        return bool(one.scale == other.scale and one.precision > other.precision)
    return any(
        one in order and other in order and order.index(one) > order.index(other)
        for order in _ORDERS
    )


def is_extended(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether `after` has all that `before` has, with the same types."""
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        places = {field.name: after.get_field_index(field.name) for field in before}
        return all(
            index >= 0 and is_extended(before.field(name).type, after.field(index).type)
            for name, index in places.items()
        )
    if pa.types.is_list(before) and pa.types.is_list(after):
        return is_extended(before.value_type, after.value_type)
    return bool(before == after)
