"""Seeded record batches of every shape, and their records by the plain decoder."""

from typing import Any

from tidelog.env.prng import Prng
from tidelog.records.batch import CONTROL_FLAG, build_batch, decode_batch, iter_headers
from tidelog.records.compression import Codec
from tidelog.records.record import Record

_KEYS = (None, b"", b"k", b"N14228", b"exactly-12-b", b"thirteen byte", b"x" * 300)
_HEADER_NAMES = ("", "seq", "trace-id", "ünïcode")


def random_record(prng: Prng, timestamp: int) -> Record:
    """A record with any mix of nulls, empties, short and long values and headers."""
    value = None if prng.chance(1, 10) else bytes(prng.below(256) for _ in range(prng.below(40)))
    if value is not None and prng.chance(1, 20):
        value *= prng.between(10, 400)
    headers = tuple(
        (prng.choice(_HEADER_NAMES), prng.choice((None, b"", b"0123456789abcdef")))
        for _ in range(prng.choice((0, 0, 0, 1, 3)))
    )
    return Record(timestamp + prng.between(-5000, 100_000), prng.choice(_KEYS), value, headers)


def random_batches(prng: Prng, count: int, *, max_records: int = 30) -> bytes:
    """Batches with ascending offsets, gaps, all codecs, both timestamp types, control batches."""
    parts = []
    offset = prng.below(1 << 33)
    for _ in range(count):
        records = [
            random_record(prng, 1_700_000_000_000) for _ in range(1 + prng.below(max_records))
        ]
        is_control = prng.chance(1, 15)
        parts.append(
            build_batch(
                records[:1] if is_control else records,
                base_offset=offset,
                leader_epoch=prng.below(1000),
                codec=Codec.NONE if is_control else prng.choice(list(Codec)),
                timestamp_type=prng.below(2),
                is_control=is_control,
            )
        )
        offset += (1 if is_control else len(records)) + prng.choice((0, 0, 7))
    return b"".join(parts)


def plain_rows(buffer: bytes) -> list[dict[str, Any]]:
    """What `decode` must return, by the plain decoder."""
    rows = []
    for position, header in iter_headers(buffer):
        if header.attributes & CONTROL_FLAG:
            continue
        for record in decode_batch(buffer[position : position + header.size_bytes]):
            headers = [{"key": key, "value": value} for key, value in record.headers]
            rows.append(
                {
                    "offset": record.offset,
                    "leader_epoch": header.leader_epoch,
                    "timestamp": record.timestamp,
                    "timestamp_type": header.attributes >> 3 & 1,
                    "key": record.key,
                    "value": record.value,
                    "headers": headers or None,
                }
            )
    return rows
