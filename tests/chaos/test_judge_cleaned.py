"""The judge of topics whose old records go: clean ones, and one for each thing to be found."""

from pathlib import Path

import pytest

from tests.chaos.judge_cleaned import CleanedLog, gone, judge_cleaned, read_log
from tests.chaos.lines import Line, value_of
from tests.chaos.replicas import DISK, directories_of
from tests.chaos.topics import COMPACTED, KEYS, RETAINED, TOMBSTONE_S, is_tombstone, key_of
from tidelog.records.batch import build_batch
from tidelog.records.record import Record

DELETION = next(n for n in range(0, 1000, KEYS) if is_tombstone(n))


def sent(n: int, offset: int, count: int = 1, outcome: str = "ok") -> Line:
    fields = {"f": "send", "p": 0, "o": outcome, "t": [0, 5], "r": [[n, offset, count]]}
    return Line("p", fields)


def read_state(state: dict[str, int | None], seconds: int = 1) -> Line:
    times = [10, 10 + 1_000_000 * seconds]
    return Line("reader-p", {"f": "state", "p": 0, "t": times, "r": state})


def read(*runs: tuple[int, int, int]) -> Line:
    rows = [["p", n, offset, count] for n, offset, count in runs]
    return Line("reader-p", {"f": "poll", "t": [10, 15], "r": {"0": rows}})


def log(records: dict[int, int]) -> CleanedLog:
    """A replica with these n by offset."""
    return CleanedLog(
        {
            offset: (key_of(n), None if is_tombstone(n) else value_of("p", 0, n))
            for offset, n in records.items()
        },
        (),
    )


SENT = [sent(0, 0), sent(KEYS, 1), sent(1, 2)]


def test_replicas_that_cleaned_at_different_times_agree() -> None:
    logs = {0: {1: log({0: 0, 1: KEYS, 2: 1}), 2: log({1: KEYS, 2: 1})}}
    assert judge_cleaned(COMPACTED, [*SENT, read_state({"0": KEYS, "1": 1})], logs) == []
    assert gone(logs) == 0
    assert gone({0: {2: logs[0][2]}}) == 1


@pytest.mark.parametrize(
    ("lines", "records", "complaint"),
    [
        (SENT, {0: 0, 2: 1}, "key 0 has value 0, the last acknowledged is 50"),
        (SENT, {2: 1}, "key 0 has value None"),
        ([*SENT, read_state({"0": 0, "1": 1})], {1: KEYS, 2: 1}, "as it was read: key 0"),
        ([*SENT, sent(DELETION, 3)], {1: KEYS, 2: 1}, "(a deletion)"),
        (SENT, {1: KEYS, 2: 1, 3: 2}, "key 2 has value 2"),
    ],
)
def test_a_key_without_its_last_value_is_found(
    lines: list[Line], records: dict[int, int], complaint: str
) -> None:
    found = judge_cleaned(COMPACTED, lines, {0: {1: log(records)}})
    assert any(complaint in text for text in found), found


def test_a_deletion_may_be_gone_and_an_unknown_outcome_counts_either_way() -> None:
    lines = [*SENT, sent(DELETION, 3), sent(1 + KEYS, -1, outcome="info")]
    for value in (1, 1 + KEYS):
        assert judge_cleaned(COMPACTED, lines, {0: {1: log({2: value})}}) == []


def test_a_reader_that_took_longer_than_deletions_are_kept_proves_nothing() -> None:
    lines = [*SENT, sent(DELETION, 3), read_state({"0": KEYS, "1": 1}, TOMBSTONE_S + 1)]
    assert judge_cleaned(COMPACTED, lines, {0: {1: log({2: 1})}}) == []


def test_records_of_one_offset_are_compared() -> None:
    logs = {0: {1: log({1: KEYS, 2: 1}), 2: log({1: KEYS, 2: 1, 0: 1})}}
    logs[0][1] = log({0: 0, 1: KEYS, 2: 1})
    assert any("differ at offset 0" in text for text in judge_cleaned(COMPACTED, SENT, logs))


def test_retention_takes_the_oldest_and_no_others() -> None:
    lines = [sent(0, 0, 10), read((4, 4, 6))]
    logs = {0: {1: log({n: n for n in range(4, 10)}), 2: log({n: n for n in range(2, 10)})}}
    assert judge_cleaned(RETAINED, lines, logs) == []
    assert gone(logs) == 2


@pytest.mark.parametrize(
    ("reading", "complaint"),
    [
        (read((4, 4, 2), (7, 7, 3)), "have holes"),
        (read((4, 4, 5)), "acknowledged at 9, where None is"),
        (read((4, 4, 5), (7, 9, 1)), "acknowledged at 9, where ('p', 7) is"),
    ],
)
def test_what_is_missing_behind_the_start_is_found(reading: Line, complaint: str) -> None:
    found = judge_cleaned(RETAINED, [sent(0, 0, 10), reading], {})
    assert any(complaint in text for text in found), found


def test_a_replica_with_a_hole_is_found() -> None:
    logs = {0: {1: log({4: 4, 5: 5}), 2: log({4: 4, 5: 5, 6: 6})}}
    assert any("differ at offset 6" in text for text in judge_cleaned(RETAINED, [], logs))


def written(directory: Path, name: str, *offsets: int) -> Path:
    """A file of segments with one record a batch."""
    directory.mkdir(parents=True, exist_ok=True)
    batches = [build_batch([Record(1, b"k", b"%d" % at)], base_offset=at) for at in offsets]
    (directory / name).write_bytes(b"".join(batches))
    return directory


def test_a_log_is_read_where_a_swap_was_under_way(tmp_path: Path) -> None:
    directory = written(tmp_path, f"{0:020}.log", 0, 1)
    written(directory, f"{2:020}.log", 2, 3)
    written(directory, f"{4:020}.log", 4)
    written(directory, f"{0:020}.log.swap", 1, 3)
    assert list(read_log([directory]).records) == [1, 3, 4]


def test_offsets_go_up_and_a_replica_lies_on_one_disk(tmp_path: Path) -> None:
    first = written(tmp_path / f"{DISK}0" / "t-0", f"{0:020}.log", 1, 1)
    assert read_log(directories_of(tmp_path, "t-0")).flaws == [
        f"{0:020}.log: offset 1 does not go up"
    ]
    second = written(tmp_path / f"{DISK}1" / "t-0", f"{0:020}.log", 1)
    assert str(second) in read_log([first, second]).flaws[0]
    assert read_log([]).flaws == ["it lies in []"]
