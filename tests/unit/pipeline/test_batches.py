"""Batch headers as columns."""

import pytest
from crc32c import crc32c

from tests.unit.pipeline.batch_samples import random_batches
from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch
from tidelog.pipeline.batches import check_crcs, read_batches, record_bodies
from tidelog.records.batch import iter_headers


def test_every_header_field_is_what_the_plain_reader_reads():
    buffer = random_batches(Prng(7), 60)
    table = read_batches(buffer)
    plain = list(iter_headers(buffer))
    assert table.positions.tolist() == [position for position, _ in plain]
    for name in (
        "base_offset",
        "leader_epoch",
        "crc",
        "attributes",
        "last_offset_delta",
        "base_timestamp",
        "max_timestamp",
        "producer_id",
        "record_count",
    ):
        assert table.field(name).tolist() == [getattr(header, name) for _, header in plain]
    assert table.sizes.tolist() == [header.size_bytes for _, header in plain]
    assert table.end == len(buffer)


@pytest.mark.parametrize("cut", [1, 10, 61, 200])
def test_a_cut_batch_at_the_end_is_left_alone(cut):
    whole = random_batches(Prng(8), 5)
    following = random_batches(Prng(9), 1, max_records=200)
    table = read_batches(whole + following[: min(cut, len(following) - 1)])
    assert len(table) == 5
    assert table.end == len(whole)


def test_the_preallocated_end_of_a_segment_is_not_a_batch():
    whole = random_batches(Prng(8), 5)
    table = read_batches(whole + bytes(4096))
    assert len(table) == 5
    assert table.end == len(whole)


def test_nothing_holds_no_batches():
    assert len(read_batches(b"")) == 0


def test_impossible_lengths_and_formats_are_named():
    batch = bytearray(random_batches(Prng(1), 1))
    for length in (-1, 48):
        broken = bytes(batch[:8]) + length.to_bytes(4, "big", signed=True) + bytes(batch[12:])
        with pytest.raises(CorruptBatch, match=str(length)):
            read_batches(broken)
    batch[16] = 1
    with pytest.raises(CorruptBatch, match="magic 1"):
        read_batches(batch)


def test_a_flipped_byte_names_its_batch():
    buffer = bytearray(random_batches(Prng(5), 20))
    table = read_batches(bytes(buffer))
    check_crcs(table)
    buffer[int(table.positions[11]) + 61] ^= 1
    with pytest.raises(CorruptBatch, match=str(table.base_offsets[11])):
        check_crcs(read_batches(buffer))


@pytest.mark.parametrize("max_bytes", [1, 2000, 1 << 30])
def test_bodies_come_in_order_and_in_groups(max_bytes):
    buffer = random_batches(Prng(6), 40)
    table = read_batches(buffer)
    groups = list(record_bodies(table, max_bytes))
    assert [p for group in groups for p in group.table.positions] == table.positions.tolist()
    if max_bytes == 1:
        assert len(groups) == 40
    if max_bytes == 1 << 30:
        assert len(groups) == 1


def test_an_unknown_codec_is_corrupt():
    batch = bytearray(random_batches(Prng(1), 1))
    batch[22] |= 7
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    table = read_batches(batch)
    check_crcs(table)
    with pytest.raises(CorruptBatch, match="7"):
        list(record_bodies(table, 1 << 20))
