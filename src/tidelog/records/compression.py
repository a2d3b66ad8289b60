"""The codecs of a batch body: none, gzip, snappy, lz4, zstd, as Kafka frames them.

- snappy: the xerial stream (16-byte magic, then 32 KiB blocks, each with a 4-byte length). Plain
  snappy blocks, which some clients send, are read too.
- lz4: the standard frame with 64 KiB *independent* blocks; Java clients refuse dependent blocks,
  so frames are put together here from raw blocks.
- gzip and zstd: one plain stream.

Inflating is bounded (`limits.MAX_DECOMPRESSED_BATCH_BYTES`, `MAX_DECOMPRESSION_RATIO`): a small
batch must not be able to fill the memory of every broker that looks inside. cramjam inflates into
a buffer of our size and fails when it is too small, so the buffer is grown step by step up to the
bound. Brokers rarely look inside at all.

Source: KIP-57 (lz4 framing), KIP-110 (zstd); xerial snappy-java.
"""

import struct
from enum import IntEnum
from mmap import mmap
from typing import Any, Final

import cramjam

from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.limits import MAX_DECOMPRESSED_BATCH_BYTES, MAX_DECOMPRESSION_RATIO


class Codec(IntEnum):
    """Codec numbers in the batch attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_BY_NAME: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""The values of `compression.type` except `producer`."""

# Any: cramjam's modules have no types.
_STREAMS: Final[dict[int, Any]] = {
    Codec.GZIP: cramjam.gzip,
    Codec.LZ4: cramjam.lz4,
    Codec.ZSTD: cramjam.zstd,
}
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 << 10
# Magic, version 1 with independent blocks, 64 KiB blocks, and the header's checksum byte.
_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES: Final = 64 << 10
_LZ4_STORED_FLAG: Final = 1 << 31
_FIRST_GUESS_BYTES: Final = 64 << 10
_LARGE_BYTES: Final = 1 << 20


def compress(codec: int, body: bytes | memoryview) -> bytes:
    """The compressed form of a batch body."""
    if codec == Codec.NONE:
        return bytes(body)
    if codec == Codec.SNAPPY:
        return _compress_snappy(body)
    if codec == Codec.LZ4:
        return _compress_lz4(body)
    assert codec in _STREAMS, f"unknown codec {codec}"
    return bytes(_STREAMS[codec].compress(body))


def decompress(codec: int, block: bytes, most_bytes: int = MAX_DECOMPRESSED_BATCH_BYTES) -> bytes:
    """The body of a batch, of so many bytes at most. Raises `CorruptBatch`:
    UNSUPPORTED_COMPRESSION_TYPE for an unknown codec, INVALID_RECORD for damaged bytes and for a
    body beyond the bounds."""
    return bytes(inflate(codec, block, most_bytes))


def inflate(
    codec: int, block: bytes, most_bytes: int = MAX_DECOMPRESSED_BATCH_BYTES
) -> bytes | memoryview:
    """As `decompress`, without a copy."""
    if codec == Codec.NONE:
        return block
    bound_bytes = min(most_bytes, inflate_bound_bytes(len(block)))
    if codec == Codec.SNAPPY:
        return _decompress_snappy(block, bound_bytes)
    if codec in _STREAMS:
        first_bytes = max(_FIRST_GUESS_BYTES, len(block) * 8)
        if codec == Codec.GZIP:
            # The last member ends with its inflated length, modulo 2^32.
            first_bytes = int.from_bytes(block[-4:], "little")
            if first_bytes > bound_bytes:
                raise _too_large(bound_bytes)
        return _inflate(_STREAMS[codec], block, first_bytes, bound_bytes)
    detail = f"compression codec `{codec}` is unknown"
    raise CorruptBatch(detail, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def inflate_bound_bytes(compressed_bytes: int) -> int:
    """How large the body of a compressed block may be."""
    by_ratio = (1 << 20) + compressed_bytes * MAX_DECOMPRESSION_RATIO
    return min(MAX_DECOMPRESSED_BATCH_BYTES, by_ratio)


def _too_large(bound_bytes: int, why: object = "it says so") -> CorruptBatch:
    detail = f"batch is damaged or inflates to more than {bound_bytes} bytes: {why}"
    return CorruptBatch(detail, ErrorCode.INVALID_RECORD)


def _inflate(module: Any, block: bytes, first_bytes: int, bound_bytes: int) -> memoryview:
    """Inflates into a buffer of `first_bytes`, which grows to at most `bound_bytes`. Only cramjam's
    message distinguishes a full buffer from damaged input, and messages may change. So every
    failure is tried again with a larger buffer, up to the bound."""
    target_bytes = min(bound_bytes, max(1, first_bytes))
    while True:
        # A bytearray is filled with zeros first, and no other thread runs meanwhile.
        is_large = target_bytes > _LARGE_BYTES
        target = mmap(-1, target_bytes) if is_large else bytearray(target_bytes)
        try:
            written = module.decompress_into(block, target)
            return memoryview(target)[:written]
        except Exception as error:
            if target_bytes == bound_bytes:
                raise _too_large(bound_bytes, error) from None
        target_bytes = min(bound_bytes, target_bytes * 8)


def _compress_snappy(body: bytes | memoryview) -> bytes:
    parts: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, len(body), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(body[start : start + _XERIAL_BLOCK_BYTES]))
        parts += len(block).to_bytes(4, "big"), block
    return b"".join(parts)


def _decompress_snappy(data: bytes, bound_bytes: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(data, bound_bytes)
    parts: list[bytes] = []
    total_bytes = 0
    pos = len(_XERIAL_HEADER)
    while pos < len(data):
        length = int.from_bytes(data[pos : pos + 4], "big")
        pos += 4
        if pos + length > len(data):
            raise _bad_snappy(f"block of {length} bytes is cut")
        part = _decompress_snappy_block(data[pos : pos + length], bound_bytes - total_bytes)
        total_bytes += len(part)
        parts.append(part)
        pos += length
    return b"".join(parts)


def _decompress_snappy_block(block: bytes, bound_bytes: int) -> bytes:
    try:
        inflated_bytes = int(cramjam.snappy.decompress_raw_len(block))
    except Exception as error:
        raise _bad_snappy(str(error)) from None
    if inflated_bytes > bound_bytes:
        raise _bad_snappy(f"inflates to more than {bound_bytes} bytes")
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except Exception as error:
        raise _bad_snappy(str(error)) from None


def _bad_snappy(why: str) -> CorruptBatch:
    return CorruptBatch(f"snappy block cannot be read: {why}", ErrorCode.INVALID_RECORD)


def _compress_lz4(body: bytes | memoryview) -> bytes:
    parts: list[bytes | memoryview] = [_LZ4_HEADER]
    for start in range(0, len(body), _LZ4_BLOCK_BYTES):
        raw = body[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        if len(block) < len(raw):
            parts += len(block).to_bytes(4, "little"), block
        else:
            parts += (len(raw) | _LZ4_STORED_FLAG).to_bytes(4, "little"), raw
    parts.append(bytes(4))
    return b"".join(parts)
