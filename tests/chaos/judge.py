"""The verdict on a round, from what it left behind: `python -m tests.chaos.judge DIRECTORY`.

Two judges read the same histories. The first is the log checker of the simulator, which knows every
anomaly of a log and nothing of this package. The second is a dozen lines of arithmetic on the final
reading: every acknowledged record is there once, at its acknowledged offset, and offsets have no
holes. A checker that is wrong would have to be wrong twice. It runs in a process of its own, since
a million records want a gigabyte, and so that the next round need not wait.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.chaos.clients import RESENT
from tests.chaos.lines import Line, operations, read_lines
from tests.chaos.replicas import compare_replicas
from tidelog.sim.checkers.log_history.checker import WITHOUT_ISOLATION, check_history

CRASH: Final = re.compile(r"Traceback \(most recent|stopped by a bug|runtime: crashed")
READER: Final = "reader"
_SHOWN: Final = 20


def judge_topic(topic: str, lines: Sequence[Line]) -> list[str]:
    """Anomalies in what the clients of a topic did and saw."""
    found = [
        f"{topic} {line.process}: {line.fields['why']}"
        for line in lines
        if line.fields["f"] == "trouble"
    ]
    resent = topic in RESENT
    # Sent again one by one, records of one producer change places.
    legal = WITHOUT_ISOLATION | ({"int-nonmonotonic-send"} if resent else frozenset())
    report = check_history(operations(topic, lines, resent=resent), legal)
    found += [f"{topic} {anomaly}" for anomaly in report.anomalies]
    return found + [f"{topic} {text}" for text in final_reading(lines, resent=resent)]


def final_reading(lines: Iterable[Line], *, resent: bool = False) -> list[str]:
    """The second judge: the final reading against the acknowledgements."""
    rows: dict[int, list[tuple[int, tuple[str, int]]]] = {}
    acked: dict[tuple[int, str, int], int] = {}
    for line in lines:
        fields = line.fields
        if fields["f"] == "send" and fields["o"] == "ok":
            for n, offset, count in fields["r"]:
                for i in range(count):
                    at = offset + i if offset >= 0 else -1
                    acked[fields["p"], line.process, n + i] = at
        elif fields["f"] == "poll" and line.process.startswith(READER):
            for partition, runs in fields["r"].items():
                read = rows.setdefault(int(partition), [])
                for writer, n, offset, count in runs:
                    read += [(offset + i, (writer, n + i if writer else n)) for i in range(count)]
    found = []
    where: dict[tuple[int, str, int], list[int]] = {}
    for partition, read in rows.items():
        if [offset for offset, _ in read] != list(range(len(read))):
            found.append(f"partition {partition}: the offsets read at the end have holes")
        for offset, (writer, n) in read:
            where.setdefault((partition, writer, n), []).append(offset)
    for value, offset in acked.items():
        seen = where.get(value, [])
        once = len(seen) == 1 or (resent and seen)
        if not once or offset not in (-1, *seen):
            found.append(f"{value} acknowledged at {offset}, read at {seen}")
    return found


def acknowledged(lines: Iterable[Line]) -> tuple[int, int]:
    """Records that were acknowledged: by all replicas in sync, and by the leader alone."""
    counts = {"ok": 0, "info": 0}
    for line in lines:
        if line.fields["f"] == "send" and line.fields["o"] in counts:
            runs = line.fields["r"]
            counts[line.fields["o"]] += sum(count for _, offset, count in runs if offset >= 0)
    return counts["ok"], counts["info"]


def longest_gap_ms(lines: Iterable[Line]) -> int:
    """The longest time without any acknowledgement by all replicas."""
    ended = [
        line.ended for line in lines if line.fields["f"] == "send" and line.fields["o"] == "ok"
    ]
    return max((after - before for before, after in pairwise(ended)), default=0) // 1000


def crashes(logs: Iterable[Path]) -> list[str]:
    """Lines of node logs that only a bug writes."""
    found = []
    for path in logs:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if CRASH.search(line):
                found.append(f"{path.parent.name}: {line.strip()}")
    return found


def judge(directory: Path) -> dict[str, Any]:
    """The verdict on a round's directory, by its `round.json`."""
    facts = json.loads((directory / "round.json").read_text(encoding="utf-8"))
    anomalies: list[str] = list(facts["mishaps"])
    totals, by_topic, gaps = [0, 0], {}, {}
    for topic in facts["topics"]:
        lines = read_lines(sorted((directory / "history" / topic).glob("*.jsonl")))
        anomalies += judge_topic(topic, lines)
        counts = acknowledged(lines)
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        by_topic[topic] = max(counts)
        gaps[topic] = longest_gap_ms(lines)
    data_dirs = {int(node): directory / path for node, path in facts["data_dirs"].items()}
    anomalies += compare_replicas(data_dirs, _partitions(facts["replicas"]))
    anomalies += crashes(sorted((directory / "cluster").glob("node-*/server.log")))
    return {
        "anomalies": len(anomalies),
        "first_anomalies": anomalies[:_SHOWN],
        "acknowledged": totals[0],
        "acknowledged_by_leader": totals[1],
        "acknowledged_by_topic": by_topic,
        "longest_gap_ms": max(gaps.values(), default=0),
        "longest_gap_ms_by_topic": gaps,
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
