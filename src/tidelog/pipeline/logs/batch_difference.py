"""Where two copies of one record batch begin to differ: the byte, and the record that it is in."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tidelog.errors import CorruptBatch
from tidelog.records.batch import HEADER_BYTES, decode_body, read_header
from tidelog.records.record import Record


@dataclass(frozen=True, slots=True)
class Copy:
    """One replica's batch, in its file."""

    broker: int
    segment: str
    position: int
    size: int

    def read(self) -> bytes:
        with Path(self.segment).open("rb") as file:
            file.seek(self.position)
            return file.read(self.size)


def first_difference(copies: Sequence[Copy], suspects: Collection[int]) -> str | None:
    """How a suspect's copy differs from another one, as text; `None` when none does. The others are
    compared with a copy of a broker that is not a suspect, if there is one."""
    trusted = [copy for copy in copies if copy.broker not in suspects] or copies
    for copy in copies:
        if copy.broker != trusted[0].broker:
            found = _difference(trusted[0], copy)
            if found is not None:
                return found
    return None


def _difference(one: Copy, other: Copy) -> str | None:
    mine, yours = one.read(), other.read()
    byte = next((i for i, (a, b) in enumerate(zip(mine, yours, strict=False)) if a != b), None)
    if byte is None and len(mine) != len(yours):
        byte = min(len(mine), len(yours))
    if byte is None:
        return None
    where = " of the header" if byte < HEADER_BYTES else ""
    place = f"byte {byte}{where} is {_at(mine, byte)} on {one.broker}"
    return f"{place} and {_at(yours, byte)} on {other.broker}{_record(mine, yours)}"


def _at(data: bytes, index: int) -> str:
    return f"0x{data[index]:02x}" if index < len(data) else "past the end"


def _record(mine: bytes, yours: bytes) -> str:
    for number, (one, other) in enumerate(zip_longest(_records(mine), _records(yours))):
        if one != other:
            known = one or other
            return "" if known is None else f"; first in record {number}, offset {known.offset}"
    return ""


def _records(data: bytes) -> list[Record]:
    """The records, without a check of the checksum; none when they cannot be read."""
    try:
        return decode_body(data, 0, read_header(data))
    except CorruptBatch:
        return []
