"""One pass over the records of a batch finds what a leader asks of them."""

import pytest

from tidelog.env.effects import no_rest
from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch
from tidelog.limits import MAX_RECORD_ERRORS
from tidelog.records.batch import HEADER_BYTES, LOG_APPEND_TIME, build_batch, read_header
from tidelog.records.record import Record, decode_record, encode_records
from tidelog.records.survey import STRIDE, Survey, Times, first_record, pass_record, survey_records


def survey(records: list[Record], times: Times | None = None, **more: int) -> Survey:
    """Of a batch of these."""
    data = build_batch(records, **more)
    return survey_records(data[HEADER_BYTES:], read_header(data), times, no_rest)


def test_keys_and_times_are_looked_at() -> None:
    """Goal: records without a key and those out of the range are named; no time is always fine."""
    records = [Record(at, key, b"v") for at, key in ((7, b"k"), (9, None), (-1, b""), (8, None))]
    assert survey(records) == Survey(9, None, [1, 3], [])
    assert survey(records, (8, 8)) == Survey(9, None, [1, 3], [(0, 7), (1, 9)])


def test_the_brokers_time_counts_where_the_batch_has_it() -> None:
    """Goal: with LogAppendTime all records have the time of the header."""
    found = survey([Record(7, b"k", b""), Record(9, b"k", b"")], timestamp_type=LOG_APPEND_TIME)
    assert found.max_timestamp == 9


def test_a_record_at_another_place_is_found() -> None:
    """Goal: inner offsets are 0..n-1, and the first that is none of them is named."""
    data = build_batch([Record(5, b"a", b""), Record(5, b"b", b"")])
    body = data[HEADER_BYTES:].replace(b"\x02\x02b", b"\x08\x02b")
    assert survey_records(body, read_header(data), None, no_rest).misplaced == (1, 4)


def test_the_first_record_of_a_time_is_found() -> None:
    """Goal: by time and offset, without looking at what is behind it."""
    times = (5, 9, 7, 9)
    data = build_batch([Record(at, b"k", b"v") for at in times], base_offset=20)
    header, body = read_header(data), data[HEADER_BYTES:]
    assert first_record(body, header, 5, 0) == (5, 20)
    assert first_record(body, header, 6, 0) == (9, 21)
    assert first_record(body, header, 6, 22) == (7, 22)
    assert first_record(body[:-3], header, 8, 21) == (9, 21)
    assert first_record(body, header, 10, 0) is None
    data = build_batch([Record(5, b"k", b"v")], timestamp_type=LOG_APPEND_TIME, base_offset=3)
    header = read_header(data)
    found = first_record(data[HEADER_BYTES:], header, header.max_timestamp, 0)
    assert found == (header.max_timestamp, 3)


@pytest.mark.parametrize("change", [lambda body: body[:-1], lambda body: body + b"\0"])
def test_a_body_that_does_not_hold_the_records_is_refused(change) -> None:
    """Goal: neither fewer bytes nor more."""
    data = build_batch([Record(5, b"a", b"v"), Record(5, b"b", b"v")])
    with pytest.raises(CorruptBatch):
        survey_records(change(data[HEADER_BYTES:]), read_header(data), None, no_rest)


def test_small_records_are_passed_as_large_ones_are() -> None:
    """Goal: the short way finds what the long one does, in good bytes and in damaged ones."""
    prng = Prng(11)
    for _ in range(20_000):
        key = prng.choice((None, b"", b"k", bytes(70)))
        headers = prng.choice(((), (("h", b"v"),)))
        record = Record(prng.below(300), key, prng.choice((None, b"v")), headers)
        body = bytearray(encode_records([record] * 2, prng.below(300)))
        for _ in range(prng.below(3)):
            body[prng.below(len(body))] = prng.choice((0, 1, 2, 127, 128, 255))
        data = bytes(body[: prng.between(1, len(body))])
        assert outcome(pass_record, data) == outcome(long_way, data), data.hex()


def long_way(data: bytes, position: int) -> tuple[int, int, bool, int]:
    delta, place, key, _, _, end = decode_record(data, position)
    return delta, place, key is not None, end


def outcome(way, data: bytes) -> object:
    """What it returns, or that it refuses."""
    try:
        return way(data, 0)
    except CorruptBatch as error:
        return error.message


def test_faults_are_named_up_to_a_bound() -> None:
    """Goal: what an answer holds does not grow with what it sends."""
    found = survey([Record(5, None, b"")] * (MAX_RECORD_ERRORS + 1), (6, 7))
    assert len(found.keyless) == len(found.untimely) == MAX_RECORD_ERRORS


def test_a_pass_rests_again_and_again() -> None:
    """Goal: a large batch does not keep the interpreter until its end."""
    rests: list[None] = []
    data = build_batch([Record(5, b"k", b"v")] * (10 * STRIDE))
    survey_records(data[HEADER_BYTES:], read_header(data), None, lambda: rests.append(None))
    assert len(rests) == 10
