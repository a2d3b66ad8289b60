"""A schema from a sample of JSON objects.

Whole numbers are `bigint`, numbers with a fraction `double`, and both together `double`. Texts stay
`string`: whether all of them will be times, a sample cannot know. A field that is null in all of
the sample is a `string`. An object that is empty in all of it is left out, and so is a field whose
name is empty: neither can be a column. Where types contradict each other, that of the first record
holds, and the others do not parse; the sample's bad records say nothing. The order of fields is
that of the first records.
"""

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

_BITS = 63


def infer(values: Iterable[bytes]) -> pa.StructType | None:
    """The schema of the objects among the values; `None` where there is none with a field."""
    found: Any = None
    for value in values:
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(parsed, dict):
            found = _merged(found, _type(parsed))
    return None if found is None else _arrow(found)


def _type(value: Any) -> Any:
    """A dictionary for an object, a list of one for an array, an Arrow type for a scalar, `None`
    for a null."""
    if isinstance(value, dict):
        return {name: _type(inner) for name, inner in value.items()}
    if isinstance(value, list):
        element: Any = None
        for one in value:
            element = _merged(element, _type(one))
        return [element]
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if value.bit_length() <= _BITS else pa.float64()
    if isinstance(value, float):
        return pa.float64()
    return None if value is None else pa.string()


def _merged(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, dict) and isinstance(second, dict):
        return {name: _merged(first.get(name), second.get(name)) for name in {**first, **second}}
    if isinstance(first, list) and isinstance(second, list):
        return [_merged(first[0], second[0])]
    numbers = (pa.int64(), pa.float64())
    if first in numbers and second in numbers and first != second:
        return pa.float64()
    return first


def _arrow(found: Any) -> pa.DataType | None:
    """`None` for an object without a field."""
    if isinstance(found, dict):
        # Delta compares names without regard to case.
        names: dict[str, str] = {}
        for name in filter(None, found):
            names.setdefault(name.lower(), name)
        types = {name: _arrow(found[name]) for name in names.values()}
        fields = [pa.field(name, type_) for name, type_ in types.items() if type_ is not None]
        return pa.struct(fields) if fields else None
    if isinstance(found, list):
        element = _arrow(found[0])
        return None if element is None else pa.list_(pa.field("element", element))
    return pa.string() if found is None else found
