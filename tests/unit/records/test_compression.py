"""Codecs: round trips, foreign framings, and bounds against decompression bombs."""

import cramjam
import pytest

from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.records.compression import Codec, compress, decompress, inflate_bound_bytes


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size_bytes", [0, 1, 70_000, 1_000_000])
def test_bodies_read_back(codec: Codec, size_bytes: int) -> None:
    """Goal: bodies below, at and above the block sizes survive, compressible or not."""
    prng = Prng(size_bytes)
    noise = b"".join(prng.next_u64().to_bytes(8, "big") for _ in range(size_bytes // 16))
    body = (noise + bytes(size_bytes))[:size_bytes]
    assert decompress(codec, compress(codec, body)) == body


def test_plain_snappy_is_read() -> None:
    """Goal: clients that send a raw snappy block without the xerial frame are understood."""
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"abc" * 99))) == b"abc" * 99


def test_lz4_blocks_are_independent() -> None:
    """Goal: the frame that Java clients accept: flag byte 0x60, and a standard reader agrees."""
    frame = compress(Codec.LZ4, b"x" * 200_000)
    assert frame[4] == 0x60
    assert bytes(cramjam.lz4.decompress(frame)) == b"x" * 200_000


def test_a_bomb_is_refused() -> None:
    """Goal: output is bounded by the ratio; method: a zstd frame that inflates 8000-fold."""
    bomb = bytes(cramjam.zstd.compress(bytes(96 << 20)))
    assert inflate_bound_bytes(len(bomb)) < 96 << 20
    with pytest.raises(CorruptBatch) as caught:
        decompress(Codec.ZSTD, bomb)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_snappy_bomb_is_refused_by_its_announced_length() -> None:
    """Goal: a block that announces 2 GiB is refused before anything is allocated."""
    with pytest.raises(CorruptBatch, match="inflates to more than"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x07" + bytes(20))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_damaged_blocks_are_refused(codec: Codec) -> None:
    """Goal: garbage is a peer fault for every codec."""
    with pytest.raises(CorruptBatch):
        decompress(codec, b"\x13garbage that is not a compressed block")


def test_unknown_codecs_are_refused() -> None:
    """Goal: the three unused codec numbers have their own error code."""
    with pytest.raises(CorruptBatch) as caught:
        decompress(6, b"")
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
