"""Runs say of records what walking says of them."""

from itertools import chain

import pytest

from tidelog.env.prng import Prng
from tidelog.records.record import Record, encode_records
from tidelog.records.record_runs import find_runs, keys_of, offsets_of, timestamps_of
from tidelog.records.walking import timestamp_delta_of, walk_records

BASE_MS = 1_000


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
