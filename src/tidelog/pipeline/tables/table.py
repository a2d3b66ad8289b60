"""The table sink's driver side: a Delta table whose commits hold their ranges of offsets.

**Exactly once** rests on three things, none of them a clock:

1. Spark writes the range of a batch into its checkpoint before it reads it. After a crash it
   repeats the batch, with the same number and the same range.
2. All files of a batch enter the table by one commit of the Delta log, which either exists or does
   not. The commit carries the transaction (*app*, batch number), where the app stands for the
   checkpoint. A batch whose transaction the table has is not written again.
3. The commit also carries the transaction (`tidelog-topic-T`, n), one more than the one before. Of
   two writers of the same topic, one loses: the Delta log refuses a commit if another writer has
   moved its transaction meanwhile. And before every commit the writer compares the ranges with the
   table's positions: offsets that the table holds are not written again, by any writer.

So the table itself has its position in each partition. A lost checkpoint loses nothing: a new one
begins where the table ends.

A commit's metadata, under the key `tidelog`: the app, the batch, the topic and its id, `offsets`
(`{"topic:partition": [start, end)}`), `positions` (the table's next offset in every partition of
the topic, and the highest epoch there) and the account of `continuity.py`. The Delta table
`_continuity` inside the table's place holds the accounts as rows. It is made from the commits,
so after a crash between the two commits the next run adds what is missing. So is `_quarantine`, of
which the metadata names the files.

`addresses.py` has where a table may be; driver and executors reach it there. A table withstands
killed processes. The files of a directory are not forced to the disk, so a power cut may remove the
last commits' files. Source: the Delta transaction protocol.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, CommitProperties, Transaction

from tidelog.errors import UsageError
from tidelog.model import NO_EPOCH, TopicPartition
from tidelog.pipeline.errors import FilesGone, FilesReplaced, OtherWriter, TableConflict
from tidelog.pipeline.tables.addresses import AnyTable, TableAddress, is_damage, is_full
from tidelog.pipeline.tables.continuity import (
    CONTINUITY_SCHEMA,
    DUPLICATE,
    Continuity,
    TablePosition,
    continuity_table,
    positions_after,
)
from tidelog.pipeline.tables.data_files import DataFile, NewFile
from tidelog.pipeline.tables.quarantine import QUARANTINE_DIRECTORY, QUARANTINE_SCHEMA
from tidelog.pipeline.tables.table_files import BRONZE_SCHEMA, PARTITION_COLUMN
from tidelog.pipeline.tables.table_schema import (
    FENCE,
    add_fields,
    check_kind,
    check_mode,
    create_table,
    found_schema,
)
from tidelog.pipeline.tables.upserts import BUCKET_COLUMN, Upsert
from tidelog.pipeline.topics.stream_offsets import from_text, to_text
from tidelog.pipeline.typed.merging import is_extended

CONTINUITY_DIRECTORY: Final = "_continuity"
CHECKPOINTS_DIRECTORY: Final = "_checkpoints"
_METADATA_KEY: Final = "tidelog"
_CONTINUITY_APP: Final = "tidelog-continuity"
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class TableBatch:
    """The content of one commit."""

    app: str
    batch: int
    files: tuple[DataFile, ...]
    account: tuple[Continuity, ...]
    quarantine: tuple[DataFile, ...] = ()
    replaced: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """By bucket of a table of upserts: the files in whose place those of the batch come."""


class BronzeTable:
    """One Delta table of the ingest, for the writer of one topic."""

    def __init__(self, delta: DeltaTable, address: TableAddress, topic: str, topic_id: str) -> None:
        # The table at the version that was last read.
        self._delta = delta
        self.address = address
        self._topic = topic
        # Kafka's id of the topic, in hexadecimal: a topic that was created anew has another.
        self._topic_id = topic_id
        # The next offset in each partition of the topic; moved by `commit`.
        self.positions: dict[TopicPartition, TablePosition] = {}
        # The types of its columns when it was opened: files have no others.
        self._types = pa.struct(found_schema(delta))
        # The topic's transaction at which `positions` hold: every writer moves both.
        self._generation = 0

    @classmethod
    def open(
        cls,
        table: AnyTable,
        topic: str,
        topic_id: str,
        *,
        schema: pa.Schema = BRONZE_SCHEMA,
        create: bool = True,
        upsert: Upsert | None = None,
        partition_by: Sequence[str] = (),
    ) -> "BronzeTable":
        """The table, which with `create` is made if it is not there. One whose structs lack fields
        of `schema` gets them. Raises `UsageError` when the place has other files, the table other
        columns, other rows (`upsert`), or another topic of the same name; `StoreUnavailable`."""
        address = TableAddress.of(table)
        with address.reached():
            delta = _open_delta(address, schema, create, upsert, partition_by)
            opened = cls(delta, address, topic, topic_id)
            opened._read_positions()
        return opened

    @property
    def table_id(self) -> str:
        """The table's id in the Delta log; a new table in the same place has another."""
        return str(self._delta.metadata().id)

    @property
    def ends(self) -> dict[str, int]:
        """The next offset in each partition, `{"topic:partition": offset}`."""
        return to_text({tp: known.end for tp, known in self.positions.items()})

    def reload(self) -> None:
        """Reads the table as it is now, with commits of other writers. Raises `UsageError`,
        `StoreUnavailable`, `TableDamaged`."""
        self.check_there()
        with self.address.reached():
            self._delta.update_incremental()
            self._read_positions()

    def check_there(self) -> None:
        """Raises `TableDamaged` where others have deleted the table. delta-rs would not notice: to
        it a log without a newer version is one to which nothing was added."""
        with self.address.reached():
            if not self.address.is_table:
                raise self.address.damaged("its log `_delta_log` is gone")

    def has(self, app: str, batch: int) -> bool:
        """Whether the table has the batch. Raises `StoreUnavailable`, `TableDamaged`."""
        with self.address.reached():
            self._delta.update_incremental()
            newest = self._delta.transaction_version(app)
        return newest is not None and newest >= batch

    def commit(self, new: TableBatch) -> None:
        """Adds the files of a batch to the table, all of them at once. Raises `TableConflict` for
        offsets that the table has, and when another writer writes the same topic into it,
        `TableDamaged` where it is gone, `FilesGone`, and `StoreUnavailable`; then the commit may be
        there or not, which `reload` finds out."""
        for line in new.account:
            if line.status == DUPLICATE:
                raise TableConflict(f"{line}; nothing of the batch was written")
        after = positions_after(self.positions, new.account)
        self.check_there()
        with self.address.reached():
            self._commit(new, after)
        self.positions = after
        self._generation += 1

    def _commit(self, new: TableBatch, after: Mapping[TopicPartition, TablePosition]) -> None:
        generation = self._generation + 1
        transactions = [Transaction(new.app, new.batch), Transaction(self._fence, generation)]
        metadata = self._metadata(new, after)
        # What is replaced was read at this version: the commit is the next one, or none. By itself
        # delta-rs would repeat a commit behind an `OPTIMIZE` of the files that it replaces.
        retries = 0 if new.replaced else None
        self._delta.update_incremental()
        gone = self.address.missing([file.path for file in new.files])
        if gone:
            raise FilesGone(
                f"`{self.address / gone[0]}` was deleted before batch {new.batch} was committed"
            )
        try:
            if self._fence_version() != self._generation:
                raise CommitFailedError(f"it has committed transaction {self._fence_version()}")
            if not is_extended(self._types, pa.struct(found_schema(self._delta))):
                raise CommitFailedError("it has given columns other types")
            if self.bucket_files(new.replaced) != new.replaced:
                raise FilesReplaced(f"files of `{self.address}` were replaced meanwhile")
            self._write(
                new,
                CommitProperties(
                    custom_metadata={_METADATA_KEY: metadata},
                    app_transactions=transactions,
                    max_commit_retries=retries,
                ),
            )
        except CommitFailedError as error:
            self._delta.update_incremental()
            if self._newest_commit().get("commit") == metadata["commit"]:
                return  # A store made it without an answer, and delta-rs repeated the request.
            if new.replaced and self._fence_version() == self._generation:
                raise FilesReplaced(f"`{self.address}` was changed meanwhile: {error}") from error
            raise OtherWriter(
                f"another writer writes topic `{self._topic}` into `{self.address}`: {error}"
            ) from error

    def _newest_commit(self) -> dict[str, Any]:
        """The metadata of the topic's newest commit; empty where the log has none."""
        commits = ingest_commits(self.address, self._delta.version())
        return next((one for one in commits if one["topic"] == self._topic), {})

    def _write(self, new: TableBatch, properties: CommitProperties) -> None:
        """The commit: files are added, and of a table of upserts those of their buckets removed."""
        added = [file.add_action(PARTITION_COLUMN) for file in new.files]
        columns = self._delta.metadata().partition_columns
        mode, buckets = "append", None
        if new.replaced:
            in_buckets = (BUCKET_COLUMN, "in", [str(bucket) for bucket in sorted(new.replaced)])
            mode, buckets = "overwrite", [(PARTITION_COLUMN, "=", self._topic), in_buckets]
        self._delta.create_write_transaction(
            added,
            mode,
            self._delta.schema(),
            columns,
            partition_filters=buckets,
            commit_properties=properties,
        )

    def bucket_files(self, buckets: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """The files of some buckets of the topic, as the table was last read."""
        found: dict[int, tuple[str, ...]] = dict.fromkeys(buckets, ())
        if not found:
            return {}
        actions = pa.table(self._delta.get_add_actions(flatten=True))
        names = ("path", f"partition.{PARTITION_COLUMN}", f"partition.{BUCKET_COLUMN}")
        for path, topic, bucket in zip(*(actions[name].to_pylist() for name in names), strict=True):
            if topic == self._topic and bucket in found:
                found[bucket] += (unquote(path),)
        return {bucket: tuple(sorted(files)) for bucket, files in found.items()}

    @property
    def _fence(self) -> str:
        return FENCE.format(self._topic)

    def _fence_version(self) -> int:
        return self._delta.transaction_version(self._fence) or 0

    def _metadata(
        self, new: TableBatch, after: Mapping[TopicPartition, TablePosition]
    ) -> dict[str, Any]:
        return {
            "commit": str(uuid4()),
            "app": new.app,
            "batch": new.batch,
            "topic": self._topic,
            "topic_id": self._topic_id,
            "offsets": to_text({one.tp: [one.start, one.end] for one in new.account}),
            "positions": to_text({tp: [each.end, each.epoch] for tp, each in after.items()}),
            "continuity": [asdict(one) for one in new.account],
            "quarantine": [asdict(one) for one in new.quarantine],
        }

    def _read_positions(self) -> None:
        self._generation = self._fence_version()
        metadata = self._newest_commit()
        if not metadata:
            self.positions = _positions_of_rows(self._delta, self._topic)
            return
        if metadata["topic_id"] != self._topic_id:
            raise UsageError(
                f"`{self.address}` holds another topic `{self._topic}`: its id is "
                f"`{metadata['topic_id']}`, the cluster's is `{self._topic_id}`",
                "the topic was deleted and created again, or this is another cluster; "
                "ingest into a new table",
            )
        found = from_text(metadata["positions"])
        self.positions = {tp: TablePosition(end, epoch) for tp, (end, epoch) in found.items()}

    def sync_continuity(self) -> None:
        """Adds what the commits say to `_quarantine` and `_continuity` where they do not have it
        yet. Raises `StoreUnavailable`, `TableDamaged`."""
        self.check_there()
        for attempt in range(_ATTEMPTS):
            try:
                with self.address.reached():
                    self._add_continuity()
                return
            except CommitFailedError:
                # The writer of another topic was faster, and has added these accounts too.
                if attempt + 1 == _ATTEMPTS:
                    raise

    def _add_continuity(self) -> None:
        place = self.address / CONTINUITY_DIRECTORY
        place.create(CONTINUITY_SCHEMA, mode="ignore", name="continuity")
        delta = place.delta()
        add_fields(place, delta, CONTINUITY_SCHEMA)
        self._delta.update_incremental()
        newest = self._delta.version()
        oldest = _followed(delta)
        # Before the accounts: what these have is not looked at again.
        self._add_quarantine(oldest, newest)
        commits = list(ingest_commits(self.address, newest, down_to=oldest))
        accounts = [
            continuity_table([Continuity(**line) for line in one["continuity"]], one["app"])
            for one in reversed(commits)
        ]
        if accounts:
            _follow(delta, [_continuity_file(place, pa.concat_tables(accounts))], newest)

    def _add_quarantine(self, oldest: int, newest: int) -> None:
        if not self._quarantined(oldest, newest):
            return
        place = self.address / QUARANTINE_DIRECTORY
        place.create(QUARANTINE_SCHEMA, mode="ignore", name="quarantine")
        delta = place.delta()
        files = self._quarantined(max(oldest, _followed(delta)), newest)
        if files:
            _follow(delta, [file.add_action() for file in files], newest)

    def _quarantined(self, oldest: int, newest: int) -> list[DataFile]:
        """The files of the quarantine that commits above version `oldest` name."""
        commits = ingest_commits(self.address, newest, down_to=oldest)
        return [DataFile(**file) for commit in commits for file in commit.get("quarantine", ())]


def _followed(delta: DeltaTable) -> int:
    """The version of the ingest's table up to which this one has what the commits say."""
    known = delta.transaction_version(_CONTINUITY_APP)
    return -1 if known is None else int(known)


def _follow(delta: DeltaTable, added: list[AddAction], newest: int) -> None:
    """Adds files, and notes that the commits up to version `newest` are followed. Raises
    `CommitFailedError` when another writer has noted some meanwhile."""
    properties = CommitProperties(app_transactions=[Transaction(_CONTINUITY_APP, newest)])
    delta.create_write_transaction(added, "append", delta.schema(), commit_properties=properties)


def commit_actions(address: TableAddress, version: int) -> list[dict[str, Any]]:
    """The actions of one commit of a table's log. Raises `FileNotFoundError`."""
    lines = address.read(f"_delta_log/{version:020}.json").splitlines()
    return [json.loads(line) for line in lines]


def ingest_commits(table: AnyTable, newest: int, down_to: int = -1) -> Iterator[dict[str, Any]]:
    """The metadata of the ingest's commits from version `newest` back to the one above `down_to`,
    or to where the log was cleaned up."""
    address = TableAddress.of(table)
    with suppress(FileNotFoundError):
        for version in range(newest, down_to, -1):
            for action in commit_actions(address, version):
                info = action.get("commitInfo", {})
                if _METADATA_KEY in info:
                    yield info[_METADATA_KEY]


def _open_delta(
    address: TableAddress,
    schema: pa.Schema,
    create: bool,
    upsert: Upsert | None,
    partition_by: Sequence[str],
) -> DeltaTable:
    try:
        is_table = address.is_table
        if not create and not is_table:
            raise UsageError(
                f"`{address}` is not a Delta table, but the checkpoint belongs to one",
                "give the `--table` that the checkpoint belongs to, or a new `--checkpoint`; "
                "`tidelog spark checkpoint show` names that table",
            )
        strangers = [name for name in address.names() if name != CHECKPOINTS_DIRECTORY]
        if strangers and not is_table:
            raise UsageError(
                f"`{address}` is not a Delta table and not empty: there is `{strangers[0]}`",
                "give the table a place of its own with `--table`",
            )
        if is_table:
            delta = address.delta()
        else:
            delta = create_table(address, schema, upsert, partition_by)
        probe = f".tidelog-{uuid4()}"
        NewFile(address, probe, schema).finish("", {})
        address.remove(probe)
    except (OSError, DeltaError) as error:
        if address.directory is None or is_damage(error) or is_full(error):
            raise
        raise UsageError(
            f"the table `{address}` cannot be opened and written: {error}",
            "check the path given with `--table`, its owner and its permissions",
        ) from error
    check_kind(delta, address)
    check_mode(delta, address, upsert, partition_by)
    add_fields(address, delta, schema)
    return delta


def _positions_of_rows(delta: DeltaTable, topic: str) -> dict[TopicPartition, TablePosition]:
    """The positions by the rows themselves: for a table whose log was cleaned up."""
    dataset = delta.to_pyarrow_dataset()
    columns = ["partition", "offset", "leader_epoch"]
    rows = dataset.to_table(columns=columns, filter=pc.field("topic") == topic)
    ends = rows.group_by("partition").aggregate([("offset", "max"), ("leader_epoch", "max")])
    return {
        TopicPartition(topic, row["partition"]): TablePosition(
            row["offset_max"] + 1, row.get("leader_epoch_max", NO_EPOCH)
        )
        for row in ends.to_pylist()
    }


def _continuity_file(place: TableAddress, rows: pa.Table) -> AddAction:
    file = NewFile(place, f"part-{uuid4()}.parquet", rows.schema)
    file.write(rows)
    return file.finish("", {"numRecords": len(rows)}).add_action()
