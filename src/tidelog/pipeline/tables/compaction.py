"""Compaction of a table: few large files instead of many small ones, with the same rows.

Every batch of an ingest leaves a file per task, and each costs readers time. `compact` lets
delta-rs rewrite files below a target size into larger ones. It is one commit of the Delta log like
any other: readers see the table before or after it, and an ingest may go on meanwhile, because it
only adds files.

*Exactness* is checked: the files that the commit removed and those it added must hold the same
offsets (topic, partition, offset), each as often, with keys and values of the same size. If they do
not, the table is restored to the version before. If an ingest has written since, restoring would
remove its rows: then the message names the version that was right.

With columns to cluster by, all files are rewritten, not the small ones alone: rows that are near
each other in these columns (in Z-order, for several) come to lie in the same files and row groups,
whose statistics let readers skip the others.

Files that a commit removed stay for readers of older versions, and so do files that no commit
names, until `vacuum` removes those that are old enough. Younger files may belong to a batch that is
being written, so the limit is an hour or more. The clock may have jumped, so it does not decide
alone: a file whose name has a batch above the newest one that the table has of its topic stays.
Needs no Spark. Source: the Delta transaction protocol (`remove` and `add` without data change).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from tidelog.errors import UsageError
from tidelog.pipeline.errors import OtherWriter, TableConflict
from tidelog.pipeline.tables.addresses import AnyTable, TableAddress
from tidelog.pipeline.tables.table import CONTINUITY_DIRECTORY, commit_actions, ingest_commits
from tidelog.pipeline.tables.table_files import TARGET_FILE_BYTES
from tidelog.pipeline.tables.table_schema import open_existing

MIN_VACUUM_HOURS: Final = 1
_OF_BATCH: Final = re.compile(r"topic=(?P<topic>[^/]+)/(?:.*/)?batch-(?P<batch>\d+)-[^/]+")


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result: numbers of files and rows."""

    files_before: int
    files_after: int
    rewritten: int
    rows: int
    """Rows in the replaced files, each found again in the new ones."""
    vacuumed: int
    version: int


def compact(
    table: AnyTable,
    *,
    target_bytes: int = TARGET_FILE_BYTES,
    cluster_by: Sequence[str] = (),
    vacuum_hours: int | None = None,
) -> Compaction:
    """Rewrites small files, `_continuity`'s too, and checks the result. Raises `UsageError` for a
    place that is not a table of the ingest, `TableConflict` when another writer rewrites it, or
    when rows would have changed, `StoreUnavailable`."""
    if vacuum_hours is not None and vacuum_hours < MIN_VACUUM_HOURS:
        raise UsageError(
            f"`--vacuum-hours` is `{vacuum_hours}`",
            f"give {MIN_VACUUM_HOURS} or more: younger files may be those of a running batch",
        )
    address = TableAddress.of(table)
    with address.reached():
        delta = open_existing(address)
        _check_columns(delta, cluster_by)
        before, files_before = delta.version(), len(delta.file_uris())
        _optimize(address, delta, target_bytes, cluster_by)
        delta = address.delta()
        rewritten, rows = _check(delta, address, before)
        accounts = address / CONTINUITY_DIRECTORY
        if accounts.is_table:
            _optimize(accounts, accounts.delta(), target_bytes)
        vacuumed = 0 if vacuum_hours is None else _vacuum(address, vacuum_hours)
        version = address.delta().version()
    return Compaction(files_before, len(delta.file_uris()), rewritten, rows, vacuumed, version)


def _check_columns(delta: DeltaTable, names: Sequence[str]) -> None:
    """Raises `UsageError` for columns that rows cannot be sorted by."""
    divided = delta.metadata().partition_columns
    schema = pa.schema(delta.schema().to_arrow())
    good = [
        one.name for one in schema if one.name not in divided and not pa.types.is_nested(one.type)
    ]
    for name in names:
        if name not in good:
            raise UsageError(
                f"`--cluster-by` names `{name}`, which is not a column to sort rows by",
                f"those are {', '.join(good)}; a transform makes columns of fields",
            )


def _optimize(
    address: TableAddress, delta: DeltaTable, target_bytes: int, cluster_by: Sequence[str] = ()
) -> None:
    try:
        if cluster_by:
            delta.optimize.z_order(cluster_by, target_size=target_bytes)
        else:
            delta.optimize.compact(target_size=target_bytes)
    except CommitFailedError as error:
        raise OtherWriter(f"another writer rewrites `{address}`: {error}") from error


def _check(delta: DeltaTable, address: TableAddress, before: int) -> tuple[int, int]:
    """Compares the removed rows with the added ones; returns the numbers of files and rows
    replaced."""
    removed: list[str] = []
    added: list[str] = []
    for action in _optimize_actions(address, before, delta.version()):
        for name, files in (("remove", removed), ("add", added)):
            if name in action:
                files.append(unquote(action[name]["path"]))
    old, new = _contents(address, removed), _contents(address, added)
    if not old.equals(new):
        outcome = f"version {before} was right, and an ingest has written since"
        if _is_alone(address, before, delta.version()):
            delta.restore(before)
            outcome = "the table is as it was before"
        raise TableConflict(
            f"compaction of `{address}` would have changed rows ({_sum(old)} rows before, "
            f"{_sum(new)} after); {outcome}"
        )
    return len(removed), _sum(old)


def _optimize_actions(address: TableAddress, before: int, newest: int) -> Iterator[dict[str, Any]]:
    for version in range(before + 1, newest + 1):
        actions = commit_actions(address, version)
        if _is_compaction(actions):
            yield from actions


def _is_alone(address: TableAddress, before: int, newest: int) -> bool:
    versions = range(before + 1, newest + 1)
    return all(_is_compaction(commit_actions(address, version)) for version in versions)


def _is_compaction(actions: list[dict[str, Any]]) -> bool:
    return any(one.get("commitInfo", {}).get("operation") == "OPTIMIZE" for one in actions)


def _contents(address: TableAddress, files: list[str]) -> pa.Table:
    """How often each offset is in the files, and how many bytes its keys and values have."""
    parts = [_places(address, name) for name in files]
    if not parts:
        return pa.table({"rows": pa.array([], pa.int64())})
    keys = ["topic", "partition", "offset"]
    sums = pa.concat_tables(parts).group_by(keys).aggregate([("rows", "sum"), ("bytes", "sum")])
    summed = sums.sort_by([(name, "ascending") for name in keys])
    return summed.rename_columns({"rows_sum": "rows", "bytes_sum": "bytes"}).combine_chunks()


def _places(address: TableAddress, name: str) -> pa.Table:
    """One row per row of a file: topic, partition, offset, and the size of its key and value."""
    table = address.rows(name, ["partition", "offset", "key", "value"])
    sizes = [_sizes(table.column(name)) for name in ("key", "value")]
    return pa.table(
        {
            "topic": pa.repeat(pa.scalar(PurePosixPath(name).parent.name), len(table)),
            "partition": table.column("partition"),
            "offset": table.column("offset"),
            "rows": pa.repeat(pa.scalar(1, pa.int64()), len(table)),
            "bytes": pc.add(*sizes),
        }
    )


def _sizes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The bytes of texts and of all texts in structs; 1 for what is there of another type. Lists
    are not looked into."""
    type_ = column.type
    if pa.types.is_struct(type_):
        sizes = pc.cast(column.is_valid(), pa.int64())
        for index in range(type_.num_fields):
            sizes = pc.add(sizes, _sizes(pc.struct_field(column, index)))
        return sizes
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return pc.fill_null(pc.binary_length(column), 0).cast(pa.int64())
    return column.is_valid().cast(pa.int64())


def _sum(contents: pa.Table) -> int:
    return int(pc.sum(contents.column("rows")).as_py() or 0)


def _vacuum(address: TableAddress, hours: int) -> int:
    """Deletes files of that age, by the clocks of this machine and of the table's place; returns
    their number."""
    removed = 0
    for place in (address, address / CONTINUITY_DIRECTORY):
        if place.is_table:
            delta = place.delta()
            how = {"dry_run": True, "enforce_retention_duration": False}
            replaced = set(delta.vacuum(hours, **how))
            unnamed = set(delta.vacuum(hours, **how, full=True)) - replaced
            unnamed -= _under_way(place, delta.version(), unnamed)
            for name in replaced | unnamed:
                place.remove(name)
            removed += len(replaced | unnamed)
    return removed


def _under_way(address: TableAddress, newest: int, names: Iterable[str]) -> set[str]:
    """Which of these files, which no commit names, may be those of a batch that is being written:
    the table has no batch of their topic with that number or a larger one."""
    of_batch = {name: match for name in names if (match := _OF_BATCH.fullmatch(name))}
    topics = {match["topic"] for match in of_batch.values()}
    committed: dict[str, int] = {}
    for commit in ingest_commits(address, newest):
        if topics <= committed.keys():
            break
        committed.setdefault(commit["topic"], commit["batch"])
    return {
        name
        for name, match in of_batch.items()
        if int(match["batch"]) > committed.get(match["topic"], -1)
    }
