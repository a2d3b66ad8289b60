"""Bytes that change by themselves: what a failing medium does to the files of one disk.

A victim is drawn by the kind of file first and then by name, or the many log files would hide the
few that matter more. Nothing is reported; a damaged file keeps its name and its times.

A batch does not say which partition it is of. So a page of another log that begins with the very
offset that was there has a first batch that is sound to every checksum, Kafka's too, whatever its
length. Nor does a topic id say whose it is, once its topic is deleted. Such a page is lost at its
own place, and does not arrive at the other one.

Nothing says that a segment had aborted transactions but its transaction index, whose entries are
all of one size. So that file is neither deleted nor cut.
"""

from typing import Final

from tidelog.env.crash_image import PAGE_BYTES, Content
from tidelog.env.prng import Prng
from tidelog.log.checkpoint import PARTITION_METADATA_FILE
from tidelog.log.file_names import TXN_INDEX_SUFFIX
from tidelog.sim.engine.disk import SPARED_FILES, SimDisk, flipped
from tidelog.sim.scenarios.fault_kinds import DiskFault

BASE_OFFSET_BYTES: Final = 8
"""A batch begins with its base offset."""


def file_kind(path: str) -> str:
    """What sort of file this is: its suffix, or its name where it has none."""
    name = path.rpartition("/")[2]
    place = "metadata" if path.startswith("__cluster_metadata-0/") else "data"
    kind = name.rpartition(".")[2] if name[:1].isdecimal() else name
    return f"{place} {kind}"


def candidates(disk: SimDisk) -> dict[str, list[str]]:
    """Paths by kind; files of topics that are being deleted and empty files do not matter."""
    found: dict[str, list[str]] = {}
    for path, content in disk.contents():
        if content.data and path not in SPARED_FILES and "-delete/" not in path:
            found.setdefault(file_kind(path), []).append(path)
    return found


def damage(disk: SimDisk, fault: DiskFault, prng: Prng, kinds: tuple[str, ...] = ()) -> str | None:
    """Damages one file, of a kind that begins with one of `kinds` if given; returns what it did."""
    found = candidates(disk)
    if fault in (DiskFault.TRUNCATION, DiskFault.MISSING):
        found.pop(f"data {TXN_INDEX_SUFFIX[1:]}", None)
    names = [kind for kind in sorted(found) if not kinds or kind.startswith(kinds)]
    if not names:
        return None
    path = prng.choice(found[prng.choice(names)])
    others = [each for kind in names for each in found[kind] if each != path]
    if fault is DiskFault.MISDIRECTED and not others:
        return None
    done = _damage_file(disk, fault, prng, path, others)
    disk.was_damaged = True
    disk.fired[fault.value] += 1
    return f"{fault.value} {done}"


def _damage_file(disk: SimDisk, fault: DiskFault, prng: Prng, path: str, others: list[str]) -> str:
    content = disk.content(path)
    match fault:
        case DiskFault.TRUNCATION:
            _put(content, bytes(content.data[: prng.below(len(content.data))]))
        case DiskFault.MISSING:
            with disk.observed():
                disk.delete(path)
        case DiskFault.MISDIRECTED:
            other = prng.choice(others)
            start, page = _page_of(disk.content(other), prng)
            place = min(start, len(content.data) - 1)
            if not _passes_for(page, content, place, (path, other)):
                _overwrite(content, place, page)
            _overwrite(disk.content(other), start, bytes(len(page)))
            return f"{path} by {other} at {start}"
        case DiskFault.LOST_PAGE:
            start, page = _page_of(content, prng)
            _overwrite(content, start, bytes(len(page)))
        case _:
            _put(content, flipped(bytes(content.data), prng))
    return path


def _passes_for(page: bytes, content: Content, place: int, paths: tuple[str, str]) -> bool:
    """Whether nothing distinguishes the page from what is there: a page of a log over another log,
    and the batch that begins with it has the offset of the one there; or the topic id of another
    log, which may be that of a deleted topic (seed 227705581)."""
    if all(path.endswith(PARTITION_METADATA_FILE) for path in paths):
        return True
    is_log = all(path.endswith(".log") for path in paths)
    return is_log and page[:BASE_OFFSET_BYTES] == content.data[place : place + BASE_OFFSET_BYTES]


def _page_of(content: Content, prng: Prng) -> tuple[int, bytes]:
    pages = (len(content.data) - 1) // PAGE_BYTES + 1
    start = prng.below(pages) * PAGE_BYTES
    return start, bytes(content.data[start : start + PAGE_BYTES])


def _overwrite(content: Content, start: int, page: bytes) -> None:
    data = bytearray(content.data)
    data[start : start + len(page)] = page[: len(data) - start]
    _put(content, bytes(data))


def _put(content: Content, data: bytes) -> None:
    """Puts damage on the device, beyond the page cache, and in place: open files see it."""
    content.data[:] = data
    content.sync()
