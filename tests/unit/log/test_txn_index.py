"""The transaction index: Kafka's file, searches, truncation."""

import pytest

from tests.fixtures import kafka_disk, kafka_files
from tidelog.env.memory_disk import MemoryDisk
from tidelog.log.txn_index import AbortedTxn, TransactionIndex

PATH = f"txn-0/{0:020d}.txnindex"


def _index(*entries: AbortedTxn) -> TransactionIndex:
    index = TransactionIndex(MemoryDisk(), "x.txnindex")
    for entry in entries:
        index.append(entry)
    return index


def test_kafkas_file_reads_and_writes_back() -> None:
    """Goal: golden; entries are understood, and appending them makes the same bytes."""
    index = TransactionIndex(kafka_disk("node1"), PATH)
    assert index.load()
    assert index.entries[0] == AbortedTxn(1000, 22, 32, 33)
    disk = MemoryDisk()
    disk.make_dir("txn-0")
    ours = TransactionIndex(disk, PATH)
    for entry in index.entries:
        ours.append(entry)
    assert disk.read_file(PATH) == kafka_files("node1")[PATH]


def test_a_search_takes_what_touches_the_range() -> None:
    """Goal: marker at or after the start, first offset below the end; it stops when an entry's
    stable offset has reached the end."""
    index = _index(AbortedTxn(1, 0, 5, 6), AbortedTxn(2, 3, 9, 10), AbortedTxn(3, 12, 20, 21))
    found: list[AbortedTxn] = []
    assert index.collect(6, 10, found)
    assert [txn.producer_id for txn in found] == [2]
    found.clear()
    assert not index.collect(0, 30, found)
    assert [txn.producer_id for txn in found] == [1, 2, 3]


def test_truncation_cuts_the_file() -> None:
    """Goal: transactions whose marker is cut are open again, in memory and on disk."""
    index = _index(AbortedTxn(1, 0, 5, 6), AbortedTxn(2, 3, 9, 10))
    index.truncate_to(9)
    assert [txn.producer_id for txn in index.entries] == [1]
    assert index.file is not None and index.file.size_bytes == 34


def test_entries_must_ascend() -> None:
    """Goal: a marker below the last one is a bug."""
    with pytest.raises(AssertionError):
        _index(AbortedTxn(1, 0, 5, 6), AbortedTxn(2, 3, 5, 6))


def test_senseless_files_are_refused() -> None:
    """Goal: odd lengths, unknown versions and unordered entries make the index rebuild."""
    good = kafka_files("node1")[PATH]
    for data in (good[:-1], b"\x00\x01" + good[2:], good[34:] + good[:34]):
        disk = MemoryDisk()
        disk.replace("x.txnindex", data)
        index = TransactionIndex(disk, "x.txnindex")
        assert not index.load()
        assert not index.entries
