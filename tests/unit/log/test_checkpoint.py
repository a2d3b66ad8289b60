"""Text files: Kafka's own read and write back; nonsense is refused by name."""

import pytest

from tests.fixtures import kafka_files
from tidelog.env.prng import Prng
from tidelog.log.checkpoint import (
    CheckpointDamaged,
    CleanShutdown,
    OffsetLines,
    decode_clean_shutdown,
    decode_epochs,
    decode_offsets,
    decode_partition_metadata,
    decode_properties,
    encode_clean_shutdown,
    encode_epochs,
    encode_meta_properties,
    encode_offsets,
    encode_partition_metadata,
)
from tidelog.model import TopicPartition, Uuid


def test_kafkas_offset_checkpoints_read_back() -> None:
    """Goal: golden; same entries, and same bytes up to the order of lines."""
    data = kafka_files("node1")["replication-offset-checkpoint"]
    offsets = decode_offsets(data)
    assert offsets[TopicPartition("rolled", 0)] == 34160
    assert len(offsets) == 27
    ours = encode_offsets(offsets)
    assert sorted(ours.splitlines()) == sorted(data.splitlines())
    assert ours.splitlines()[:2] == [b"0", b"27"] and ours.endswith(b"\n")


def test_lines_that_are_kept_are_those_of_a_new_file() -> None:
    """Logs come, go and come back; offsets move and stay."""
    prng, kept = Prng(1), OffsetLines()
    offsets: dict[TopicPartition, int] = {}
    for _ in range(200):
        offsets = dict(offsets)
        key = TopicPartition("ab"[prng.below(2)], prng.below(12))
        if prng.below(3) and key in offsets:
            del offsets[key]
        else:
            offsets[key] = prng.below(3)
        data = kept.encode(offsets)
        assert data == encode_offsets(offsets)
        assert decode_offsets(data) == kept.offsets == offsets


def test_kafkas_epochs_and_topic_ids_write_back() -> None:
    """Goal: golden; bit for bit."""
    files = kafka_files("node1")
    epochs = files["epochs-0/leader-epoch-checkpoint"]
    assert encode_epochs(decode_epochs(epochs)) == epochs
    metadata = files["epochs-0/partition.metadata"]
    assert encode_partition_metadata(decode_partition_metadata(metadata)) == metadata
    marker = files[".kafka_cleanshutdown"]
    assert encode_clean_shutdown(decode_clean_shutdown(marker)) == marker


def test_kafkas_meta_properties_are_read() -> None:
    """Goal: golden; comments and any order of keys."""
    properties = decode_properties(kafka_files("node1")["meta.properties"])
    assert properties == {
        "node.id": "1",
        "directory.id": "jLiZOjnm4qITQ6be9YuhSg",
        "version": "1",
        "cluster.id": "MkU3OEVBNTcwNTJENDM2Qk",
    }
    ours = decode_properties(encode_meta_properties("c", 7, Uuid(bytes(16))))
    assert ours["cluster.id"] == "c" and ours["node.id"] == "7"


@pytest.mark.parametrize(
    "data",
    [
        *(b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"0\n", b"\xff\n0\n"),
        *(b"0\n1\na 0 -1\n", b"0\n1\na 0 9223372036854775808\n"),
        *(b"0\n1\na -1 0\n", b"0\n1\na 2147483648 0\n", b"0\n1\n%b 0 0\n" % (250 * b"a")),
    ],
)
def test_damaged_offset_checkpoints_are_refused(data: bytes) -> None:
    """Goal: version, count, fields, text and numbers are checked, and what a log can have."""
    with pytest.raises(CheckpointDamaged):
        decode_offsets(data)


@pytest.mark.parametrize(
    "data",
    [
        *(b"0\n2\n1 0\n1 5\n", b"0\n2\n1 5\n2 5\n", b"0\n1\n1\n"),
        *(b"0\n1\n-1 0\n", b"0\n1\n1 -1\n"),
        *(b"0\n1\n2147483648 0\n", b"0\n1\n1 9223372036854775808\n"),
    ],
)
def test_damaged_epochs_are_refused(data: bytes) -> None:
    """Goal: both columns must strictly increase, and hold what a log can have."""
    with pytest.raises(CheckpointDamaged):
        decode_epochs(data)


@pytest.mark.parametrize(
    "data", [b"", b"version: 1\ntopic_id: x", b"version: 0\ntopic_id: short", b"version 0"]
)
def test_damaged_topic_ids_are_refused(data: bytes) -> None:
    """Goal: a partition never gets a wrong identity."""
    with pytest.raises(CheckpointDamaged):
        decode_partition_metadata(data)


def test_a_clean_marker_hands_on_an_incarnation() -> None:
    """Goal: of a registration that was never answered; a damaged one is not a marker."""
    marker = CleanShutdown(77, Uuid(bytes(range(16))))
    assert decode_clean_shutdown(encode_clean_shutdown(marker)) == marker
    with pytest.raises(CheckpointDamaged):
        decode_clean_shutdown(b'{"version":0,"brokerEpoch":77,"incarnationId":"?"}')


def test_old_clean_markers_have_no_epoch_and_damaged_ones_do_not_count() -> None:
    """Goal: the epoch is optional, but other content does not prove a clean stop."""
    assert decode_clean_shutdown(b"{}") == CleanShutdown(-1, None)
    epochs = (b'"x"', b"-2", b"9223372036854775808")
    numbered = [b'{"version":0,"brokerEpoch":%b}' % epoch for epoch in epochs]
    for data in (b"", bytes(32), b"[1]", b"\xff", 9999 * b"[", *numbered):
        with pytest.raises(CheckpointDamaged):
            decode_clean_shutdown(data)


def test_empty_files_have_no_entries() -> None:
    """Goal: Kafka creates checkpoints empty."""
    assert decode_offsets(b"") == {} and decode_epochs(b"") == []
