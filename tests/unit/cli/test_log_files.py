"""Goal: every kind of file in a real Kafka directory is read, and damage is found and reported."""

from pathlib import Path

import pytest

from tests.fixtures import kafka_files
from tidelog.cli.log_files import DumpOptions, Entry, read_entries
from tidelog.errors import UsageError

MANY = "epochs-0/00000000000000000000.log"
"""A segment of many batches."""


def write(tmp_path: Path, name: str, data: bytes) -> Path:
    """A file of the recording in a directory of the test."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def entries(path: Path, *, deep: bool = False) -> list[Entry]:
    """All entries but the first, which names the file."""
    first, *rest = read_entries(path, DumpOptions(deep=deep))
    assert first["kind"] == "file"
    return rest


def test_every_file_of_a_kafka_directory_is_read_without_damage(tmp_path: Path) -> None:
    kinds: dict[str, int] = {}
    files = kafka_files("node1")
    for name, data in files.items():
        if not name.endswith(".lock") and data:
            write(tmp_path, name, data)
    for name, data in files.items():
        if name.endswith(".lock") or not data:
            continue
        for entry in entries(tmp_path / name, deep=True):
            assert entry["kind"] != "damage", (name, entry)
            assert entry.get("is_valid", True), (name, entry)
            kinds[entry["kind"]] = kinds.get(entry["kind"], 0) + 1
    assert set(kinds) == {
        "batch",
        "index",
        "timeindex",
        "txnindex",
        "producer",
        "epoch",
        "offset",
        "property",
    }
    assert kinds["batch"] > 500
    assert kinds["index"] > 50


def test_a_flipped_bit_makes_its_batch_invalid_and_no_other(tmp_path: Path) -> None:
    data = bytearray(kafka_files("node1")[MANY])
    path = write(tmp_path, "00000000000000000000.log", bytes(data))
    sizes = [entry["size_bytes"] for entry in entries(path)]
    data[sizes[0] + 70] ^= 1
    path.write_bytes(data)
    valid = [entry["is_valid"] for entry in entries(path, deep=True)]
    assert valid == [True, False] + [True] * (len(sizes) - 2)


def test_a_torn_tail_is_damage_after_whole_batches(tmp_path: Path) -> None:
    data = kafka_files("node1")[MANY]
    path = write(tmp_path, "00000000000000000000.log", data[:-5])
    *whole, tail = entries(path)
    assert whole
    assert all(entry["is_valid"] for entry in whole)
    assert tail["kind"] == "damage"
    assert "before the end" in tail["where"]


def test_an_index_that_does_not_fit_its_log_is_damage(tmp_path: Path) -> None:
    files = kafka_files("node1")
    name = "rolled-0/00000000000000000000"
    write(tmp_path, f"{name}.log", files[f"{name}.log"])
    index = bytearray(files[f"{name}.index"])
    index[3] += 1
    path = write(tmp_path, f"{name}.index", bytes(index))
    found = entries(path)
    assert [entry["kind"] for entry in found[:3]] == ["index", "damage", "index"]
    assert sum(entry["kind"] == "damage" for entry in found) == 1


def test_an_index_without_its_log_and_with_zeros_behind_is_read(tmp_path: Path) -> None:
    data = kafka_files("node1")["rolled-0/00000000000000000000.index"]
    path = write(tmp_path, "00000000000000000000.index", data + bytes(4096))
    assert len(entries(path)) == len(data) // 8


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("00000000000000000001.snapshot", b"\x00\x01junk"),
        ("leader-epoch-checkpoint", b"0\n5\n"),
        ("replication-offset-checkpoint", b"0\n1\nt 0\n"),
        ("quorum-state", b"{"),
    ],
)
def test_damaged_small_files_say_so(tmp_path: Path, name: str, data: bytes) -> None:
    assert [entry["kind"] for entry in entries(write(tmp_path, name, data))] == ["damage"]


@pytest.mark.parametrize("name", ["notes.txt", "missing.log", "x.index"])
def test_what_is_not_a_log_file_is_refused(tmp_path: Path, name: str) -> None:
    if name != "missing.log":
        write(tmp_path, name, bytes(8))
    with pytest.raises(UsageError):
        list(read_entries(tmp_path / name, DumpOptions()))


def test_an_empty_segment_has_no_batches(tmp_path: Path) -> None:
    assert entries(write(tmp_path, "00000000000000000000.log", b"")) == []
