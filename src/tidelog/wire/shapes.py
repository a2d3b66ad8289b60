"""How values of ours lie in entities: one table for reading and writing.

A `Shape` names, for each field of a value, its place in an entity. Most have Kafka's name, and are
not mentioned; `COMMON_NAMES` has the names that differ everywhere. A field that a version does not
have keeps the value's default. UUIDs, error codes and durations change their type on the way
(`entities.py`).

    Shape(CreatePartitionsResult, topics="results")

reads and writes a tuple of `MorePartitionsResult` in the array `results`, because that is the type
of the field `topics`. Other places than a name are `Rows`, `tuples` and `Place`.

Left out: Produce and Fetch, which are parsed by hand.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar, Union, get_args, get_origin

from tidelog.wire.entities import ArrayWriter, Entity, from_kio, nested

T = TypeVar("T")

COMMON_NAMES: Final = {"message": "error_message", "partition": "partition_index"}
"""Our name of a field, and Kafka's."""


AnyPlace = Union[str, "Shape[Any]", "Rows[Any]", "Place"]
"""Where a field of a value may lie; a `Shape` is that of the rows in the array of the same name."""


class Place(NamedTuple):
    """A place in an entity with rules of its own."""

    read: Callable[[Entity], Any]
    """The value in an entity."""
    write: Callable[[Any], Mapping[str, object]] = lambda value: {}
    """The fields of an entity that stand for a value."""


class Shape(Generic[T]):
    """Where the fields of a value lie in an entity."""

    def __init__(
        self,
        value_type: type[T],
        /,
        *,
        fixed: Mapping[str, object] | None = None,
        absent: Mapping[str, object] | None = None,
        **places: AnyPlace,
    ) -> None:
        # The type of the value: a dataclass or a named tuple.
        self.value_type = value_type
        # Fields of the entity that are the same for all values.
        self._fixed = fixed or {}
        # Fields of the value that some versions do not have, and that have no default.
        self._absent = absent or {}
        kinds = _field_types(value_type)
        assert places.keys() <= kinds.keys(), f"{value_type.__name__} has no {places}"
        # By the name of the value's field: where it lies.
        self._places = {
            name: _place(name, places.get(name, COMMON_NAMES.get(name, name)), kind)
            for name, kind in kinds.items()
        }

    def read(self, entity: Entity, outer: Mapping[str, Any] | None = None) -> T:
        """The value in an entity; `outer` has fields of the entities around it."""
        known = from_kio(entity.__class__)
        values = dict(self._absent)
        for name, place in self._places.items():
            if not isinstance(place, str):
                values[name] = place.read(entity)
            elif place in known:
                values[name] = known[place](getattr(entity, place))
            elif outer is not None and place in outer:
                values[name] = outer[place]
        return self.value_type(**values)

    def write(self, value: T, *, without_rows: bool = False) -> dict[str, Any]:
        """The fields of an entity that has the value, as `make` takes them."""
        out: dict[str, Any] = dict(self._fixed)
        for name, place in self._places.items():
            if isinstance(place, str):
                out[place] = getattr(value, name)
            elif not (without_rows and isinstance(place, Rows)):
                out |= place.write(getattr(value, name))
        return out

    def count_rows(self, value: T) -> int:
        """How many rows `write_encoded` encodes."""
        rows = (name for name, place in self._places.items() if isinstance(place, Rows))
        return sum(len(getattr(value, name)) for name in rows)

    def write_encoded(
        self, entity_type: type, value: T, price: int
    ) -> Generator[int, None, dict[str, Any]]:
        """The same as `write` for an entity of this class, with the rows encoded; yields the
        price of a row after each of them."""
        out = self.write(value, without_rows=True)
        for name, place in self._places.items():
            if isinstance(place, Rows):
                out |= yield from place.write_encoded(entity_type, getattr(value, name), price)
        return out


class Rows(Generic[T]):
    """The place of a tuple of values: entities in an array, which may lie in other arrays.

    `Rows("topics.partitions", shape, by=["topic_id"])` are the partitions of all topics. The entity
    around a row has the field `topic_id` of it. Rows are written in groups, which come in the order
    of their first rows.
    """

    def __init__(self, path: str, row: Shape[T], by: Sequence[str] = ()) -> None:
        self._path = path.split(".")
        self._row = row
        self._by = by
        assert len(by) == len(self._path) - 1, f"{path} by {by}"

    def read(self, entity: Entity) -> tuple[T, ...]:
        """All rows of an entity."""
        return tuple(self._read(entity, 0, {}))

    def _read(self, entity: Entity, depth: int, outer: dict[str, Any]) -> Iterator[T]:
        for item in getattr(entity, self._path[depth]):
            if depth == len(self._by):
                yield self._row.read(item, outer)
            else:
                key = self._by[depth]
                value = from_kio(item.__class__)[key](getattr(item, key))
                yield from self._read(item, depth + 1, {**outer, key: value})

    def write(self, values: Sequence[T]) -> dict[str, Any]:
        """The array of an entity that has the rows."""
        first, *inner = self._path
        return {first: _grouped([self._row.write(value) for value in values], self._by, inner)}

    def write_encoded(
        self, entity_type: type, values: Sequence[T], price: int
    ) -> Generator[int, None, dict[str, Any]]:
        """The same with the innermost arrays encoded; yields the price of a row after each."""
        *around, array = self._path
        for name in around:
            entity_type = nested(entity_type, name)
        writers: dict[tuple[Any, ...], ArrayWriter] = {}
        for value in values:
            row = self._row.write(value)
            key = tuple(row[name] for name in self._by)
            if key not in writers:
                writers[key] = ArrayWriter(entity_type, array)
            writers[key].add(**row)
            yield price
        if not around:
            return {array: writers[()].array() if writers else ()}
        rows = [
            {**dict(zip(self._by, key, strict=True)), array: writer.array()}
            for key, writer in writers.items()
        ]
        return {around[0]: _grouped(rows, self._by[:-1], around[1:])}


def _grouped(
    rows: list[dict[str, Any]], keys: Sequence[str], arrays: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows in arrays of these names, one in the other, by the values of these fields."""
    if not keys:
        return rows
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row[keys[0]], []).append(row)
    return [
        {keys[0]: value, arrays[0]: _grouped(group, keys[1:], arrays[1:])}
        for value, group in groups.items()
    ]


def tuples(array: str, *names: str) -> Place:
    """The place of plain tuples of these fields, or of the values of a single one. A null array is
    `None`."""
    row = attrgetter(*names)

    def read(entity: Entity) -> tuple[Any, ...] | None:
        items = getattr(entity, array)
        return None if items is None else tuple(map(row, items))

    def write(values: Sequence[Any] | None) -> Mapping[str, object]:
        rows = values if len(names) > 1 or values is None else [(each,) for each in values]
        return {array: rows and [dict(zip(names, row, strict=True)) for row in rows]}

    return Place(read, write)


def _field_types(value_type: type) -> dict[str, Any]:
    if is_dataclass(value_type):
        return {each.name: each.type for each in fields(value_type)}
    return dict(getattr(value_type, "__annotations__", {}))


def _place(name: str, place: AnyPlace, kind: Any) -> "str | Rows[Any] | Place":
    """The place of a field of this name and type."""
    if isinstance(place, Shape):
        return Rows(name, place)
    if isinstance(place, str) and get_origin(kind) is tuple:
        item_type = get_args(kind)[0]
        if _field_types(item_type):
            return Rows(place, Shape(item_type))
    return place
