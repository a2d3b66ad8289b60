"""The table of runs: a directory of Parquet files, a row for each run of a seed.

A file is added whole or not at all, by a rename. So readers need no list of finished files, and
writers need no coordination. Anything that reads Parquet reads the table. A seed may have several
rows: it ran again after a crash, or Spark repeated a task whose end was not reported.
Left out: deletion and compaction. A row has some 1 KB.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyarrow import dataset, parquet

from tidelog.errors import UsageError
from tidelog.pipeline.spark_columns import arrow_schema

RUN_SCHEMA: Final = arrow_schema(
    "tier string, scenario string, revision string, seed bigint, verdict string, property string, "
    "violation string, events bigint, virtual_ms bigint, acknowledged bigint, healed_ms bigint, "
    "cpu_ms bigint, wall_ms bigint, trace_hash string, faults map<string,bigint>, "
    "fired map<string,bigint>, marks array<string>, election_ms array<bigint>, "
    "unavailable_ms array<bigint>"
)
"""A run: its kind and seed, the verdict (`clean`, `violation`, `crash`, `timeout`), the property
that was violated, the run's counts, and how long it took."""

_BATCH_ROWS: Final = 10_000

Run = Mapping[str, Any]
"""A row of `RUN_SCHEMA`; maps are lists of pairs when they were read."""


def add_runs(table: str, rows: Sequence[Run]) -> None:
    """Adds one file with these rows, if there are any; creates the table if it does not exist."""
    if not rows:
        return
    place = Path(table)
    place.mkdir(parents=True, exist_ok=True)
    name = f"part-{uuid4().hex}.parquet"
    unfinished = place / f".{name}.new"
    with unfinished.open("wb") as file:
        parquet.write_table(pa.Table.from_pylist(list(rows), schema=RUN_SCHEMA), file)
        file.flush()
        # After a power cut a file of this name must not be empty.
        os.fsync(file.fileno())
    unfinished.replace(place / name)


def runs_of(
    table: str, tier: str, scenario: str, revision: str, columns: Sequence[str] = RUN_SCHEMA.names
) -> Iterator[Run]:
    """The runs of one kind by the same sources, in no order; none when there is no table. Raises
    `UsageError` for a file that cannot be read as part of such a table."""
    files = sorted(map(str, Path(table).glob("part-*.parquet")))
    if not files:
        return
    field = dataset.field
    ours = (
        (field("tier") == tier) & (field("scenario") == scenario) & (field("revision") == revision)
    )
    try:
        found = dataset.dataset(files, schema=RUN_SCHEMA, format="parquet")
        for batch in found.to_batches(columns=list(columns), filter=ours, batch_size=_BATCH_ROWS):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise UsageError(
            f"the table of runs `{table}` cannot be read: {error}",
            "move the file that the message names, or give another `--out`",
        ) from error
