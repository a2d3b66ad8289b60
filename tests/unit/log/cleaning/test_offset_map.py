"""The newest offset of each key, and the bound of the memory."""

import tracemalloc

from tidelog.log.cleaning.offset_map import ENTRY_BYTES, OffsetMap


def put(newest: OffsetMap, key: bytes, offset: int) -> None:
    newest.put([(0, 0, 0, key, True)], offset)


def test_keys_of_any_length_are_kept_apart() -> None:
    """Also those that differ at their end, and one that looks like the digest of another."""
    newest = OffsetMap(1 << 20, 0.9)
    keys = [b"", b"k", b"k" * 15, b"k" * 16, b"k" * 17, b"k" * 1000, b"k" * 999 + b"l"]
    for offset, key in enumerate(keys):
        put(newest, key, offset)
    assert [newest.newest(key) for key in keys] == list(range(len(keys)))
    put(newest, b"k", 99)
    assert (newest.newest(b"k"), newest.newest(b"unknown"), len(newest)) == (99, -1, len(keys))


def test_a_batch_that_does_not_fit_waits_for_the_next_round() -> None:
    """But the first one is taken whatever its size, or there would be no progress."""
    newest = OffsetMap(16 * ENTRY_BYTES, 1 / 3)
    assert newest.capacity == 5 and newest.has_room(99)
    for number in range(3):
        put(newest, b"%d" % number, number)
    assert newest.has_room(2) and not newest.has_room(3)


def test_an_entry_takes_no_more_than_it_counts_for() -> None:
    """Just after the table has grown, which is its worst moment."""
    tracemalloc.start()
    newest = OffsetMap(1 << 30, 0.9)
    count = 87_400
    for number in range(count):
        put(newest, b"a key that is long enough %d" % number, (1 << 40) + number)
    used_bytes, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used_bytes < count * ENTRY_BYTES
    assert peak_bytes < count * ENTRY_BYTES * 3 // 2
