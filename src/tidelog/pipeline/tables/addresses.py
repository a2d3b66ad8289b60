"""Where a Delta table is: a directory, or a prefix in an object store. Only this module knows.

delta-rs reaches both kinds, the Delta log and files alike, by the address and by options. So a
table's files are written and read through `TableAddress.files`, with names relative to the table.

- A file in a directory is there, unfinished, from its first byte on. One in an object store
  appears when it is closed; a killed process leaves at most parts of an upload.
- What gives a version of the log to one writer is the disk's link in a directory, and a
  *conditional put* in a store: it makes an object only where none is. `store_options.py` refuses
  what would turn that off.
- The credentials of a store are in the options, or in the environment of each process. They are in
  no text that an address makes of itself.

Source: the documentation of delta-rs and of Rust's object_store; tried with deltalake 1.6.6.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from tidelog.errors import UsageError
from tidelog.pipeline.errors import DiskFull, StoreUnavailable, TableDamaged
from tidelog.pipeline.places import Place, local_path, split_address
from tidelog.pipeline.tables.store_options import OPTION, SCHEMES, checked_options

_KEPT_FILE_SYSTEMS: Final = 64
_LONGEST_REASON: Final = 300
_COLOUR: Final = re.compile("\x1b\\[[0-9;]*m")
_ANSWER: Final = re.compile(
    "<Code>(?P<code>[^<]*)</Code>(?:.*?<Message>(?P<text>[^<]*)<)?", re.DOTALL
)
_DAMAGE: Final = re.compile(
    "contiguous commit files|Json error|No table metadata|newest version in the log|"
    "File not found|Failed to open local file|not found: |NoSuchKey"
)
"""Signs in the text of an error that files of a table are gone or torn."""
_FULL: Final = re.compile("No space left on device|Disk quota exceeded|File too large")


@dataclass(frozen=True, slots=True)
class TableAddress:
    """The address of one table. It travels to Spark's tasks."""

    uri: str
    """An absolute path, or `s3://bucket/path`."""
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """How the store is reached, by delta-rs's names; never printed."""

    @classmethod
    def of(cls, table: "AnyTable", options: Mapping[str, str] | None = None) -> "TableAddress":
        """The address that a user means. Raises `UsageError` for a scheme that is not served, and
        for options that are unknown, unsafe, or without effect."""
        if isinstance(table, TableAddress):
            return table
        found = split_address(table)
        if found is None or found[0] == "file":
            if options:
                raise UsageError(
                    f"`{OPTION} {min(options)}=…` has no effect on `{os.fspath(table)}`, a "
                    "directory",
                    f"leave it out, or give the address of an object store: {_schemes()}",
                )
            return cls(str(local_path(table).absolute()))
        scheme, rest = found
        if scheme not in SCHEMES:
            raise UsageError(
                f"`{os.fspath(table)}` is an address of `{scheme}:`, which is not served",
                f"give a path that this machine and Spark's workers reach, or {_schemes()}",
            )
        if ":" in rest.partition("/")[0].partition("@")[0]:
            raise UsageError(
                f"the address of `{scheme}:` has a port or a password in it",
                f"give endpoint and credentials by the environment or by `{OPTION}`",
            )
        return cls(f"{scheme}://{rest.strip('/')}", checked_options(scheme, options or {}))

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> "TableAddress":
        return TableAddress(f"{self.uri}/{name}", self.options)

    @property
    def directory(self) -> Path | None:
        """The directory; `None` in an object store."""
        return Path(self.uri) if self.uri.startswith("/") else None

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Raises `StoreUnavailable`, in one line, for what an object store refuses or does not
        answer, `DiskFull`, and `TableDamaged` for files that are gone or torn. Conflicts of
        commits, and other errors of a directory, are raised as they are."""
        try:
            yield
        except CommitFailedError:
            raise
        except (OSError, DeltaError) as error:
            if is_full(error):
                raise disk_full(f"the table `{self}`", error) from error
            if is_damage(error):
                raise self.damaged(str(error).partition("\n")[0][:_LONGEST_REASON]) from error
            if self.directory is not None:
                raise
            reason = f"the table `{self}` cannot be reached: {_reason(error)}"
            raise StoreUnavailable(reason) from error

    def damaged(self, reason: str) -> TableDamaged:
        """The error for a table of which files are gone or torn."""
        return TableDamaged(
            f"the table `{self}` is damaged: {reason}\nhint: bring back its files, and run it "
            "again; or ingest into a new table: the topic has the records"
        )

    # The Delta log --------------------------------------------------------------------------

    @property
    def is_table(self) -> bool:
        return bool(DeltaTable.is_deltatable(self.uri, dict(self.options)))

    def delta(self) -> DeltaTable:
        """The newest version."""
        return DeltaTable(self.uri, storage_options=dict(self.options))

    def create(self, schema: pa.Schema, **how: Any) -> DeltaTable:
        """Makes the table; `how` as `DeltaTable.create` takes it."""
        return DeltaTable.create(self.uri, schema, storage_options=dict(self.options), **how)

    # Files ----------------------------------------------------------------------------------

    @property
    def files(self) -> fs.FileSystem:
        """The table's files, by their names in it."""
        return _file_system(self)

    def names(self) -> list[str]:
        """What is directly below it; nothing where it is not."""
        found = self.files.get_file_info(fs.FileSelector("", allow_not_found=True))
        return sorted(one.base_name for one in found)

    def missing(self, names: Sequence[str]) -> list[str]:
        """Those of these files that are not there."""
        found = self.files.get_file_info(list(names))
        return [name for name, one in zip(names, found, strict=True) if not one.is_file]

    def read(self, name: str) -> bytes:
        """The content of a file. Raises `FileNotFoundError`."""
        with self.files.open_input_stream(name) as file:
            return bytes(file.read())

    def rows(self, name: str, columns: Sequence[str] | None = None, **how: Any) -> pa.Table:
        """The rows of a Parquet file; `how` as `read_table` takes it."""
        return pq.read_table(name, columns=columns, filesystem=self.files, partitioning=None, **how)

    def parquet(self, name: str) -> pq.ParquetFile:
        """A Parquet file, to be read in pieces; a context manager."""
        return pq.ParquetFile(name, filesystem=self.files)

    def new_file(self, name: str) -> pa.NativeFile:
        """A file to write, and the directories above it."""
        if self.directory is not None:
            (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
        return self.files.open_output_stream(name)

    def remove(self, name: str) -> None:
        """Deletes a file if it can: what is left is an orphan."""
        with suppress(OSError):
            self.files.delete_file(name)

    def remove_below(self, name: str) -> None:
        """Deletes a directory with its files, if it can."""
        with suppress(OSError):
            self.files.delete_dir(name)


AnyTable = Place | TableAddress
"""What public functions take for a table."""


@lru_cache(_KEPT_FILE_SYSTEMS)
def _file_system(address: TableAddress) -> fs.FileSystem:
    if address.directory is not None:
        return fs.SubTreeFileSystem(str(address.directory), fs.LocalFileSystem())
    return fs.PyFileSystem(DeltaStorageHandler(address.uri, dict(address.options)))


def is_damage(error: BaseException) -> bool:
    """Whether files of a table are gone or torn."""
    return _DAMAGE.search(str(error)) is not None and not is_full(error)


def is_full(error: BaseException) -> bool:
    """Whether a disk, or the user's quota there, is full."""
    return _FULL.search(str(error)) is not None


def disk_full(what: str, error: BaseException) -> DiskFull:
    """The error for a file or directory that cannot be written."""
    return DiskFull(
        f"{what} cannot be written: {_reason(error)}\nhint: free space on its disk, and run it "
        "again: the ingest goes on where the table ends"
    )


def _schemes() -> str:
    return ", ".join(f"`{scheme}://…`" for scheme in SCHEMES)


def _reason(error: BaseException) -> str:
    """The first and the last line of an error of object_store, which has one for each cause; or
    what the store answered."""
    text = _COLOUR.sub("", str(error))
    lines = [line.strip(" \u21b3\t") for line in text.splitlines()]
    lines = [line for line in lines if line] or [type(error).__name__]
    answer = _ANSWER.search(text)
    if answer is not None:
        return f"{lines[0]}: {answer['code']}, {(answer['text'] or '').strip()}".rstrip(", ")
    return lines[0] if len(lines) == 1 else f"{lines[0]}: {lines[-1]}"
