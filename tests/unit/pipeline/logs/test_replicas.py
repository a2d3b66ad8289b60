"""Replica comparison: equal replicas of Kafka itself, and every planted difference is found."""

from pathlib import Path

import pytest

from tests.fixtures import unpack_kafka_node
from tidelog.model import TopicPartition
from tidelog.pipeline.logs.replicas import compare_topic
from tidelog.records.batch import build_batch
from tidelog.records.record import Record

_TP = TopicPartition("t", 0)


def _batch(base_offset: int, *, epoch: int = 1, value: bytes = b"value", count: int = 10) -> bytes:
    records = [Record(1000 + i, b"k", value) for i in range(count)]
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch)


_BATCHES = [_batch(base) for base in range(0, 100, 10)]


def _replica(root: Path, node_id: int, *segments: list[bytes]) -> Path:
    """Writes a node's log directory with the partition `t-0` in the given segments."""
    directory = root / f"node-{node_id}" / "t-0"
    directory.mkdir(parents=True)
    for segment in segments:
        base = int.from_bytes(segment[0][:8], "big") if segment else 0
        (directory / f"{base:020d}.log").write_bytes(b"".join(segment))
    return directory.parent


def _compare(root: Path, others: list[list[list[bytes]]], high_watermark: int = 100):
    log_dirs = {1: _replica(root, 1, _BATCHES)}
    for node_id, segments in enumerate(others, start=2):
        log_dirs[node_id] = _replica(root, node_id, *segments)
    return compare_topic(log_dirs, "t", high_watermarks={_TP: high_watermark})


def test_the_three_nodes_of_kafka_are_identical(tmp_path):
    log_dirs = {}
    for number in (1, 2, 3):
        target = tmp_path / f"node{number}"
        target.mkdir()
        log_dirs[number] = unpack_kafka_node(f"node{number}", target)
    for topic, batches in (("plain", 106), ("txn", 42), ("epochs", 12), ("rolled", 53)):
        verdict = compare_topic(log_dirs, topic)
        assert verdict.is_identical, verdict.differences
        assert verdict.batches == batches


def test_segments_may_roll_anywhere(tmp_path):
    verdict = _compare(
        tmp_path, [[_BATCHES[:3], _BATCHES[3:]], [_BATCHES[:7], _BATCHES[7:9], _BATCHES[9:]]]
    )
    assert verdict.is_identical
    assert (verdict.partitions, verdict.batches) == (1, 10)
    assert verdict.size_bytes == sum(map(len, _BATCHES))


def test_what_lies_above_the_high_watermark_may_differ(tmp_path):
    other = [*_BATCHES[:8], _batch(80, value=b"never committed")]
    assert not _compare(tmp_path / "all", [[other]], 90).is_identical
    verdict = _compare(tmp_path / "committed", [[other]], 80)
    assert verdict.is_identical
    assert verdict.batches == 8


def test_replicas_are_compared_from_the_highest_log_start(tmp_path):
    verdict = _compare(tmp_path, [[_BATCHES[4:]]])
    assert verdict.is_identical
    assert verdict.batches == 6


def _flipped(batch: bytes, position: int) -> bytes:
    damaged = bytearray(batch)
    damaged[position] ^= 0x01
    return bytes(damaged)


@pytest.mark.parametrize(
    ("segment", "offset", "what"),
    [
        ([*_BATCHES[:5], _flipped(_BATCHES[5], -1), *_BATCHES[6:]], 50, "node 2 stores CRC"),
        ([*_BATCHES[:5], _batch(50, value=b"other"), *_BATCHES[6:]], 50, "CRC is"),
        ([*_BATCHES[:5], _batch(50, value=b"longer value"), *_BATCHES[6:]], 50, "size in bytes is"),
        ([*_BATCHES[:5], _batch(50, epoch=2), *_BATCHES[6:]], 50, "leader epoch is 1"),
        ([*_BATCHES[:5], *_BATCHES[6:]], 50, "base offset is 50 on node 1 and 60 on node 2"),
        (
            [*_BATCHES[:5], _batch(50, count=5), _batch(55, count=5), *_BATCHES[6:]],
            50,
            "last offset is",
        ),
        (_BATCHES[:9], 90, "node 2 ends there, below the high watermark 100"),
        ([], 0, "node 2 ends there, below the high watermark 100"),
    ],
)
def test_every_planted_difference_is_found(tmp_path, segment, offset, what):
    verdict = _compare(tmp_path, [[segment]])
    assert not verdict.is_identical
    (difference,) = verdict.differences
    assert difference.offset == offset
    assert what in difference.what, difference.what


def test_the_same_flipped_byte_on_all_replicas_is_found(tmp_path):
    damaged = [*_BATCHES[:2], _flipped(_BATCHES[2], 80), *_BATCHES[3:]]
    log_dirs = {node_id: _replica(tmp_path, node_id, damaged) for node_id in (1, 2, 3)}
    verdict = compare_topic(log_dirs, "t", high_watermarks={_TP: 100})
    (difference,) = verdict.differences
    assert difference.offset == 20
    assert "stores CRC" in difference.what


def test_a_difference_that_no_crc_can_see_is_found(tmp_path):
    """Two bodies with the same CRC: one differs by the CRC's own generator polynomial."""
    bits = [1, *(0x1EDC6F41 >> shift & 1 for shift in range(31, -1, -1))]
    damaged = bytearray(_BATCHES[5])
    for index, bit in enumerate(bits):
        damaged[80 + index // 8] ^= bit << index % 8
    verdict = _compare(tmp_path, [[[*_BATCHES[:5], bytes(damaged), *_BATCHES[6:]]]])
    (difference,) = verdict.differences
    assert difference.offset == 50
    assert difference.what == "bytes differ between nodes 1 and 2"


def test_an_assigned_replica_without_a_directory_is_found(tmp_path):
    log_dirs = {1: _replica(tmp_path, 1, _BATCHES), 2: tmp_path / "node-2"}
    log_dirs[2].mkdir()
    high_watermarks = {_TP: 100}
    assert compare_topic(log_dirs, "t", high_watermarks=high_watermarks).is_identical
    verdict = compare_topic(
        log_dirs, "t", high_watermarks=high_watermarks, assignment={_TP: [1, 2]}
    )
    assert str(verdict.differences[0]) == "`t-0` at offset 0: node 2 has no directory for it"


def test_nothing_to_compare_is_not_identical(tmp_path):
    assert not compare_topic({1: tmp_path}, "t").is_identical


def test_without_high_watermarks_the_lowest_checkpoint_counts(tmp_path):
    log_dirs = {1: _replica(tmp_path, 1, _BATCHES), 2: _replica(tmp_path, 2, _BATCHES[:6])}
    for node_id, mark in ((1, 100), (2, 60)):
        text = f"0\n1\nt 0 {mark}\n"
        (log_dirs[node_id] / "replication-offset-checkpoint").write_text(text)
    verdict = compare_topic(log_dirs, "t")
    assert verdict.is_identical
    assert verdict.batches == 6
