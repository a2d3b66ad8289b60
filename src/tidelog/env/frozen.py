"""Values of many fields that are made by the thousand.

The `frozen` of `dataclasses` keeps its promise at run time: `__init__` sets each field by a call of
`object.__setattr__`, which takes four times as long as an assignment. A value of eleven fields, of
which a new topic has ten thousand, takes more than a microsecond like that. Here it is mypy that
keeps the fields from being assigned, and a value is made as fast as one that may change.
"""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def frozen(declared: type[T]) -> type[T]:
    """A slotted dataclass, with equality and hash, whose fields mypy keeps from being assigned."""
    return dataclass(slots=True, unsafe_hash=True)(declared)
