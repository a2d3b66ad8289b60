"""The judge of topics whose old records go.

**Compacted.** Whatever else is gone, each key has its last value: the last one that was
acknowledged, or a later one whose outcome the producer does not know. The reader's states and those
of each replica's segments are judged alike. Replicas clean at different times, so their segments
differ, but their keys have the same values, and an offset that two of them have holds one record.

**Retained.** What the reader got has no holes, and everything that was acknowledged at its first
offset or behind is there. Replicas are equal from where the shortest begins.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.cleaned import n_of
from tests.chaos.lines import Line
from tests.chaos.replicas import directories_of, segments
from tests.chaos.topics import COMPACTED, TOMBSTONE_S, is_tombstone, key_of
from tidelog.errors import CorruptBatch
from tidelog.records.batch import decode_batch, iter_headers
from tidelog.records.record import Record

State = Mapping[str, Any]
"""By key: the n of its value, `None` for a deletion."""


class CleanedLog(NamedTuple):
    """One replica's segments."""

    records: Mapping[int, tuple[bytes | None, bytes | None]]
    """Key and value by offset."""
    flaws: Sequence[str]

    @property
    def start(self) -> int:
        """Its first offset."""
        return min(self.records, default=0)

    def state(self, partition: int) -> State:
        """What a reader would take for the state of each key."""
        return {
            (key or b"").decode(): n_of(partition, value) for key, value in self.records.values()
        }


def read_log(directories: Sequence[Path]) -> CleanedLog:
    """The records of a replica; `directories` are all that have its name, on all disks."""
    records: dict[int, tuple[bytes | None, bytes | None]] = {}
    flaws = [] if len(directories) == 1 else [f"it lies in {[*map(str, directories)]}"]
    for path in segments(directories[0]) if directories else ():
        try:
            for record in _records_of(path.read_bytes()):
                if records and record.offset <= next(reversed(records)):
                    flaws.append(f"{path.name}: offset {record.offset} does not go up")
                records[record.offset] = record.key, record.value
        except CorruptBatch as error:
            flaws.append(f"{path.name}: {error}")
    return CleanedLog(records, flaws)


def read_logs(
    topic: str, data_dirs: Mapping[int, Path], placed: Mapping[tuple[str, int], Sequence[int]]
) -> dict[int, dict[int, CleanedLog]]:
    """Those of a topic, by partition and node, given which nodes have them."""
    return {
        number: {
            node: read_log(directories_of(data_dirs[node], f"{name}-{number}")) for node in nodes
        }
        for (name, number), nodes in placed.items()
        if name == topic
    }


def _records_of(data: bytes) -> Iterator[Record]:
    for position, header in iter_headers(data):
        yield from decode_batch(data[position : position + header.size_bytes])


def judge_cleaned(
    topic: str, lines: Sequence[Line], logs: Mapping[int, Mapping[int, CleanedLog]]
) -> list[str]:
    """Anomalies of a topic; `logs` are its replicas by partition, then by node."""
    found = [line.fields["why"] for line in lines if line.fields["f"] == "trouble"]
    for partition, replicas in logs.items():
        for node, log in replicas.items():
            found += [f"{partition} on node {node}: {flaw}" for flaw in log.flaws]
        found += [f"{partition}: {text}" for text in _differences(topic, replicas)]
        if topic == COMPACTED:
            for node, log in replicas.items():
                wrong = judge_state(lines, partition, log.state(partition))
                found += [f"{partition} on node {node}: {text}" for text in wrong]
    if topic == COMPACTED:
        for line in lines:
            if line.fields["f"] == "state":
                wrong = judge_read_state(lines, line)
                found += [f"{line.fields['p']} as it was read: {text}" for text in wrong]
    else:
        found += judge_rest(lines)
    return [f"{topic} {text}" for text in found]


def judge_state(lines: Iterable[Line], partition: int, state: State) -> list[str]:
    """Keys whose value is not the last one that was acknowledged, nor a later one."""
    acknowledged: dict[str, int] = {}
    unknown: dict[str, list[int]] = {}
    for line in lines:
        fields = line.fields
        if fields["f"] != "send" or fields["p"] != partition:
            continue
        for n in (first + i for first, _, count in fields["r"] for i in range(count)):
            key = key_of(n).decode()
            if fields["o"] == "ok":
                acknowledged[key] = max(n, acknowledged.get(key, -1))
            else:
                unknown.setdefault(key, []).append(n)
    found = []
    for key in sorted({*acknowledged, *unknown, *state}):
        last = acknowledged.get(key, -1)
        may = {n for n in (last, *unknown.get(key, ())) if n >= last}
        values = {None if n < 0 or is_tombstone(n) else n for n in may}
        if state.get(key) not in values:
            found.append(
                f"key {key} has value {state.get(key)}, the last acknowledged is {last}"
                f"{' (a deletion)' if last >= 0 and is_tombstone(last) else ''}"
            )
    return found


def judge_read_state(lines: Iterable[Line], line: Line) -> list[str]:
    """The same of what a reader got. If it read for longer than deletions are kept, it may have
    missed them."""
    begun, ended = line.fields["t"]
    if ended - begun > TOMBSTONE_S * 1_000_000:
        return []
    return judge_state(lines, line.fields["p"], line.fields["r"])


def judge_rest(lines: Sequence[Line]) -> list[str]:
    """What is missing behind the first offset that was read, by partition."""
    found = []
    places: dict[int, dict[int, tuple[str | None, Any]]] = {}
    for line in lines:
        if line.fields["f"] == "poll":
            for text, runs in line.fields["r"].items():
                for writer, n, offset, count in runs:
                    for i in range(count):
                        value = (writer, n + i if writer else n)
                        places.setdefault(int(text), {})[offset + i] = value
    for partition, read in places.items():
        if len(read) != max(read) - min(read) + 1:
            found.append(f"{partition}: the offsets read at the end have holes")
    for line in lines:
        fields = line.fields
        if fields["f"] != "send" or fields["o"] != "ok":
            continue
        read = places.get(fields["p"], {})
        start = min(read, default=0)
        for first, offset, count in fields["r"]:
            for i in range(count if offset >= 0 else 0):
                wanted = (line.process, first + i)
                if offset + i >= start and read.get(offset + i) != wanted:
                    found.append(
                        f"{fields['p']}: {wanted} acknowledged at {offset + i}, where "
                        f"{read.get(offset + i)} is"
                    )
    return found


def _differences(topic: str, replicas: Mapping[int, CleanedLog]) -> list[str]:
    """Offsets that hold different records, or, of a topic that is not compacted, are not in every
    replica that reaches so far back."""
    found = []
    shared = max((log.start for log in replicas.values()), default=0)
    offsets = {offset for log in replicas.values() for offset in log.records if offset >= shared}
    for offset in sorted(offsets):
        held = {
            node: log.records[offset] for node, log in replicas.items() if offset in log.records
        }
        if len({*held.values()}) > 1 or (topic != COMPACTED and len(held) < len(replicas)):
            found.append(f"replicas differ at offset {offset}: {held}")
    return found


def gone(logs: Mapping[int, Mapping[int, CleanedLog]]) -> int:
    """How many records are not there any more, in the shortest replica of each partition."""
    return sum(
        min(max(log.records, default=-1) + 1 - len(log.records) for log in replicas.values())
        for replicas in logs.values()
    )
