"""The verdict on a round, from what it left behind: `python -m tests.chaos.judge DIRECTORY`.

Two judges read the same histories. The first is the log checker of the simulator, which knows every
anomaly of a log and nothing of this package. The second is a dozen lines of arithmetic on the final
reading: every acknowledged record is there once, at its acknowledged offset, and offsets have no
holes. A checker that is wrong would have to be wrong twice. It runs in a process of its own, since
a million records want a gigabyte, and so that the next round need not wait.

Two clients append a record twice by themselves, and the copy is judged as a write without an
acknowledgement. A producer that is not idempotent: librdkafka sends a batch again after
NOT_LEADER_OR_FOLLOWER whatever its `retries` say. And an idempotent one that raises its epoch:
after a gap in its sequences librdkafka numbers anew what is not acknowledged, in all partitions,
although it may have been appended. The segments show which copies are of that kind: their batches
have different producer epochs. Two appends within one epoch are the broker's fault.
"""

import json
import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import pairwise, starmap, takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.chaos.clients import RESENT
from tests.chaos.copiers import COPY
from tests.chaos.judge_cleaned import gone, judge_cleaned, read_logs
from tests.chaos.lines import Line, Written, operations, read_lines
from tests.chaos.replicas import Replicas, compare_replicas, read_replicas
from tests.chaos.topics import CLEANED
from tidelog.sim.checkers.log_history.checker import WITHOUT_ISOLATION, check_history

CRASH: Final = re.compile(
    r"Traceback \(most recent|stopped by a bug|runtime: crashed|Encountered .*fault"
)
"""In the log of a node; the last: metadata that a node of Apache Kafka cannot apply."""
OWN_CLOSED_FILE: Final = "java.nio.channels.ClosedChannelException"
READER: Final = "reader"
_CAUSE: Final = "Caused by: "
_TRACE: Final = re.compile(rf"\s|{_CAUSE}|[\w.]+(Exception|Error)\b|$")
SKIPPED_MARKERS: Final = "Couldn't find leader endpoint for partitions"
"""In the log of a node of Apache Kafka, before the partitions that it leaves without a marker."""
_PARTITION: Final = re.compile(r"[\w.]+-\d+")
_OFFSETS: Final = "__consumer_offsets-"
_SHOWN: Final = 20
_LEAD_US: Final = 2_000_000
"""What has begun so long before a gap may be its cause."""


class _Everything:
    """All values."""

    def __contains__(self, value: object) -> bool:
        return True


def judge_topic(
    topic: str, lines: Sequence[Line], renumbered: Container[Written] = ()
) -> list[str]:
    """Anomalies in what the clients of a topic did and saw; `renumbered` values may be there under
    several producer epochs."""
    found = [
        f"{topic} {line.process}: {line.fields['why']}"
        for line in lines
        if line.fields["f"] == "trouble"
    ]
    resent = _Everything() if topic in RESENT else renumbered
    # Sent again one by one, records of one producer change places.
    legal = WITHOUT_ISOLATION | ({"int-nonmonotonic-send"} if topic in RESENT else frozenset())
    report = check_history(operations(topic, lines, resent), legal)
    found += [f"{topic} {anomaly}" for anomaly in report.anomalies]
    return found + [f"{topic} {text}" for text in final_reading(lines, resent)]


def final_reading(lines: Iterable[Line], resent: Container[Written] = ()) -> list[str]:
    """The second judge: the final reading against the acknowledgements."""
    acked: dict[Written, int] = {}
    for line in lines:
        fields = line.fields
        if fields["f"] == "send" and fields["o"] == "ok":
            for n, offset, count in fields["r"]:
                for i in range(count):
                    at = offset + i if offset >= 0 else -1
                    acked[fields["p"], line.process, n + i] = at
    found = []
    where: dict[Written, list[int]] = {}
    for partition, read in _read_at_end(lines).items():
        if [offset for offset, _ in read] != list(range(len(read))):
            found.append(f"partition {partition}: the offsets read at the end have holes")
        for offset, (writer, n) in read:
            where.setdefault((partition, writer, n), []).append(offset)
    for value, offset in acked.items():
        seen = where.get(value, [])
        once = len(seen) == 1 or (value in resent and seen)
        if not once or offset not in (-1, *seen):
            found.append(f"{value} acknowledged at {offset}, read at {seen}")
    return found


def renumbered_values(topic: str, lines: Iterable[Line], replicas: Replicas) -> set[Written]:
    """Values of the final reading that were appended once in each of several producer epochs."""
    found = set()
    for partition, read in _read_at_end(lines).items():
        places: dict[tuple[str, Any], list[int]] = {}
        for offset, value in read:
            places.setdefault(value, []).append(offset)
        # All replicas are equal, or that is an anomaly of its own.
        for log in [*replicas.get((topic, partition), {}).values()][:1]:
            for (writer, n), offsets in places.items():
                if 1 < len(offsets) == len({log.producer_at(offset) for offset in offsets}):
                    found.add((partition, writer, n))
    return found


def _read_at_end(lines: Iterable[Line]) -> dict[int, list[tuple[int, tuple[str, Any]]]]:
    """What the reader got of each partition: (offset, (writer, n)) in order."""
    rows: dict[int, list[tuple[int, tuple[str, Any]]]] = {}
    for line in lines:
        if line.fields["f"] == "poll" and line.process.startswith(READER):
            for partition, runs in line.fields["r"].items():
                read = rows.setdefault(int(partition), [])
                for writer, n, offset, count in runs:
                    read += [(offset + i, (writer, n + i if writer else n)) for i in range(count)]
    return rows


def judge_copy(source: Iterable[Line], copy: Iterable[Line]) -> list[str]:
    """What differs between the last readings of a topic and of its copy."""
    sources, copies = _read_at_end(source), _read_at_end(copy)
    found = []
    for partition in sorted(sources.keys() | copies.keys()):
        want = [value for _, value in sources.get(partition, ())]
        have = [value for _, value in copies.get(partition, ())]
        same = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(want, have, strict=False))
        )
        if want != have:
            found.append(
                f"{COPY} partition {partition}: {len(have)} records of {len(want)}; after "
                f"{same} comes {have[same : same + 2]}, in the source {want[same : same + 2]}"
            )
    return found


def acknowledged(lines: Iterable[Line]) -> tuple[int, int]:
    """Records that were acknowledged: by all replicas in sync, and by the leader alone."""
    counts = {"ok": 0, "info": 0}
    for line in lines:
        if line.fields["f"] == "send" and line.fields["o"] in counts:
            runs = line.fields["r"]
            counts[line.fields["o"]] += sum(count for _, offset, count in runs if offset >= 0)
    return counts["ok"], counts["info"]


class Gap(NamedTuple):
    """A time without any acknowledgement by all replicas, in microseconds of the machine."""

    began: int = 0
    ended: int = 0

    @property
    def length_ms(self) -> int:
        """How long it was."""
        return (self.ended - self.began) // 1000

    def events_in(self, events: Iterable[tuple[int, str]]) -> list[str]:
        """What the nemesis did from a little before on, with the seconds since the gap began."""
        return [
            f"{(at - self.began) / 1e6:+.1f} s {text}"
            for at, text in events
            if self.began - _LEAD_US <= at <= self.ended
        ]


def longest_gap(lines: Iterable[Line]) -> Gap:
    """The longest one between two acknowledgements."""
    ended = [
        line.ended for line in lines if line.fields["f"] == "send" and line.fields["o"] == "ok"
    ]
    return max(starmap(Gap, pairwise(ended)), key=lambda gap: gap.length_ms, default=Gap())


def crashes(logs: Iterable[Path]) -> list[str]:
    """Lines of node logs that only a bug writes. A node of Apache Kafka that stops closes its
    metadata log while another of its threads may read it: that is not a bug of the cluster."""
    found = []
    for path in logs:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines):
            if CRASH.search(line) and OWN_CLOSED_FILE not in _causes(lines[number + 1 :]):
                found.append(f"{path.parent.name}: {line.strip()}")
    return found


def split_by_cause(found: Sequence[str], logs: Iterable[Path]) -> tuple[list[str], list[str]]:
    """Anomalies, and what Apache Kafka alone has done: its coordinator ends a transaction without
    the markers of partitions that have no leader at that moment, takes them for deleted, and names
    them. The transaction stays open to readers of such a partition of the copy. If it is one of
    offsets, the group cannot read what it has committed, and its members do not come to an end."""
    named = {
        partition
        for path in logs
        for line in path.read_text(errors="replace").splitlines()
        for partition in _PARTITION.findall(line.partition(SKIPPED_MARKERS)[2].split(" while ")[0])
    }
    begins = [f"{partition.replace('-', ' partition ')}:" for partition in named]
    if any(partition.startswith(_OFFSETS) for partition in named):
        begins.append("client copier-")
    by_kafka = [text for text in found if text.startswith(tuple(begins))]
    return [text for text in found if text not in by_kafka], by_kafka


def _causes(lines: Iterable[str]) -> list[str]:
    """The causes that a stack trace of Java names."""
    trace = takewhile(_TRACE.match, lines)
    return [line.removeprefix(_CAUSE) for line in trace if line.startswith(_CAUSE)]


def judge(directory: Path) -> dict[str, Any]:
    """The verdict on a round's directory, by its `round.json`."""
    facts = json.loads((directory / "round.json").read_text(encoding="utf-8"))
    anomalies: list[str] = list(facts["mishaps"])
    data_dirs = {int(node): directory / path for node, path in facts["data_dirs"].items()}
    placed = _partitions(facts["replicas"])
    replicas = read_replicas(
        data_dirs, {key: nodes for key, nodes in placed.items() if key[0] not in CLEANED}
    )
    totals, by_topic, gaps, renumbered_count, records_gone = [0, 0], {}, {}, 0, 0
    for topic in facts["topics"]:
        lines = read_lines(sorted((directory / "history" / topic).glob("*.jsonl")))
        if topic in CLEANED:
            logs = read_logs(topic, data_dirs, placed)
            anomalies += judge_cleaned(topic, lines, logs)
            records_gone += gone(logs)
        else:
            renumbered = renumbered_values(topic, lines, replicas)
            renumbered_count += len(renumbered)
            anomalies += judge_topic(topic, lines, renumbered)
        counts = acknowledged(lines)
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        by_topic[topic] = max(counts)
        gaps[topic] = longest_gap(lines)
    copied = 0
    if source := facts.get("copy_of"):
        lines = read_lines(sorted((directory / "history" / COPY).glob("*.jsonl")))
        of_source = read_lines(sorted((directory / "history" / source).glob(f"{READER}-*.jsonl")))
        anomalies += judge_copy(of_source, lines)
        copied = sum(map(len, _read_at_end(lines).values()))
    anomalies += compare_replicas(replicas)
    server_logs = sorted((directory / "cluster").glob("node-*/server.log"))
    anomalies += crashes(server_logs)
    anomalies, by_kafka = split_by_cause(anomalies, server_logs)
    longest = max(gaps.values(), key=lambda gap: gap.length_ms, default=Gap())
    return {
        "anomalies": len(anomalies),
        "first_anomalies": anomalies[:_SHOWN],
        "by_kafka_alone": by_kafka,
        "acknowledged": totals[0],
        "acknowledged_by_leader": totals[1],
        "acknowledged_by_topic": by_topic,
        "copied_in_transactions": copied,
        "records_gone": records_gone,
        "renumbered_by_client": renumbered_count,
        "longest_gap_ms": longest.length_ms,
        "longest_gap_ms_by_topic": {topic: gap.length_ms for topic, gap in gaps.items()},
        "during_longest_gap": longest.events_in(facts["events"]),
    }


def _partitions(
    replicas: Mapping[str, Sequence[Sequence[int]]],
) -> dict[tuple[str, int], list[int]]:
    return {
        (topic, number): list(nodes)
        for topic, rows in replicas.items()
        for number, nodes in enumerate(rows)
    }


if __name__ == "__main__":
    print(json.dumps(judge(Path(sys.argv[1]))))
