"""`tidelog spark health`: the health of replication, from the nodes' own events."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from tidelog.cli import terminal
from tidelog.cli.arguments import option
from tidelog.cli.spark_job import Master, Topics, interruptible, needs_spark, open_session
from tidelog.cli.terminal import TABLE, BadAnswer, Output, OutputFormat
from tidelog.errors import UsageError
from tidelog.pipeline.health.figures import TABLES, Health, leader_name

Row = dict[str, Any]

_MOST_ROWS = 30
"""A table for eyes has no more; JSON and Parquet have all."""
_POLL_S = 0.5

Server = Annotated[
    str | None,
    option(
        "--bootstrap-server",
        "Read the topic `__tidelog_events` (`tidelog.events.topic.enable`).",
        "HOST:PORT",
    ),
]
Directories = Annotated[
    list[Path] | None,
    option(
        "--events",
        "Read `events.jsonl` of a cluster's or a node's directory; several times.",
        "DIR",
    ),
]
Since = Annotated[str | None, option("--since", "30m, 12h, 7d, or a time (UTC).", "WHEN")]
Report = Annotated[
    Path | None, option("--report", "Write Parquet tables and report.html there.", "DIR")
]
Follow = Annotated[
    bool, option("--follow", "Report what begins and ends as it happens, until Ctrl-C.")
]


def health(
    bootstrap_server: Server = None,
    directories: Directories = None,
    since: Since = None,
    topics: Topics = None,
    report: Report = None,
    follow: Follow = False,
    master: Master = "local[*]",
    output: Output = TABLE,
) -> None:
    """Report how healthy replication was: leaders, lagging replicas, time without a leader.

    Exit code 1 when something was wrong at the last event: a partition without leader, or with
    too few in-sync replicas, or with a high watermark that stands still.
    """
    if (bootstrap_server is None) == (not directories):
        raise UsageError(
            "the events are named twice, or not at all",
            "give `--events DIR`, or `--bootstrap-server HOST:PORT`",
        )
    if follow and (since is not None or report is not None):
        option = "--since" if since is not None else "--report"
        raise UsageError(
            f"`{option}` is about what was, `--follow` reports what happens from now on",
            "give one of the two",
        )
    if follow:
        _follow(bootstrap_server, topics or [], master, output)
        return
    with open_session(master) as spark:
        from tidelog.pipeline.health import events as health_events
        from tidelog.pipeline.health.report import page
        from tidelog.pipeline.health.transforms import of_topics
        from tidelog.pipeline.jobs.health import measure, write_tables

        begin = None if since is None else health_events.since(since, datetime.now(UTC))
        events = _read(spark, bootstrap_server, directories or [])
        # Every figure and every table reads them again.
        events = (of_topics(events, topics) if topics else events).cache()
        with terminal.progress("reading events"):
            found = measure(events, since=begin)
        if report is not None:
            with terminal.progress("writing the report"):
                write_tables(events, report)
                (report / "report.html").write_text(page(found), encoding="utf-8")
    terminal.print_answer(output, as_json(found), lambda: _print(found, report))
    if found.open_now:
        raise BadAnswer


def _read(spark: Any, bootstrap_server: str | None, directories: Sequence[Path]) -> Any:
    """The events as a frame, from the topic or from files."""
    from tidelog.pipeline.health import events

    if bootstrap_server is not None:
        return events.read_event_topic(spark, bootstrap_server)
    return events.read_event_files(spark, events.find_event_files(directories))


def _follow(
    bootstrap_server: str | None, topics: list[str], master: str, output: OutputFormat
) -> None:
    """Prints rows of the streaming form until it is interrupted."""
    if bootstrap_server is None:
        raise UsageError(
            "`--follow` reads the topic of events",
            "give `--bootstrap-server HOST:PORT` of a cluster with "
            "`tidelog.events.topic.enable=true`",
        )

    def show(rows: Sequence[Row]) -> None:
        for row in rows:
            if topics and row["topic"] not in topics:
                continue
            if output is OutputFormat.JSON:
                terminal.print_json(row)
            elif row["kind"] != "commit":
                terminal.print_line(followed_line(row))

    with needs_spark():
        from tidelog.pipeline.health.stream import STREAM_CONF
    with open_session(master, STREAM_CONF) as spark, interruptible() as is_over:
        from tidelog.pipeline.jobs.health import follow_topic

        query = follow_topic(spark, bootstrap_server, show)
        while not query.awaitTermination(_POLL_S) and not is_over():
            pass
        query.stop()


def followed_line(row: Row) -> str:
    """`09:10:11 began: under replicated orders-0 (broker 2 fenced)`."""
    ended = row["end_us"] is not None
    at = datetime.fromtimestamp((row["end_us"] if ended else row["start_us"]) / 1e6, UTC)
    what = f"{row['kind'].replace('_', ' ')} {_partition(row)} ({row['cause']})"
    if not ended:
        return f"{at:%H:%M:%S} began: {what}"
    return f"{at:%H:%M:%S} ended after {_ms(row['duration_ms'])} ms: {what}"


def as_json(found: Health) -> dict[str, Any]:
    """What scripts read: figures and tables, times as ISO text."""
    return {
        "healthy": not found.open_now,
        "events": found.events,
        "brokers": found.brokers,
        "first": _text(found.first),
        "last": _text(found.last),
        **{
            name: [{key: _text(value) for key, value in row.items()} for row in rows]
            for name in TABLES
            if (rows := getattr(found, name)) is not None
        },
    }


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _print(found: Health, report: Path | None) -> None:
    brokers = ", ".join(map(str, found.brokers)) or "none"
    terminal.print_line(
        f"{found.events:,} events of brokers {brokers}, {_clock(found.first)} to "
        f"{_clock(found.last)} UTC"
    )
    for title, columns, rows in _tables(found):
        if rows:
            terminal.print_table(title, columns, rows[:_MOST_ROWS])
        if len(rows) > _MOST_ROWS:
            terminal.print_line(f"… and {len(rows) - _MOST_ROWS} more; `--output json` has all")
    for row in found.open_now:
        terminal.print_line(
            f"{row['kind']} since {_clock(row['start'])}: {row['topic']}-{row['partition']} "
            f"({row['cause']})"
        )
    if report is not None:
        terminal.print_line(f"report: {report / 'report.html'}")


_Table = tuple[str, tuple[str, ...], list[tuple[object, ...]]]


def _tables(found: Health) -> list[_Table]:
    """Title, columns and rows, in the order in which people ask."""
    return [
        (
            "Conditions",
            ("condition", "times", "open", "minutes", "median ms", "longest ms"),
            [_condition(row) for row in found.conditions],
        ),
        (
            "Elections",
            ("at", "partition", "epoch", "leader", "notice", "start", "commit", "in all", "cause"),
            [_election(row) for row in found.elections],
        ),
        (
            "Windows without a serving leader",
            ("from", "partition", "ms", "cause"),
            [_window(row) for row in found.unavailability],
        ),
        (
            "Commit latency by leader, ms",
            ("leader", "samples", "p50", "p99", "p999", "longest"),
            [_latency(row) for row in found.latency],
        ),
        (
            "Followers, the worst first",
            ("follower", "samples", "held back", "longest lag, records", "longest not level, ms"),
            [_follower(row) for row in found.followers],
        ),
        (
            "ISR flaps",
            ("partition", "replica", "left", "returned", "left per hour"),
            [_flap(row) for row in found.flaps],
        ),
    ]


def _condition(row: Row) -> tuple[object, ...]:
    minutes = f"{row['minutes']:.2f}"
    longest = (_ms(row["p50_ms"]), _ms(row["max_ms"]))
    return row["kind"].replace("_", " "), row["intervals"], row["open"], minutes, *longest


def _election(row: Row) -> tuple[object, ...]:
    leaders = f"{leader_name(row['old_leader'])} → {leader_name(row['new_leader'])}"
    stages = ("noticed_ms", "leading_ms", "commit_ms", "election_ms")
    return (
        _clock(row["at"]),
        _partition(row),
        row["leader_epoch"],
        leaders + " unclean" * row["unclean"],
        *(_ms(row[stage]) for stage in stages),
        row["cause"],
    )


def _window(row: Row) -> tuple[object, ...]:
    took = "open" if row["end"] is None else _ms(row["duration_ms"])
    return _clock(row["start"]), _partition(row), took, row["cause"]


def _latency(row: Row) -> tuple[object, ...]:
    figures = (f"{row[name]:.2f}" for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms"))
    return row["leader"], row["samples"], *figures


def _follower(row: Row) -> tuple[object, ...]:
    known = (_known(row["max_lag"]), _known(row["silent_ms"]))
    return row["follower"], row["samples"], row["held_back"], *known


def _flap(row: Row) -> tuple[object, ...]:
    per_hour = _known(row["per_hour"])
    return _partition(row), row["replica"], row["left"], row["returned"], per_hour


def _partition(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _clock(moment: datetime | None) -> str:
    return "?" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def _ms(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}"


def _known(value: object) -> object:
    return "-" if value is None else value
