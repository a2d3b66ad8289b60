"""The judge, with a round that is clean and one for each thing that it must not miss."""

import json
from pathlib import Path

import pytest

from tests.chaos.judge import (
    SKIPPED_MARKERS,
    Gap,
    crashes,
    final_reading,
    judge,
    judge_copy,
    judge_topic,
    longest_gap,
    renumbered_values,
    split_by_cause,
)
from tests.chaos.lines import (
    HistoryFile,
    Line,
    parse_value,
    poll_runs,
    read_lines,
    send_runs,
    value_of,
)
from tests.chaos.replicas import compare_replicas, read_replicas
from tidelog.records.batch import build_batch
from tidelog.records.record import Record


def sent(
    n: int, offset: int, count: int, at: int, *, outcome: str = "ok", process: str = "p"
) -> Line:
    fields = {"f": "send", "p": 0, "o": outcome, "t": [at, at + 5], "r": [[n, offset, count]]}
    return Line(process, fields)


def read(
    *runs: tuple[int, int, int], at: int, process: str = "reader-t", writer: str = "p"
) -> Line:
    rows = [[writer, n, offset, count] for n, offset, count in runs]
    return Line(process, {"f": "poll", "t": [at, at + 5], "r": {"0": rows}})


CLEAN = [
    sent(0, 0, 10, 0),
    read((0, 0, 10), at=10, process="consumer-t"),
    sent(10, 10, 5, 20),
    read((0, 0, 15), at=100),
]


def test_a_clean_history_is_clean():
    assert judge_topic("t", CLEAN) == []


def test_a_copy_has_what_its_source_has_in_order_and_once():
    source = [read((0, 0, 15), at=100)]
    # Markers of transactions have offsets in the copy.
    assert judge_copy(source, [read((0, 0, 10), (10, 11, 5), at=100)]) == []
    missing = [read((0, 0, 10), (11, 11, 4), at=100)]
    twice = [read((0, 0, 10), (5, 11, 10), at=100)]
    assert "14 records of 15; after 10" in judge_copy(source, missing)[0]
    assert "20 records of 15; after 10" in judge_copy(source, twice)[0]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("acknowledged at 14, read at []", [*CLEAN[:3], read((0, 0, 14), at=100)]),
        ("lost-write", [*CLEAN[:3], read((0, 0, 12), (13, 13, 2), at=100)]),
        ("have holes", [*CLEAN[:3], read((0, 0, 3), (4, 4, 11), at=100)]),
        ("duplicate", [*CLEAN[:3], read((0, 0, 15), (3, 15, 1), at=100)]),
        ("inconsistent-offsets", [*CLEAN[:3], read((0, 0, 14), (13, 14, 1), at=100)]),
        ("unknown-value", [*CLEAN[:3], read((0, 0, 15), (15, 15, 1), at=100)]),
        ("nonmonotonic-poll", [*CLEAN, read((2, 2, 1), at=110, process="reader-t")]),
        (
            "realtime-append",
            [sent(0, 5, 5, 0), sent(5, 0, 5, 50), read((5, 0, 5), (0, 5, 5), at=99)],
        ),
        ("no ack", [*CLEAN, Line("p", {"f": "trouble", "t": [9, 9], "why": "no ack"})]),
    ],
)
def test_what_is_wrong_is_found(name, lines):
    assert any(name in text for text in judge_topic("t", lines)), judge_topic("t", lines)


def test_copies_of_a_producer_that_sends_again_are_legal_only_for_that_one():
    lines = [sent(0, 4, 2, 0, process="plain"), read((0, 2, 2), (0, 4, 2), at=50, writer="plain")]
    first = read((9, 0, 2), at=40, writer="plain")
    lines = [sent(9, -1, 2, 1, process="plain", outcome="info"), lines[0], first, lines[1]]
    assert judge_topic("plain", lines) == []
    assert any("duplicate" in text for text in judge_topic("t", lines))


def idempotent_log(place: Path, *batches: tuple[int, int]) -> Path:
    """Node 1's log with these (epoch, sequence), one record each."""
    data = b"".join(
        build_batch(
            [Record(1, None, b"v")],
            base_offset=offset,
            leader_epoch=0,
            producer_id=5,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        for offset, (epoch, sequence) in enumerate(batches)
    )
    return log_of(place, 1, data)


@pytest.mark.parametrize(
    ("batches", "complaint"),
    [
        ([(0, 0), (0, 1), (1, 0), (1, 1)], ""),
        ([(0, 0), (0, 1), (0, 2), (0, 3)], "duplicate"),
        ([(0, 0), (0, 1), (0, 1), (0, 2)], "sequence 1 of producer (5, 0), not 2"),
        ([(0, 0), (0, 1), (0, 3), (0, 4)], "sequence 3 of producer (5, 0), not 2"),
    ],
    ids=["under a new epoch", "renumbered in one epoch", "appended twice", "a gap"],
)
def test_a_copy_in_another_producer_epoch_is_the_clients(tmp_path, batches, complaint):
    """Value 1 is at offsets 1 and 2, and was acknowledged at the second one."""
    lines = [sent(0, 0, 1, 0), sent(1, 2, 2, 0), read((0, 0, 2), (1, 2, 2), at=50)]
    replicas = read_replicas({1: idempotent_log(tmp_path, *batches)}, {("t", 0): [1]})
    renumbered = renumbered_values("t", lines, replicas)
    found = [*judge_topic("t", lines, renumbered), *compare_replicas(replicas)]
    assert any(complaint in text for text in found) if complaint else found == []


def test_a_record_that_the_leader_alone_had_may_be_lost_until_it_was_read():
    alone = sent(0, 0, 2, 0, outcome="info", process="leader")
    gone = [alone, read((5, 0, 1), at=50, writer="leader")]
    gone = [sent(5, -1, 1, 1, outcome="info", process="leader"), *gone]
    assert judge_topic("leader", gone) == []
    seen = read((0, 0, 2), at=20, process="consumer-leader", writer="leader")
    found = judge_topic("leader", [gone[0], alone, seen, gone[2]])
    assert any("inconsistent-offsets" in text for text in found)


def test_the_second_judge_needs_the_first_for_nothing():
    assert final_reading(CLEAN) == []
    assert final_reading([sent(0, 0, 1, 0), read((0, 1, 1), at=9)]) != []
    assert final_reading([sent(0, 0, 1, 0), read((1, 0, 1), at=9)]) != []


def test_the_longest_gap_is_between_acknowledgements_of_all():
    alone = sent(9, 9, 1, 40_000, outcome="info")
    assert longest_gap([sent(0, 0, 1, 0), sent(1, 1, 1, 2_000), alone]).length_ms == 2
    assert longest_gap([]).length_ms == 0


def test_a_gap_names_what_the_nemesis_did_in_it():
    gap = Gap(10_000_000, 14_500_000)
    events = [
        (7_900_000, "reset"),
        (8_500_000, "kill 2"),
        (11_000_000, "cut 1"),
        (15_000_000, "pause"),
    ]
    assert gap.events_in(events) == ["-1.5 s kill 2", "+1.0 s cut 1"]


# Histories ---------------------------------------------------------------------------------


def test_runs_hold_what_lies_side_by_side():
    assert send_runs([(0, 7), (1, 8), (3, 9), (4, 20), (5, -1), (6, -1)]) == [
        (0, 7, 2),
        (3, 9, 1),
        (4, 20, 1),
        (5, -1, 2),
    ]
    values = [(7, value_of("a", 1, 0)), (8, value_of("a", 1, 1)), (9, b"junk"), (10, None)]
    assert poll_runs(values, 1) == [("a", 0, 7, 2), (None, "b'junk'", 9, 1), (None, "None", 10, 1)]


def test_a_value_that_was_changed_on_the_way_has_no_writer():
    value = value_of("a", 1, 5)
    assert parse_value(1, value) == ("a", 5)
    assert parse_value(2, value)[0] is None
    assert parse_value(1, value[:-1] + b",")[0] is None


def test_a_history_is_read_as_it_was_written(tmp_path):
    history = HistoryFile(tmp_path / "p.jsonl")
    history.send(0, "ok", (5, 6), [(0, 0), (1, 1)])
    history.poll(1, {0: [(0, value_of("p", 0, 0))]})
    history.trouble("why")
    history.flush()
    lines = read_lines([tmp_path / "p.jsonl"])
    assert [(line.process, line.fields["f"]) for line in lines] == [
        ("p", "send"),
        ("p", "poll"),
        ("p", "trouble"),
    ]


# Segments ----------------------------------------------------------------------------------


def batch(offset: int, value: bytes, epoch: int = 0) -> bytes:
    return build_batch([Record(1, None, value)], base_offset=offset, leader_epoch=epoch)


def log_of(directory: Path, node: int, data: bytes) -> Path:
    place = directory / str(node)
    (place / "t-0").mkdir(parents=True)
    (place / "t-0" / "00000000000000000000.log").write_bytes(data)
    return place


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (batch(0, b"a") + batch(1, b"b"), ""),
        (batch(0, b"a") + batch(1, b"c"), "replicas differ"),
        (batch(0, b"a") + batch(1, b"b", epoch=1), "replicas differ"),
        (batch(0, b"a"), "replicas differ"),
        (batch(0, b"a") + batch(2, b"b"), "2 follows 0"),
        (batch(0, b"a") + batch(1, b"b")[:-1] + b"x", "bad checksum at offset 1"),
    ],
    ids=["equal", "other record", "other epoch", "shorter", "hole", "flipped"],
)
def test_replicas_are_compared_byte_by_byte(tmp_path, data, complaint):
    places = {1: log_of(tmp_path, 1, batch(0, b"a") + batch(1, b"b")), 2: log_of(tmp_path, 2, data)}
    found = compare_replicas(read_replicas(places, {("t", 0): [1, 2]}))
    assert any(complaint in text for text in found) if complaint else found == []


def test_a_crash_in_a_log_and_a_mishap_are_anomalies(tmp_path):
    node = tmp_path / "cluster" / "node-1"
    node.mkdir(parents=True)
    log = node / "server.log"
    log.write_text("fine\nERROR b1 runtime: stopped by a bug (KeyError: 3)\n")
    assert len(crashes([log])) == 1
    facts = {"mishaps": ["m"], "events": [], "topics": [], "replicas": {}, "data_dirs": {}}
    (tmp_path / "round.json").write_text(json.dumps(facts))
    assert judge(tmp_path)["anomalies"] == 2


FAULT = "[loader] ERROR ProcessTerminatingFaultHandler - Encountered fatal fault: Unhandled fault"
STACK = "\n\tat org.apache.kafka.raft.internals.RecordsIterator.readFileRecords\n"
CLOSED = "Caused by: java.nio.channels.ClosedChannelException"


OPEN = "copy partition 3: 1 records of 2"
STUCK = "client copier-2 ended with 1: no offsets"


@pytest.mark.parametrize(
    ("named", "excused"),
    [
        (None, []),
        ("Set(copy-3)", [OPEN]),
        ("HashSet(__consumer_offsets-7)", [STUCK]),
        ("Set(copy-3, __consumer_offsets-7)", [OPEN, STUCK]),
        ("Set(copy-30, copy-2)", []),
    ],
)
def test_only_what_kafka_says_it_left_without_markers_is_its_own(tmp_path, named, excused):
    """Seed 479443526: a transaction was complete in its coordinator's log, of Kafka, and had no
    marker in two partitions that were without a leader."""
    log = tmp_path / "server.log"
    log.write_text(
        f"INFO {SKIPPED_MARKERS} {named} while trying to send markers for t-1\n" if named else ""
    )
    found = [OPEN, STUCK, "copy partition 4: 1 records of 2", "idempotent partition 3: holes"]
    anomalies, by_kafka = split_by_cause(found, [log])
    assert by_kafka == excused
    assert anomalies == [text for text in found if text not in excused]
