"""Events of nodes as a DataFrame: from their files, or from the topic `__tidelog_events`.

Both have one schema. The payload is one struct with the fields of all kinds, null where the kind
does not have them. A field that a later release adds is dropped, and a missing one is null, so
files of different releases can be read together. A torn line, which a killed process leaves, is
dropped. An event may occur twice (a file was copied, a batch was produced again): its identity is
(broker, incarnation, seq).
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.errors import UsageError
from tidelog.pipeline.places import Place, local_path
from tidelog.pipeline.topics.frames import topic_frame

EVENTS_TOPIC: Final = "__tidelog_events"
_FILES: Final = "events.jsonl*"
_DEPTH: Final = 3

PAYLOAD: Final = (
    "struct<node int, broker_epoch bigint, epoch int, leader int, old_leader int, "
    "topic_id string, partition_epoch int, isr array<int>, old_isr array<int>, "
    "replicas array<int>, eligible_leaders array<int>, min_isr int, reason string, cause string, "
    "epoch_start bigint, high_watermark bigint, log_end bigint, required bigint, "
    "followers array<int>, log_ends array<bigint>, level_ms_ago array<bigint>, for_ms bigint, "
    "acks int, instead_of array<int>, last_leader array<int>, `from` bigint, `to` bigint, "
    "was_leader boolean>"
)
EVENT: Final = (
    "ts_us bigint, mono_us bigint, clock string, broker int, incarnation string, seq bigint, "
    f"topic string, partition int, leader_epoch int, kind string, payload {PAYLOAD}"
)
"""What one event is. `docs/reference/event-files.md` describes every field."""


def find_event_files(directories: Sequence[Place]) -> list[str]:
    """The event files in log directories, or in clusters' directories as `tidelog up` lays them
    out. Raises `UsageError` for a directory without any."""
    found: list[str] = []
    for directory in map(local_path, directories):
        patterns = ("/".join(["*"] * depth + [_FILES]) for depth in range(_DEPTH))
        files = sorted(str(path) for pattern in patterns for path in directory.glob(pattern))
        if not files:
            raise UsageError(
                f"`{directory}` holds no `events.jsonl`",
                "nodes write it with `tidelog.events.enable=true`; "
                "give a cluster's directory, or the one that `tidelog.events.dir` names",
            )
        found += files
    return found


def read_event_files(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    return each_once(spark.read.schema(EVENT).json(list(files)))


def read_event_topic(spark: SparkSession, bootstrap_servers: str) -> DataFrame:
    return each_once(parsed(topic_frame(spark.read, bootstrap_servers, EVENTS_TOPIC)))


def parsed(records: DataFrame) -> DataFrame:
    """`EVENT` of the JSON in `value`; each value that is not an event becomes a row of nulls."""
    event = F.from_json(F.col("value").cast("string"), EVENT)
    return records.select(event.alias("event")).select("event.*")


def each_once(events: DataFrame) -> DataFrame:
    """The events without torn lines and without copies."""
    whole = events.where("kind is not null and seq is not null and mono_us is not null")
    return whole.dropDuplicates(["broker", "incarnation", "seq"])


def since(text: str, now: datetime) -> datetime:
    """The instant that `--since` names: `90s`, `30m`, `12h`, `7d` before now, or an ISO time (UTC
    unless it has a zone). Raises `UsageError`."""
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    try:
        if text[-1:] in units and text[:-1].isdecimal():
            return now - timedelta(**{units[text[-1]]: int(text[:-1])})
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"`--since` is `{text}`", "write 30m, 12h, 7d, or a time as 2026-11-21T09:00:00"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
