"""Runs say of records what walking says of them."""

from itertools import chain

import pytest

from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch
from tidelog.records.record import Record, encode_records
from tidelog.records.record_runs import (
    Irregular,
    RecordRun,
    key_runs,
    keys_of,
    offsets_of,
    runs_of,
    timestamps_of,
)
from tidelog.records.walking import timestamp_delta_of, walk_records

BASE_MS = 1_000


def find_runs(body: bytes, count: int, most: int) -> list[RecordRun] | None:
    """All runs of a body that consists of them."""
    try:
        return list(runs_of(body, count, most))
    except Irregular:
        return None


def keys_by_runs(body: bytes, count: int, most: int) -> list[tuple[int, bytes | None, bool]] | None:
    """Offset delta, key, and whether there is a value, of each record of a body with runs of
    keys."""
    found: list[tuple[int, bytes | None, bool]] = []
    try:
        for run, held in key_runs(body, count, most):
            keys = keys_of(run, held) if run.has_keys else [None] * len(run.deltas)
            found += ((*one, run.has_values) for one in zip(run.deltas, keys, strict=True))
    except Irregular:
        return None
    return found


def of_several_sizes(prng: Prng, count: int) -> list[Record]:
    """Records whose keys have one length, and their values any up to a bound."""
    longest = prng.choice((3, 50, 200, 20_000))
    without_value = prng.choice((0, 0, 10))
    return [
        Record(
            BASE_MS + number // 10,
            b"%010d" % prng.below(50),
            None if prng.chance(without_value, 1000) else b"v" * prng.below(longest),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_runs_of_keys_are_what_is_walked(seed: int) -> None:
    prng = Prng(seed)
    count = prng.between(1, 600)
    records = of_several_sizes(prng, count) if seed % 4 else drawn(prng)
    body = encode_records(records, BASE_MS)
    found = keys_by_runs(body, len(records), prng.choice((7, 150, 500)))
    # Without runs: lengths of three bytes, say, or of one byte here and of two there.
    assert found in (None, [one[2:] for one in walk_records(body, len(records))])


def test_records_of_several_sizes_have_runs_of_keys() -> None:
    """With gaps as well; the runs of whole records are too short."""
    prng = Prng(1)
    values = [b"v" * prng.between(80, 120) for _ in range(1000)]
    records = [Record(BASE_MS, b"key%05d" % prng.below(99), value) for value in values]
    body = encode_records(records, BASE_MS)
    assert find_runs(body, 1000, 150) is None
    runs = list(key_runs(body, 1000, 150))
    assert len(runs) < 12 and all(isinstance(run.deltas, range) for run, _ in runs)
    even = b"".join(
        body[start:end] for start, end, delta, _, _ in walk_records(body, 1000) if not delta % 2
    )
    assert keys_by_runs(even, 500, 150) == [one[2:] for one in walk_records(even, 500)]


@pytest.mark.parametrize("seed", range(20))
def test_damaged_bodies_have_no_runs_of_keys_but_those_of_walking(seed: int) -> None:
    prng = Prng(seed)
    records = [Record(BASE_MS, b"key", b"v" * prng.between(70, 90)) for number in range(60)]
    whole = encode_records(records, BASE_MS)
    assert keys_by_runs(whole[:-1], 60, 500) is None
    assert keys_by_runs(whole + b"x", 60, 500) is None
    found_some = 0
    for _ in range(200):
        body = bytearray(whole)
        body[prng.below(len(body))] = prng.below(256)
        found = keys_by_runs(bytes(body), 60, prng.choice((13, 500)))
        if found is not None:
            found_some += 1
            assert found == [one[2:] for one in walk_records(bytes(body), 60)]
    assert found_some > 50


@pytest.mark.parametrize("place", [0, 30, 59])
def test_a_record_of_a_negative_length_is_left_to_walking(place: int) -> None:
    """One bit of its varint is its sign; the rest would fit."""
    records = [Record(BASE_MS, b"key", b"v" * (70 + number % 7)) for number in range(60)]
    body = bytearray(encode_records(records, BASE_MS))
    start = [start for start, *_ in walk_records(bytes(body), 60)][place]
    body[start] |= 1
    assert keys_by_runs(bytes(body), 60, 500) is None
    with pytest.raises(CorruptBatch):
        list(walk_records(bytes(body), 60))


def drawn(prng: Prng) -> list[Record]:
    """Pieces of records that are alike, and timestamps of one to six bytes."""
    found: list[Record] = []
    for _ in range(prng.between(1, 4)):
        key_bytes, value_bytes = prng.choice((-1, 0, 5, 70)), prng.choice((-1, 0, 30, 200))
        headers = prng.choice(((), (("h", b"1"),)))
        found += [
            Record(
                BASE_MS + prng.choice((0, -1, number, number, 1 << 40)),
                None if key_bytes < 0 else b"%05d" % number * (key_bytes // 5),
                None if value_bytes < 0 else b"v" * value_bytes,
                headers,
            )
            for number in range(prng.between(1, 300))
        ]
    return found


@pytest.mark.parametrize("seed", range(30))
def test_runs_are_what_is_walked(seed: int) -> None:
    prng = Prng(seed)
    records = drawn(prng)
    body = encode_records(records, BASE_MS)
    walked = list(walk_records(body, len(records)))
    runs = find_runs(body, len(records), prng.choice((7, 500)))
    if runs is None:
        return
    deltas = list(chain.from_iterable(run.deltas for run in runs))
    assert deltas == [delta for _, _, delta, _, _ in walked]
    keys = chain.from_iterable(
        keys_of(run, body) if run.has_keys else [None] * len(run.deltas) for run in runs
    )
    assert list(keys) == [key for _, _, _, key, _ in walked]
    assert [run.has_values for run in runs for _ in run.deltas] == [one[4] for one in walked]
    starts = [at for run in runs for at in range(run.start, run.end, run.size_bytes)]
    assert starts == [start for start, *_ in walked]
    timestamps = [timestamps_of(body, run.start, run.end, run.size_bytes) for run in runs]
    expected = [timestamp_delta_of(body, start) for start in starts]
    assert list(chain.from_iterable(timestamps)) == expected


def test_records_of_one_layout_are_few_runs() -> None:
    """Also where offsets are missing; and those of all sizes are left to walking."""
    alike = [Record(BASE_MS + number, b"key", b"v" * 50) for number in range(1000)]
    body = encode_records(alike, BASE_MS)
    runs = find_runs(body, 1000, 500)
    assert runs is not None and len(runs) <= 5
    assert list(chain.from_iterable(offsets_of(run, 7) for run in runs)) == list(range(7, 1007))
    even = b"".join(
        body[start:end] for start, end, delta, _, _ in walk_records(body, 1000) if not delta % 2
    )
    runs = find_runs(even, 500, 500)
    assert runs is not None
    assert list(chain.from_iterable(offsets_of(run, 7) for run in runs)) == list(range(7, 1007, 2))
    mixed = [Record(BASE_MS, b"key", b"v" * (number % 50)) for number in range(1000)]
    assert find_runs(encode_records(mixed, BASE_MS), 1000, 500) is None


@pytest.mark.parametrize("seed", range(20))
def test_damaged_bodies_have_no_runs_but_those_of_walking(seed: int) -> None:
    """Whatever the bytes: no error, and never beyond the body."""
    prng = Prng(seed)
    records = [Record(BASE_MS + number, b"key", b"v" * 20) for number in range(60)]
    whole = encode_records(records, BASE_MS)
    assert find_runs(whole[:-1], 60, 500) is None
    assert find_runs(whole + b"x", 60, 500) is None
    for _ in range(100):
        body = bytearray(whole)
        body[prng.below(len(body))] = prng.below(256)
        runs = find_runs(bytes(body), 60, 500)
        if runs is not None:
            walked = walk_records(bytes(body), 60)
            assert [run.end for run in runs][-1] == list(walked)[-1][1]
