"""`tidelog dump-log`: the files of a log directory as text, in the lines of Kafka's own tool.

The lines for segments are those of Kafka's DumpLogSegments, field by field, so that the dumps of
two replicas, or of a Kafka and a Tidelog node, can be compared with `diff`. With `--output json`
each batch or entry is one line of JSON.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tidelog.cli.arguments import argument, option
from tidelog.cli.terminal import TABLE, BadAnswer, Output, OutputFormat, print_json, print_line

if TYPE_CHECKING:
    from tidelog.cli.log_files import Entry


def dump_log(
    files: Annotated[list[Path], argument("FILE…", "Segments, indexes, checkpoints, ….")],
    deep: Annotated[bool, option("--deep", "Show each record, not only batches.")] = False,
    print_data: Annotated[
        bool, option("--print-data", "Show keys and payloads as text; implies --deep.")
    ] = False,
    metadata: Annotated[
        bool,
        option(
            "--cluster-metadata-decoder", "Show the payloads as metadata records; implies --deep."
        ),
    ] = False,
    output: Output = TABLE,
) -> None:
    """Show what is in segments, indexes, snapshots and checkpoints.

    Exit code 1 when something in them is damaged.
    """
    from tidelog.cli.log_files import DumpOptions, read_entries

    options = DumpOptions(deep or print_data or metadata, print_data, metadata)
    damaged = False
    for path in files:
        for entry in read_entries(path, options):
            damaged |= entry["kind"] == "damage" or entry.get("is_valid") is False
            if output is OutputFormat.JSON:
                print_json({"file": str(path), **entry})
            else:
                for line in _LINES[entry["kind"]](entry):
                    print_line(line)
    if damaged:
        raise BadAnswer


def _file_lines(entry: "Entry") -> list[str]:
    lines = [f"Dumping {entry['file']}"]
    path = Path(entry["file"])
    if path.suffix == ".log" and path.stem.isdigit():
        lines.append(f"Log starting offset: {int(path.stem)}")
    return lines


def _batch_lines(entry: "Entry") -> list[str]:
    horizon = entry["delete_horizon_ms"]
    fields = (
        ("baseOffset", entry["base_offset"]),
        ("lastOffset", entry["last_offset"]),
        ("count", entry["count"]),
        ("baseSequence", entry["base_sequence"]),
        ("lastSequence", entry["last_sequence"]),
        ("producerId", entry["producer_id"]),
        ("producerEpoch", entry["producer_epoch"]),
        ("partitionLeaderEpoch", entry["leader_epoch"]),
        ("isTransactional", _java(entry["is_transactional"])),
        ("isControl", _java(entry["is_control"])),
        ("deleteHorizonMs", _optional(horizon)),
        ("position", entry["position"]),
        (entry["timestamp_type"], entry["max_timestamp"]),
        ("size", entry["size_bytes"]),
        ("magic", entry["magic"]),
        ("compresscodec", entry["codec"]),
        ("crc", entry["crc"]),
        ("isvalid", _java(entry["is_valid"])),
    )
    lines = [" ".join(f"{name}: {value}" for name, value in fields)]
    if "error" in entry:
        lines.append(f"  damaged: {entry['error']}")
    kind = entry["timestamp_type"]
    return lines + [_record_line(record, kind) for record in entry.get("records", ())]


def _record_line(record: "Entry", timestamp_type: str) -> str:
    line = (
        f"| offset: {record['offset']} {timestamp_type}: {record['timestamp']} "
        f"keySize: {record['key_size']} valueSize: {record['value_size']} "
        f"sequence: {record['sequence']} headerKeys: [{','.join(record['header_keys'])}]"
    )
    if "control" in record:
        return f"{line} {_control_text(record['control'])}"
    if "key" in record:
        line += f" key: {record['key']}"
    if "payload" in record:
        payload = record["payload"]
        text = payload if isinstance(payload, str) else json.dumps(payload, separators=(",", ":"))
        line += f" payload: {text}"
    return line


def _control_text(control: "Entry") -> str:
    if "coordinator_epoch" in control:
        return f"endTxnMarker: {control['type']} coordinatorEpoch: {control['coordinator_epoch']}"
    if "data" in control:
        return f"{control['label']} {json.dumps(control['data'], separators=(',', ':'))}"
    return f"controlType: {control['type']}({control['type_id']})"


def _producer_lines(entry: "Entry") -> list[str]:
    line = (
        f"producerId: {entry['producer_id']} producerEpoch: {entry['producer_epoch']} "
        f"coordinatorEpoch: {entry['coordinator_epoch']} "
        f"currentTxnFirstOffset: {_optional(entry['current_txn_first_offset'])} "
        f"lastTimestamp: {entry['last_timestamp']}"
    )
    if entry["last_offset"] is not None:
        line += (
            f" firstSequence: {entry['first_sequence']} lastSequence: {entry['last_sequence']} "
            f"lastOffset: {entry['last_offset']} offsetDelta: {entry['offset_delta']} "
            f"timestamp: {entry['timestamp']}"
        )
    return [line]


def _plain_lines(*names: tuple[str, str]) -> "Callable[[Entry], list[str]]":
    """One line of `label: value` for the given (label, key)s."""
    return lambda entry: [" ".join(f"{label}: {entry[key]}" for label, key in names)]


def _java(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


_LINES: "dict[str, Callable[[Entry], list[str]]]" = {
    "file": _file_lines,
    "batch": _batch_lines,
    "producer": _producer_lines,
    "index": _plain_lines(("offset", "offset"), ("position", "position")),
    "timeindex": _plain_lines(("timestamp", "timestamp"), ("offset", "offset")),
    "txnindex": _plain_lines(
        ("version", "version"),
        ("producerId", "producer_id"),
        ("firstOffset", "first_offset"),
        ("lastOffset", "last_offset"),
        ("lastStableOffset", "last_stable_offset"),
    ),
    "epoch": _plain_lines(("leaderEpoch", "leader_epoch"), ("startOffset", "start_offset")),
    "offset": _plain_lines(("topic", "topic"), ("partition", "partition"), ("offset", "offset")),
    "property": lambda entry: [f"{entry['name']}: {entry['value']}"],
    "damage": lambda entry: [f"damaged at {entry['where']}: {entry['reason']}"],
}
