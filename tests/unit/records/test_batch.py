"""Batches as bytes: what is built is read back, damage is noticed, stamping spares the checksum."""

import pytest

from tests.fixtures import kafka_dump, kafka_files
from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch
from tidelog.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    build_batch,
    decode_batch,
    iter_headers,
    patch_base,
    read_header,
    stamp,
    stamp_log_append_time,
    verify_crc,
)
from tidelog.records.compression import Codec
from tidelog.records.record import Record

RECORDS = [
    Record(1_000, b"k0", b"v0"),
    Record(1_007, None, b"v1", (("h", b"x"), ("empty", b""), ("null", None))),
    Record(990, b"", None),
]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_built_batch_reads_back(codec: Codec) -> None:
    """Goal: decode(build(x)) = x with offsets from the base, for every codec."""
    batch = build_batch(RECORDS, base_offset=40, codec=codec)
    expected = [record._replace(offset=40 + delta) for delta, record in enumerate(RECORDS)]
    assert decode_batch(batch) == expected


def test_the_header_describes_what_was_built() -> None:
    """Goal: each header field carries the value given; sequences wrap."""
    batch = build_batch(
        RECORDS,
        base_offset=5,
        leader_epoch=3,
        producer_id=9,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        is_transactional=True,
    )
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (5, 7, 3)
    assert (header.leader_epoch, header.producer_id, header.producer_epoch) == (3, 9, 2)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_007)
    assert (header.base_sequence, header.last_sequence) == (2**31 - 2, 0)
    assert header.is_transactional and not header.is_control
    assert header.size_bytes == len(batch)


def test_log_append_time_counts_for_all_records() -> None:
    """Goal: with LogAppendTime readers take the batch's largest timestamp for each record."""
    batch = build_batch(RECORDS, timestamp_type=LOG_APPEND_TIME)
    assert [record.timestamp for record in decode_batch(batch)] == [1_007] * 3


def test_stamping_keeps_the_checksum() -> None:
    """Goal: offset and epoch lie outside the checksum, in a copy and in place."""
    batch = build_batch(RECORDS)
    stamped = stamp(memoryview(batch), 123, 7)
    assert verify_crc(stamped)
    assert (read_header(stamped).base_offset, read_header(stamped).leader_epoch) == (123, 7)
    in_place = bytearray(b"junk" + batch)
    patch_base(in_place, 4, 123, 7)
    assert bytes(in_place[4:]) == stamped


def test_stamping_log_append_time_makes_a_new_checksum() -> None:
    """Goal: timestamp type and largest timestamp change and the batch stays valid."""
    stamped = stamp_log_append_time(build_batch(RECORDS), 123, 7, 5_000)
    assert verify_crc(stamped)
    assert {record.timestamp for record in decode_batch(stamped)} == {5_000}


def test_damage_behind_the_checksum_is_noticed() -> None:
    """Goal: any flipped bit from byte 17 on fails the checksum; method: 200 random flips."""
    batch = build_batch(RECORDS, codec=Codec.LZ4)
    prng = Prng(11)
    for _ in range(200):
        damaged = bytearray(batch)
        bit = prng.between(17 * 8, len(batch) * 8 - 1)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatch):
            decode_batch(bytes(damaged))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (8, b"\x00\x00\x00\x10"),
        (8, b"\x00\xff\xff\xff"),
        (8, b"\xff\xff\xff\xff"),
        (16, b"\x01"),
        (0, b"\xff"),
        (23, b"\x80"),
    ],
)
def test_a_senseless_header_is_refused(at: int, value: bytes) -> None:
    """Goal: short, long and negative lengths, old magic and negative offsets raise."""
    batch = bytearray(build_batch(RECORDS))
    batch[at : at + len(value)] = value
    with pytest.raises(CorruptBatch):
        read_header(batch)


def test_cut_batches_are_refused() -> None:
    """Goal: no prefix of a batch counts as one; method: every length."""
    batch = build_batch(RECORDS)
    for length in range(len(batch)):
        with pytest.raises(CorruptBatch):
            read_header(batch[:length])
    assert len(batch) > HEADER_BYTES


def test_a_body_that_lies_is_refused_even_with_a_right_checksum() -> None:
    """Goal: decoding never trusts lengths; method: random bodies under a valid header."""
    prng = Prng(5)
    for _ in range(300):
        batch = bytearray(build_batch(RECORDS))
        for _ in range(3):
            batch[prng.between(HEADER_BYTES, len(batch) - 1)] = prng.below(256)
        header = read_header(batch)
        batch[17:21] = _crc(batch).to_bytes(4, "big")
        try:
            assert len(decode_batch(bytes(batch))) == header.record_count
        except CorruptBatch:
            continue


def _crc(batch: bytearray) -> int:
    import crc32c

    return int(crc32c.crc32c(bytes(batch[21:])))


@pytest.mark.parametrize(
    "path",
    [
        "plain-0/00000000000000000121.log",
        "gzip-1/00000000000000000000.log",
        "snappy-1/00000000000000000000.log",
        "lz4-1/00000000000000000000.log",
        "zstd-1/00000000000000000000.log",
        "txn-0/00000000000000000000.log",
        "compact-1/00000000000000000000.log",
        "__consumer_offsets-1/00000000000000000000.log",
        "__cluster_metadata-0/00000000000000000000.log",
    ],
)
def test_kafkas_batches_read_as_kafka_dumps_them(path: str) -> None:
    """Goal: golden; headers and records of Kafka's files equal what its own tool prints."""
    data = kafka_files("node1")[path]
    dumped = kafka_dump(path)
    found = list(iter_headers(data))
    assert len(found) == len(dumped)
    for (position, header), expected in zip(found, dumped, strict=True):
        fields = expected.fields
        assert int(fields["position"]) == position
        assert int(fields["baseOffset"]) == header.base_offset
        assert int(fields["lastOffset"]) == header.last_offset
        assert int(fields["count"]) == header.record_count
        assert int(fields["producerId"]) == header.producer_id
        assert int(fields["lastSequence"]) == header.last_sequence
        assert int(fields["crc"]) == header.crc
        assert fields["isControl"] == str(header.is_control).lower()
        assert fields["compresscodec"] == Codec(header.codec).name.lower()
        records = decode_batch(data[position : position + header.size_bytes])
        assert [(r.offset, r.timestamp, _size(r.key), _size(r.value)) for r in records] == list(
            expected.records
        )


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def test_an_uncompressed_kafka_batch_is_built_bit_for_bit() -> None:
    """Goal: golden; our builder makes the very bytes that Kafka's producer made."""
    data = kafka_files("node1")["plain-0/00000000000000000121.log"]
    for position, header in iter_headers(data):
        batch = data[position : position + header.size_bytes]
        rebuilt = build_batch(
            decode_batch(batch),
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )
        assert rebuilt == batch
