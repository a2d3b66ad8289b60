"""What `tidelog spark ingest` shows: progress while it runs, and the result.

On a terminal a line changes. Elsewhere stderr has lines of JSON, so that a log has them: the types
of each topic, and each batch of a run without an end. stdout has the result only.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli import terminal
from tidelog.cli.terminal import OutputFormat, counted
from tidelog.errors import UsageError
from tidelog.pipeline.typed.formats import Format

if TYPE_CHECKING:
    from tidelog.pipeline.jobs.ingest import IngestResult, OnProgress, Progress
    from tidelog.pipeline.jobs.ingest_plan import Prepared
    from tidelog.pipeline.jobs.table import Fault

_UNCOMMITTED: Final = (
    "`{}` goes on with `isolation.level=read_uncommitted`, as its checkpoint was begun: the table "
    "has records of aborted transactions, too"
)


@dataclass(frozen=True, slots=True)
class Done:
    """The result of one topic."""

    topic: str
    table: str
    result: "IngestResult"
    faults: "list[Fault] | None"
    """Of the whole table; `None` when it was not verified."""
    schemas: dict[str, str] = field(default_factory=dict)
    """The types of keys and values, where they are not raw."""

    @property
    def is_good(self) -> bool:
        return self.result.is_clean and not self.faults

    def as_json(self) -> dict[str, Any]:
        """What scripts read."""
        verified = {} if self.faults is None else {"faults": terminal.plain(self.faults)}
        about = {"table": self.table, "clean": self.result.is_clean}
        schemas = {"schemas": self.schemas} if self.schemas else {}
        return {**about, **terminal.plain(self.result), **schemas, **verified}


@contextmanager
def shown_progress(*, is_endless: bool) -> "Iterator[OnProgress]":
    """Shows how far the ingest is, on stderr."""
    if not sys.stderr.isatty():
        yield _print_batch if is_endless else lambda far: None
        return
    from rich.console import Console

    newest: dict[str, Progress] = {}

    with Console(stderr=True).status("waiting for the first batch") as status:

        def show(far: "Progress") -> None:
            newest[far.topic] = far
            status.update("; ".join(map(progress_line, newest.values())))

        yield show


def schemas_of(prepared: "Prepared") -> dict[str, str]:
    """The types of keys and values, as a schema file has them, where they are not raw bytes."""
    from tidelog.pipeline.typed.schema_text import schema_text, type_text

    layouts = {"key": prepared.key, "value": prepared.value}
    return {
        part: schema_text(one.type) if one.format.has_fields else type_text(one.type)
        for part, one in layouts.items()
        if one.format is not Format.RAW
    }


def show_topic(topic: str, found: "Prepared | UsageError") -> None:
    """Shows on stderr, before a topic is read, which types its keys and values get, and whether its
    checkpoint is one from before `read_committed` was the default; or why it has to wait."""
    if isinstance(found, UsageError):
        line = f"`{topic}` has to wait: {found.message}\nhint: {found.hint}"
        about: dict[str, Any] = {"waits": found.message, "hint": found.hint}
    else:
        schemas, identity = schemas_of(found), found.identity
        lines = [f"{part}s of `{topic}`: {text}" for part, text in schemas.items()]
        about = {"schemas": schemas} if schemas else {}
        if identity.is_isolation_unsaid:
            about["isolation_level"] = identity.isolation_level
            lines.append(_UNCOMMITTED.format(topic))
        if not about:
            return
        line = "\n".join(lines)
    is_seen = sys.stderr.isatty()
    terminal.print_aside(line if is_seen else json.dumps({"topic": topic, **about}))


def _print_batch(far: "Progress") -> None:
    line = {"at": datetime.now(UTC).isoformat(), **terminal.plain(far)}
    # The metrics have these; a topic may have thousands of partitions.
    del line["lags"], line["stages_s"]
    terminal.print_aside(json.dumps(line))


def progress_line(far: "Progress") -> str:
    """`t: 12,000 rows in 3 batches, 80 behind, 4,000 rows/s, newest record 0.8 s old`."""
    parts = [f"{far.topic}: {counted(far.rows, 'row')}"]
    parts[0] += f" in {counted(far.batches, 'batch', 'batches')}"
    parts += [] if far.lag is None else [f"{far.lag:,} behind"]
    parts.append(f"{far.rows_per_s:,.0f} rows/s")
    parts += [f"{far.quarantined_rows:,} quarantined"] if far.quarantined_rows else []
    parts += [] if far.newest_age_s is None else [f"newest record {far.newest_age_s:,.1f} s old"]
    return ", ".join(parts)


def print_done(done: Sequence[Done], output: OutputFormat) -> None:
    """The results: as JSON that of the one topic, or an object by topic."""
    if output is OutputFormat.JSON and len(done) == 1:
        terminal.print_json(done[0].as_json())
    elif output is OutputFormat.JSON:
        topics = {one.topic: one.as_json() for one in done}
        terminal.print_json({"clean": all(one.result.is_clean for one in done), "topics": topics})
    else:
        _print_tables(done)


def _print_tables(done: Sequence[Done]) -> None:
    rows = [row for one in done for row in sorted(one.result.positions.items())]
    terminal.print_table("", ("partition", "next offset"), rows)
    for one in done:
        result = one.result
        for violation in result.violations:
            terminal.print_line(violation)
        repeated = f", {result.repeated_batches} run again" if result.repeated_batches else ""
        bad = counted(result.quarantined_rows, "record")
        quarantined = f"{bad} in the quarantine, " if result.quarantined_rows else ""
        verdict = "continuous" if result.is_clean else "NOT continuous"
        named = "" if len(done) == 1 else f"{one.topic}: "
        terminal.print_line(
            f"{named}{counted(result.rows, 'row')} in "
            f"{counted(result.batches, 'batch', 'batches')}{repeated}, "
            f"{counted(result.control_rows, 'control record')}, {quarantined}"
            f"{counted(result.gap_rows, 'offset')} missing, in {result.seconds:.1f} s: {verdict}"
        )
    for table, faults in {one.table: one.faults for one in done}.items():
        if faults is not None:
            for fault in faults:
                terminal.print_line(str(fault))
            found = counted(len(faults), "fault") if faults else "rows and accounts agree"
            terminal.print_line(f"the whole table `{table}`, verified: {found}")
