"""An ingest's checkpoint: Spark's own logs, and beside them the identity of the ingest.

Spark keeps a file per batch in `offsets` (planned, written before the batch is read) and in
`commits` (done), but not which topic or table a checkpoint belongs to, nor where the query began.
It would continue from the checkpoint of another topic without an error. So the ingest writes
`tidelog-ingest.json` there before the first batch, and compares every later run with it.

*Frozen* is what a run must not change, because the checkpoint's offsets mean nothing without it:
the topic and its id, the table, where the ingest began, and the options that decide which records
are read.

Spark's format: a version line, a line of metadata with the frozen confs, a line per source with its
offsets as JSON. Spark repeats a batch that was planned and not committed, with the same offsets.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tidelog.errors import UsageError
from tidelog.model import NO_OFFSET, TopicPartition
from tidelog.pipeline.places import Place, local_path
from tidelog.pipeline.tables.addresses import disk_full, is_full
from tidelog.pipeline.topics.option_names import ISOLATION_NAMES, Option
from tidelog.pipeline.topics.stream_offsets import Position, from_text, ranges_to_text
from tidelog.pipeline.values import OffsetRange, Offsets

IDENTITY_FILE: Final = "tidelog-ingest.json"
UNSAID_ISOLATION: Final = "read_uncommitted"
"""What an ingest read whose checkpoint does not say it: the source's default was the ingest's."""
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """The ingest that a checkpoint belongs to; written once."""

    app: str
    """The name of the checkpoint's transactions in the table."""
    topic: str
    topic_id: str
    table: str
    table_id: str
    starting_offsets: str
    """As the user gave it."""
    birth: Mapping[str, int]
    """Where the ingest began: `{"topic:partition": first offset}`."""
    options: Mapping[str, str]
    """The source's options that decide what is read."""

    @property
    def isolation_level(self) -> str:
        """Of the records that are read."""
        given = (text for name, text in self.options.items() if name.lower() in ISOLATION_NAMES)
        return next(given, UNSAID_ISOLATION).lower()

    @property
    def is_isolation_unsaid(self) -> bool:
        """Whether the ingest was begun when no level stood in checkpoints."""
        return not ISOLATION_NAMES & set(map(str.lower, self.options))

    @property
    def frozen_options(self) -> dict[str, str]:
        """The options with an isolation level, by one of its two names."""
        others = {
            name: x for name, x in self.options.items() if name.lower() not in ISOLATION_NAMES
        }
        return {**others, Option.ISOLATION_LEVEL: self.isolation_level}


def read_identity(checkpoint: Path) -> Identity | None:
    """The identity of the checkpoint's ingest; `None` for a new checkpoint. Raises `UsageError` for
    a file that cannot be read, and for a checkpoint of something else."""
    path = checkpoint / IDENTITY_FILE
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if fields.pop("version") != _VERSION:
            raise ValueError("written by a newer version")
        return Identity(**fields)
    except FileNotFoundError:
        if (checkpoint / "offsets").exists():
            raise UsageError(
                f"`{checkpoint}` is the checkpoint of another Spark query",
                "give a directory of its own with `--checkpoint`",
            ) from None
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"`{path}` cannot be read: {error}",
            "give a new `--checkpoint`: the ingest goes on where the table ends",
        ) from error


def write_identity(checkpoint: Path, identity: Identity) -> None:
    """Writes the identity of a new checkpoint; a crash leaves the whole file or none. Raises
    `UsageError` when the directory cannot be written, `DiskFull`."""
    try:
        checkpoint.mkdir(parents=True, exist_ok=True)
        temporary = checkpoint / f".{IDENTITY_FILE}.tmp"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(json.dumps({"version": _VERSION, **asdict(identity)}, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(checkpoint / IDENTITY_FILE)
    except OSError as error:
        if is_full(error):
            raise disk_full(f"the checkpoint `{checkpoint}`", error) from error
        raise UsageError(
            f"the checkpoint `{checkpoint}` cannot be written: {error}",
            "check the path given with `--checkpoint`, its owner and its permissions",
        ) from error


def check_same(checkpoint: Path, known: Identity, now: Identity, *, asked: str | None) -> None:
    """Refuses a run whose frozen parts differ from the checkpoint's. `asked` is the
    `--starting-offsets` of this run, if it was given. Raises `UsageError`."""
    fresh = "give a new `--checkpoint`: the ingest goes on where the table ends"
    for what, old, new in (
        ("topic", known.topic, now.topic),
        ("topic id", known.topic_id, now.topic_id),
        ("table", known.table_id, now.table_id),
    ):
        if old != new:
            of_table = f" (`{known.table}`)" if what == "table" else ""
            raise UsageError(
                f"`{checkpoint}` is the checkpoint of the {what} `{old}`{of_table}, not of `{new}`",
                "give each pair of topic and table a checkpoint of its own with `--checkpoint`",
            )
    if asked is not None and asked != known.starting_offsets:
        raise UsageError(
            f"`{checkpoint}` began with `--starting-offsets {known.starting_offsets}`; "
            f"`{asked}` would change nothing",
            f"leave the option out, or {fresh}",
        )
    before, after = known.frozen_options, now.frozen_options
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            raise UsageError(
                f"`{checkpoint}` was begun with `{name}` = `{before.get(name, 'unset')}`, "
                f"not `{after.get(name, 'unset')}`: the records read would be others",
                f"leave it as it was, or {fresh}",
            )


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """One file of Spark's `offsets` log."""

    ends: Offsets
    """Where the batch ends, exclusive."""
    conf: Mapping[str, str]


def read_planned(checkpoint: Path, batch: int) -> PlannedBatch | None:
    """A batch as Spark planned it; `None` when the checkpoint does not have it (any more). Raises
    `UsageError` for a file in another format."""
    path = checkpoint / "offsets" / str(batch)
    try:
        version, metadata, *sources = path.read_text(encoding="utf-8").splitlines()
        if not version.startswith("v") or len(sources) != 1:
            raise ValueError(f"{len(sources)} sources in format {version!r}")
        position = Position.from_json({} if sources[0] == "-" else json.loads(sources[0]))
        return PlannedBatch(position.offsets, json.loads(metadata).get("conf", {}))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(
            f"`{path}` is not an offset log of a tidelog stream: {error}",
            "name the `--checkpoint` of a tidelog query",
        ) from error


def batches_in(checkpoint: Path, log: str) -> list[int]:
    """The numbers of the batches in `offsets` or `commits`, ascending."""
    directory = checkpoint / log
    if not directory.is_dir():
        return []
    return sorted(int(one.name) for one in directory.iterdir() if one.name.isdecimal())


def planned_ranges(checkpoint: Path, birth: Mapping[str, int], batch: int) -> list[OffsetRange]:
    """The planned range of each partition of a batch, without empty ones. A partition that was
    added since the batch before has a start of -1, because the checkpoint does not have it. Raises
    `UsageError`."""
    planned = read_planned(checkpoint, batch)
    if planned is None:
        raise UsageError(
            f"`{checkpoint}` has no batch {batch}, which Spark has planned: its files are gone",
            "give a new `--checkpoint`: the ingest goes on where the table ends",
        )
    before = read_planned(checkpoint, batch - 1) if batch else None
    starts = from_text(birth) if before is None else before.ends
    return [
        OffsetRange(*tp, start, end)
        for tp, end in sorted(planned.ends.items())
        if (start := starts.get(tp, NO_OFFSET)) < end
    ]


def starting_json(birth: Mapping[TopicPartition, int]) -> str:
    """Offsets as the option `startingOffsets` wants them."""
    by_topic: dict[str, dict[str, Any]] = {}
    for tp, offset in sorted(birth.items()):
        by_topic.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return json.dumps(by_topic)


def describe(place: Place) -> dict[str, Any]:
    """Everything about a checkpoint, as plain values: `identity`, `batches`, `conf`. Raises
    `UsageError` for a directory that is not a checkpoint."""
    checkpoint = local_path(place)
    if not (checkpoint / "offsets").is_dir() and not (checkpoint / IDENTITY_FILE).is_file():
        raise UsageError(
            f"`{checkpoint}` is not a checkpoint",
            "give the directory of `--checkpoint`; by default `_checkpoints/TOPIC` in the table",
        )
    identity = read_identity(checkpoint) if (checkpoint / IDENTITY_FILE).is_file() else None
    birth = {} if identity is None else identity.birth
    numbers = batches_in(checkpoint, "offsets")
    committed = set(batches_in(checkpoint, "commits"))
    newest = read_planned(checkpoint, numbers[-1]) if numbers else None
    return {
        "identity": None if identity is None else asdict(identity),
        "batches": [
            {
                "batch": number,
                "committed": number in committed,
                "ranges": ranges_to_text(planned_ranges(checkpoint, birth, number)),
            }
            for number in numbers
        ],
        "conf": {} if newest is None else dict(newest.conf),
    }
