"""What a leader demands of clients' batches, error code by error code."""

from dataclasses import replace

import crc32c
import pytest

from tests.unit.log.harness import WALL_MS, LogBench, batch, read_all
from tidelog.config import LogConfig
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import BYTES_READ_PER_WORK, MAX_INSPECTED_RECORDS
from tidelog.log.validation import AT_ONCE, Inside, check_client_batch, judge, looks_inside
from tidelog.log.values import InvalidRecords
from tidelog.model import TopicPartition
from tidelog.records.batch import (
    LOG_APPEND_TIME,
    build_batch,
    decode_batch,
    read_header,
    rebuild,
    stamp,
)
from tidelog.records.compression import Codec
from tidelog.records.record import Record, encode_records

PARTITION = TopicPartition("t", 4)
CONFIG = LogConfig()
COMPACTED = LogConfig(cleanup_policy="compact,delete")


def _patched(at: int, value: bytes, data: bytes | None = None) -> bytes:
    """A batch with some bytes changed and the checksum made right again."""
    changed = bytearray(data or batch(3))
    changed[at : at + len(value)] = value
    changed[17:21] = int(crc32c.crc32c(bytes(changed[21:]))).to_bytes(4, "big")
    return bytes(changed)


def _check(data: bytes, config: LogConfig = CONFIG) -> int:
    """Checks it; what looking inside took."""
    inside = Inside(memoryview(data), PARTITION)
    check_client_batch(memoryview(data), config, WALL_MS, inside)
    return inside.work


def _code(data: bytes, config: LogConfig = CONFIG) -> ErrorCode:
    try:
        _check(data, config)
    except ProtocolError as error:
        return error.code
    return ErrorCode.NONE


def test_good_batches_pass() -> None:
    """Goal: plain, sequenced and compressed batches are accepted."""
    assert _code(batch(3)) is ErrorCode.NONE
    assert _code(batch(3, producer_id=1, producer_epoch=0, sequence=0)) is ErrorCode.NONE
    for codec in Codec:
        assert _code(build_batch([Record(WALL_MS, b"k", b"v")], codec=codec)) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (batch(3)[:-1], ErrorCode.CORRUPT_MESSAGE),
        (batch(3) + batch(3), ErrorCode.INVALID_RECORD),
        (stamp(batch(3), 5, 0), ErrorCode.INVALID_RECORD),
        (batch(3)[:16] + b"\x01" + batch(3)[17:], ErrorCode.INVALID_RECORD),
        (batch(3)[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE),
        (_patched(57, b"\x00\x00\x00\x02"), ErrorCode.INVALID_RECORD),
        (_patched(23, b"\x00\x00\x00\x05"), ErrorCode.INVALID_RECORD),
        (_patched(57, bytes(4), _patched(23, bytes(4))), ErrorCode.INVALID_RECORD),
        (_patched(22, b"\x20"), ErrorCode.INVALID_RECORD),
        (_patched(21, b"\x80\x20"), ErrorCode.INVALID_RECORD),
        (_patched(22, b"\x10"), ErrorCode.INVALID_RECORD),
        (_patched(22, b"\x07"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (batch(3, producer_id=1, producer_epoch=0, sequence=-1), ErrorCode.INVALID_RECORD),
        (
            build_batch([Record(WALL_MS, None, b"")], timestamp_type=LOG_APPEND_TIME),
            ErrorCode.INVALID_TIMESTAMP,
        ),
    ],
)
def test_broken_rules_have_their_code(data: bytes, code: ErrorCode) -> None:
    """Goal: each rule of the leader refuses with Kafka's error."""
    assert _code(data) is code


def test_sizes_are_bounded() -> None:
    """Goal: max.message.bytes and segment.bytes have different errors."""
    data = batch(3)
    exact = replace(CONFIG, max_message_bytes=len(data))
    assert _code(data, exact) is ErrorCode.NONE
    assert _code(batch(4), exact) is ErrorCode.MESSAGE_TOO_LARGE
    assert _code(data, replace(CONFIG, segment_bytes=50)) is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_cannot_claim_more_records_than_its_body_has_room_for(codec: Codec) -> None:
    """Goal: one small batch cannot use up two thousand million offsets."""
    honest = build_batch([Record(-1, None, None)] * 500, codec=codec)
    assert _code(honest) is ErrorCode.NONE
    count = 1000 if codec is Codec.NONE else 2**31 - 1
    last_delta = (count - 1).to_bytes(4, "big")
    lying = _patched(57, count.to_bytes(4, "big"), _patched(23, last_delta, honest))
    assert _code(lying) is ErrorCode.INVALID_RECORD


def test_keyless_records_of_a_compacted_topic_are_named() -> None:
    """Goal: the whole batch is refused and the indexes of the refused records are listed."""
    records = [Record(WALL_MS, key, b"v") for key in (b"a", None, b"b", None)]
    for codec in (Codec.NONE, Codec.ZSTD):
        with pytest.raises(InvalidRecords) as caught:
            _check(build_batch(records, codec=codec), COMPACTED)
        assert caught.value.code is ErrorCode.INVALID_RECORD
        assert [error.batch_index for error in caught.value.record_errors] == [1, 3]
        for error in caught.value.record_errors:
            assert (error.message or "").endswith("without key in topic partition t-4")


def test_timestamps_out_of_range_are_named() -> None:
    """Goal: too new always, too old when a limit is set; no timestamp at all is fine."""
    hour_ms = 3_600_000
    records = [Record(WALL_MS + offset, None, b"") for offset in (0, hour_ms, hour_ms + 1)]
    with pytest.raises(InvalidRecords) as caught:
        _check(build_batch(records))
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in caught.value.record_errors] == [2]
    old = build_batch([Record(WALL_MS, None, b""), Record(WALL_MS - 11, None, b"")])
    assert _code(old) is ErrorCode.NONE
    limited = replace(CONFIG, message_timestamp_before_max_ms=10)
    assert _code(old, limited) is ErrorCode.INVALID_TIMESTAMP
    assert _code(build_batch([Record(-1, None, b"")]), limited) is ErrorCode.NONE


def test_log_append_time_topics_ignore_the_clients_times() -> None:
    """Goal: no range applies when the broker sets the time."""
    config = replace(CONFIG, message_timestamp_type="LogAppendTime")
    assert _code(batch(1, WALL_MS * 2), config) is ErrorCode.NONE


def test_topics_with_their_own_codec_recompress() -> None:
    """Goal: compression.type other than `producer` rebuilds batches of another codec, with
    sequences and records kept, and leaves those of its own codec alone."""
    bench = LogBench(LogConfig(compression_type="zstd"))
    data = batch(3, producer_id=5, producer_epoch=1, sequence=0)
    bench.log.append_as_leader(data, 0, WALL_MS)
    stored = read_all(bench.log)
    header = read_header(stored)
    assert header.codec == Codec.ZSTD
    assert (header.producer_id, header.base_sequence) == (5, 0)
    assert decode_batch(stored) == decode_batch(data)
    own = build_batch([Record(WALL_MS, None, b"v")], codec=Codec.ZSTD)
    assert bench.log.append_as_leader(own, 0, WALL_MS).size_bytes == len(own)


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1)])
def test_a_timestamp_beyond_64_bits_is_refused_where_a_batch_is_packed_anew(
    base: int, delta: int
) -> None:
    """Goal: a base that is near an end and a delta: the sum has no place in a header."""
    body = encode_records([Record(base + delta, b"k", b"v")], base)
    data = build_batch([Record(5, b"k", b"v")])
    late = rebuild(read_header(data)._replace(base_timestamp=base), body)
    bench = LogBench(LogConfig(compression_type="zstd"))
    with pytest.raises(InvalidRecords) as caught:
        bench.log.append_as_leader(late, 0, WALL_MS)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert bench.log.log_end_offset == 0


def test_unreadable_bodies_are_refused_where_they_must_be_read() -> None:
    """Goal: in a compacted topic a lying body is INVALID_RECORD; elsewhere the header rules and
    the batch is the reader's problem (the documented deviation)."""
    liar = _patched(61, b"\x7f" * 10)
    compacted = replace(CONFIG, cleanup_policy="compact")
    assert _code(liar, compacted) is ErrorCode.INVALID_RECORD
    assert _code(liar) is ErrorCode.NONE
    gap = batch(2).replace(b"\x02\x02\x04k1", b"\x02\x08\x04k1")
    assert gap != batch(2)
    assert _code(_patched(0, b"", gap), compacted) is ErrorCode.INVALID_RECORD


def _bombs() -> list[bytes]:
    """Few bytes that inflate to many, and to many records."""
    large = build_batch([Record(WALL_MS, b"k", bytes(33 << 20))], codec=Codec.ZSTD)
    many = build_batch([Record(WALL_MS, b"", b"")] * (MAX_INSPECTED_RECORDS + 1), codec=Codec.ZSTD)
    return [large, many]


def test_what_takes_long_to_look_into_is_refused_or_not_looked_into() -> None:
    """Goal: a few KB do not keep a node for seconds, wherever it must open a batch."""
    compacted = replace(CONFIG, cleanup_policy="compact")
    bench = LogBench()
    for number, bomb in enumerate(_bombs()):
        assert len(bomb) < 200_000
        assert _code(bomb, compacted) is ErrorCode.INVALID_RECORD
        assert _code(_patched(35, (WALL_MS * 2).to_bytes(8), bomb)) is ErrorCode.INVALID_RECORD
        assert _code(bomb) is ErrorCode.NONE
        first = bench.log.append_as_leader(bomb, 0, WALL_MS).first_offset
        found = bench.log.offset_for_timestamp(WALL_MS)
        assert found is not None and found.offset == 0, number
        assert first == number


def test_looking_inside_is_paid_for_once_and_also_where_it_fails() -> None:
    """Goal: the price is that of the inflated bytes, for each check and however it ends."""
    price = (1 << 20) // BYTES_READ_PER_WORK + 1
    packed = build_batch([Record(WALL_MS, b"k", bytes(1 << 20))], codec=Codec.ZSTD)
    assert _check(packed) == 0
    assert _check(packed, COMPACTED) == price
    old = replace(COMPACTED, message_timestamp_before_max_ms=1000)
    assert _check(packed, old) == price
    bench = LogBench(replace(COMPACTED, compression_type="gzip"))
    bench.log.append_as_leader(packed, 0, WALL_MS)
    assert bench.log.inspection_work == price
    with pytest.raises(InvalidRecords):
        bench.log.append_as_leader(_bombs()[0], 0, WALL_MS)
    assert bench.log.inspection_work > price + 4000


def test_what_is_judged_before_is_appended_or_refused_as_ever() -> None:
    """Goal: the same batches, the same refusals, and a batch that is packed anew."""
    bench = LogBench(replace(COMPACTED, compression_type="gzip"))
    packed = build_batch([Record(WALL_MS, b"k", bytes(1 << 20))], codec=Codec.ZSTD)
    assert judge(packed, PARTITION, bench.log.config, WALL_MS, AT_ONCE) is None
    judged = judge(packed, PARTITION, bench.log.config, WALL_MS)
    assert judged is not None and judged.header.codec == Codec.GZIP
    assert bench.log.append_as_leader(packed, 0, WALL_MS, judged=judged).last_offset == 0
    assert decode_batch(read_all(bench.log))[0].value == bytes(1 << 20)
    for bad in (build_batch([Record(WALL_MS, None, b"v")]), batch(3)[:-1] + b"\xff"):
        refused = judge(bad, PARTITION, bench.log.config, WALL_MS, AT_ONCE)
        assert refused is not None
        with pytest.raises(ProtocolError) as caught:
            bench.log.append_as_leader(bad, 0, WALL_MS, judged=refused)
        assert caught.value.code is _code(bad, COMPACTED)
    assert bench.log.log_end_offset == 1


def test_the_header_decides_unless_topic_or_times_ask_for_more() -> None:
    """Goal: exactly the batches that a check looks into are said to be looked into."""
    header = read_header(batch(3))
    configs = {
        LogConfig(): False,
        LogConfig(compression_type="uncompressed"): False,
        LogConfig(compression_type="zstd"): True,
        COMPACTED: True,
        LogConfig(message_timestamp_before_max_ms=10): True,
        LogConfig(message_timestamp_type="LogAppendTime"): False,
    }
    for config, looks in configs.items():
        assert looks_inside(header, config, WALL_MS) is looks, config
        seen = judge(batch(3), PARTITION, config, WALL_MS)
        assert seen is not None and bool(seen.work) is looks, config
    assert looks_inside(read_header(batch(1, WALL_MS * 2)), LogConfig(), WALL_MS)


def test_a_lying_body_does_not_hurt_the_log() -> None:
    """Goal: readers, lookups by time and recovery never trip over a body."""
    bench = LogBench()
    bench.append()
    liar = _patched(61, b"\x7f" * 10)
    assert bench.log.append_as_leader(liar, 0, WALL_MS).first_offset == 1
    bench.append(timestamp=WALL_MS + 10)
    found = bench.log.offset_for_timestamp(WALL_MS + 1)
    assert found is not None and found.offset == 1
    before = read_all(bench.log)
    assert read_all(bench.reopen_after_kill()) == before
