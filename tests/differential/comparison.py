"""What two answers have in common when ids are renamed, and where they differ.

Each broker gives its own member ids, producer ids, topic ids. They are replaced by names in the
order in which a run first sees them, so equal roles have equal names. What cannot be equal is left
out: times, addresses, texts of errors.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from tests.differential.steps import RECORDS_AT
from tidelog.errors import CorruptBatch
from tidelog.records.batch import iter_headers
from tidelog.records.control import read_end_txn_marker

LEFT_OUT: Final = frozenset(
    (
        "throttle_time_ms",
        "throttle_time",
        "error_message",
        "acknowledge_error_message",
        "host",
        "port",
        "rack",
        "log_append_time_ms",
        "client_id",
        "client_host",
        "transaction_start_time",
        "last_timestamp",
        "log_dir",
        "total_bytes",
        "usable_bytes",
        "size",
        "partition_size",
        "finalized_features_epoch",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
        "documentation",
        "cluster_id",
        "session_id",
        "api_keys",
        "supported_features",
        "finalized_features",
        "current_voters",
        "observers",
    )
)
"""Fields that are not compared."""

RENAMED: Final = frozenset(
    (
        *("member_id", "leader", "producer_id", "topic_id", "directory_id"),
        *("replica_directory_id", "token_id", "hmac"),
    )
)
"""Fields whose values each broker makes up."""

IDENTITY: Final = (
    "name",
    "topic",
    "topic_id",
    "partition_index",
    "partition",
    "index",
    "group_id",
    "transactional_id",
    "key",
    "resource_type",
    "resource_name",
    "feature",
    "member_id",
    "group_instance_id",
)
"""Fields that say what a row is about; rows are sorted by them before all else."""

UNORDERED: Final = (
    *("subscribed_topic_names", "isr_nodes", "eligible_leader_replicas"),
    "partitions",
)
"""Fields with values in any order."""

_RANDOM: Final = re.compile(r"(.*?)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A member id that a broker made up; before it stands the name of the client or of the instance."""

NOT_DRAWN: Final = RECORDS_AT + 1000
"""Times above are of markers, which a broker makes."""


class Names:
    """Names for what one broker made up in one run."""

    def __init__(self) -> None:
        # By value.
        self._names: dict[Any, str] = {}

    def name(self, kind: str, value: Any) -> Any:
        """The value's name; values that mean nothing keep themselves."""
        if value in ("", b"", None, bytes(16)) or (isinstance(value, int) and value < 0):
            return value
        return self._names.setdefault(value, f"<{kind} {len(self._names)}>")

    def knows(self, value: Any) -> bool:
        """Whether it has a name already."""
        return value in self._names


def canonical(answer: Any, names: Names, prefix: str) -> Any:
    """The answer without what cannot be equal."""
    return _canonical(answer, "", names, prefix)


def _canonical(value: Any, field: str, names: Names, prefix: str) -> Any:
    if isinstance(value, Mapping):
        shown = {}
        for name, each in value.items():
            if name not in LEFT_OUT:
                shown[name] = _canonical(each, name, names, prefix)
        return shown
    if isinstance(value, (list, tuple)):
        rows = list(value)
        if all(isinstance(row, Mapping) for row in rows):
            rows = [row for row in rows if _is_ours(row, prefix)]
            rows.sort(key=lambda row: _order(row, names, prefix))
        elif field in UNORDERED:
            rows.sort()
        return [_canonical(row, field, names, prefix) for row in rows]
    if field in RENAMED and not (field == "leader" and isinstance(value, int)):
        return names.name(field, value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _records(bytes(value), names) if field == "records" else bytes(value).hex()
    if field == "timestamp" and isinstance(value, int) and value > NOT_DRAWN:
        return "now"
    if isinstance(value, str):
        return value.replace(prefix, "")
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _is_ours(row: Mapping[str, Any], prefix: str) -> bool:
    """Lists of everything that a broker has also hold what other runs left; the rows of other
    answers have error codes. Internal topics end where each broker's coordinators left them."""
    if str(row.get("name")).startswith("__") and any(
        "offset" in each for each in row["partitions"]
    ):
        return False
    for field in ("group_id", "transactional_id", "resource_name"):
        name = row.get(field)
        if isinstance(name, str) and "error_code" not in row and not name.startswith(prefix):
            return field == "resource_name" and not name.startswith("run-")
    return True


def _order(row: Mapping[str, Any], names: Names, prefix: str) -> str:
    """The order of rows must not depend on ids that have no name yet, nor on times."""

    def key(value: Any, field: str) -> Any:
        if field in RENAMED:
            made_up = _RANDOM.fullmatch(value) if isinstance(value, str) else None
            unnamed = f"{made_up[1]}?" if made_up else "?"
            return names.name(field, value) if names.knows(value) else unnamed
        if isinstance(value, datetime) or field.endswith("_timestamp"):
            return ""
        if isinstance(value, Mapping):
            return {name: key(each, name) for name, each in value.items() if name not in LEFT_OUT}
        if isinstance(value, (list, tuple)):
            return [key(each, field) for each in value]
        return value.replace(prefix, "") if isinstance(value, str) else str(value)

    identity = [key(row[name], name) for name in IDENTITY if name in row]
    return json.dumps([identity, key(row, "")], sort_keys=True)


def _records(data: bytes, names: Names) -> Any:
    """Batches, as far as both brokers must have them alike."""
    shown = []
    try:
        for position, header in iter_headers(data):
            marker = read_end_txn_marker(data, position) if header.is_control else None
            shown.append(
                {
                    "base_offset": header.base_offset,
                    "last_offset": header.last_offset,
                    "leader_epoch": header.leader_epoch,
                    "producer": names.name("producer_id", header.producer_id),
                    "producer_epoch": header.producer_epoch,
                    "base_sequence": header.base_sequence,
                    "transactional": header.is_transactional,
                    "marker": None if marker is None else "commit" if marker.is_commit else "abort",
                }
            )
    except CorruptBatch:
        return data.hex()
    return shown


class Difference(NamedTuple):
    """One field in which two answers differ."""

    path: str
    """The way to it, without positions in lists."""
    kafka: str
    tidelog: str


def differences(kafka: Any, tidelog: Any, path: str = "") -> Iterator[Difference]:
    """Every field in which two canonical answers differ."""
    if path.endswith("records") and isinstance(kafka, list) and isinstance(tidelog, list):
        # A broker may answer with fewer batches than it has.
        both = min(len(kafka), len(tidelog)) or max(len(kafka), len(tidelog))
        kafka, tidelog = kafka[:both], tidelog[:both]
    if isinstance(kafka, Mapping) and isinstance(tidelog, Mapping):
        kafka, tidelog = _without_aborted_behind(kafka, tidelog)
        for name in sorted({*kafka, *tidelog}):
            yield from differences(kafka.get(name), tidelog.get(name), f"{path}.{name}".lstrip("."))
    elif isinstance(kafka, list) and isinstance(tidelog, list) and len(kafka) == len(tidelog):
        for one, other in zip(kafka, tidelog, strict=True):
            yield from differences(one, other, path)
    elif kafka != tidelog:
        yield Difference(path, _shortened(kafka), _shortened(tidelog))


def _without_aborted_behind(kafka: Mapping[str, Any], tidelog: Mapping[str, Any]) -> Any:
    """Both rows without the aborted transactions behind the batches that both have: each broker
    names those of the batches that it gives."""
    rows = kafka, tidelog
    batches: list[Any] = [each.get("records") for each in rows]
    if not all(isinstance(each, list) and each for each in batches):
        return rows
    end = min(each[-1]["last_offset"] for each in batches)
    return tuple(
        {
            **row,
            "aborted_transactions": [
                each for each in row["aborted_transactions"] or () if each["first_offset"] <= end
            ],
        }
        if "aborted_transactions" in row
        else row
        for row in rows
    )


def _shortened(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)})"


def error_codes(answer: Any) -> set[int]:
    """All error codes in an answer."""
    found: set[int] = set()
    if isinstance(answer, Mapping):
        for name, value in answer.items():
            if name == "error_code" and isinstance(value, int):
                found.add(int(value))
            else:
                found |= error_codes(value)
    elif isinstance(answer, (list, tuple)):
        for each in answer:
            found |= error_codes(each)
    return found
