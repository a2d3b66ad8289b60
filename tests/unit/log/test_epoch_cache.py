"""The leader epoch cache against the rules of KIP-101."""

import pytest

from tidelog.env.effects import EffectQueue, Replace
from tidelog.env.prng import Prng
from tidelog.log.checkpoint import decode_epochs, encode_epochs
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.model import UNDEFINED_EPOCH_END, EpochEndOffset

Entries = list[tuple[int, int]]


def _cache(entries: Entries) -> LeaderEpochCache:
    return LeaderEpochCache("t-0/leader-epoch-checkpoint", EffectQueue(), entries)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, UNDEFINED_EPOCH_END),
        (8, UNDEFINED_EPOCH_END),
        (7, EpochEndOffset(7, 50)),
        (6, EpochEndOffset(4, 30)),
        (4, EpochEndOffset(4, 30)),
        (2, EpochEndOffset(2, 20)),
        (1, EpochEndOffset(1, 10)),
    ],
)
def test_where_epochs_end(asked: int, answer: EpochEndOffset) -> None:
    """Goal: each case of the rule: none, too new, latest, between, known, older than all."""
    assert _cache([(2, 10), (4, 20), (7, 30)]).end_offset_for(asked, 50) == answer


def test_an_empty_cache_knows_nothing() -> None:
    """Goal: no answer is better than a guessed one."""
    assert _cache([]).end_offset_for(3, 50) == UNDEFINED_EPOCH_END


@pytest.mark.parametrize(
    ("assigned", "entries"),
    [
        ((7, 40), [(2, 10), (4, 20), (7, 30)]),
        ((8, 40), [(2, 10), (4, 20), (7, 30), (8, 40)]),
        ((8, 30), [(2, 10), (4, 20), (8, 30)]),
        ((8, 5), [(8, 5)]),
        ((7, 25), [(2, 10), (4, 20), (7, 25)]),
        ((5, 40), [(2, 10), (4, 20), (5, 40)]),
        ((4, 40), [(2, 10), (4, 20)]),
    ],
)
def test_assigning_drops_what_contradicts(assigned: tuple[int, int], entries: Entries) -> None:
    """Goal: later epochs and same or later starts go; the file is written when it changed."""
    cache = _cache([(2, 10), (4, 20), (7, 30)])
    changed = cache.assign(*assigned)
    assert cache.entries == entries
    assert changed == (assigned != (7, 40))
    cache.check(1_000)


def test_truncations() -> None:
    """Goal: from the end by start offset; from the start the covering entry moves up."""
    cache = _cache([(2, 10), (4, 20), (7, 30)])
    assert not cache.truncate_from_end(31)
    assert cache.truncate_from_end(30)
    assert cache.entries == [(2, 10), (4, 20)]
    assert not cache.truncate_from_start(5)
    assert cache.truncate_from_start(15)
    assert cache.entries == [(2, 15), (4, 20)]
    assert cache.truncate_from_start(20)
    assert cache.entries == [(4, 20)]
    assert not cache.truncate_from_start(20)


def test_who_wrote_an_offset() -> None:
    """Goal: the entry that covers it, -1 below all."""
    cache = _cache([(2, 10), (4, 20)])
    assert [cache.epoch_at(offset) for offset in (9, 10, 19, 20, 99)] == [-1, 2, 2, 4, 4]


def test_the_file_has_what_a_start_would_keep() -> None:
    """Goal: the last Replace effect differs from the cache at the log end and above it only, where
    a start trims, and equals it after an append; method: 900 random operations."""
    effects = EffectQueue()
    cache = LeaderEpochCache("t-0/leader-epoch-checkpoint", effects)
    prng = Prng(8)
    written: Entries = []
    end = changes = 0
    for _ in range(900):
        operation, epoch = prng.below(8), cache.latest_epoch + prng.below(3)
        before = cache.entries
        if operation < 4:
            if max(0, epoch) != cache.saved_epoch:
                cache.assign(max(0, epoch), end)
            end += prng.between(1, 9)
        elif operation == 4:
            end = min(end, prng.below(400))
            cache.truncate_from_end(end)
        elif operation == 5:
            cache.truncate_from_start(min(end, prng.below(100)))
        else:
            cache.begin(max(0, epoch), end)
        cache.check(end)
        changes += before != cache.entries
        for effect in effects.take():
            assert isinstance(effect, Replace)
            written = decode_epochs(effect.data)
        assert [entry for entry in written if entry[1] < end] == [
            entry for entry in cache.entries if entry[1] < end
        ]
        if operation < 4:
            assert written == cache.entries and cache.saved_epoch == cache.latest_epoch
    assert changes > 200


def test_a_leadership_without_records_writes_no_file() -> None:
    """Goal: an election of thousands of idle partitions waits for no fsync, its end neither."""
    effects = EffectQueue()
    cache = LeaderEpochCache("t-0/leader-epoch-checkpoint", effects)
    assert cache.begin(3, 0) and not cache.begin(3, 0)
    assert cache.truncate_from_end(0)
    assert cache.begin(5, 0) and len(effects) == 0
    assert not cache.assign(5, 0)
    assert effects.take() == [Replace("t-0/leader-epoch-checkpoint", encode_epochs([(5, 0)]))]


def test_loading_writes_what_the_next_start_would_not_do_again() -> None:
    """Goal: a start of idle logs writes nothing; entries that were missing in the file are saved,
    and a damaged file is made anew."""
    old = [(1, 0), (4, 10)]
    cases: list[tuple[Entries | None, int, int]] = [(old, 20, 0), (old, 10, 0), ([], 20, 1)]
    for saved, end, count in [*cases, (None, 20, 1), ([(1, 0), (2, 5)], 20, 1)]:
        effects = EffectQueue()
        cache = LeaderEpochCache("t-0/leader-epoch-checkpoint", None, old)
        cache.truncate_from_end(end)
        cache.end_loading(effects, saved, end)
        assert len(effects) == count, (saved, end)
        assert (cache.saved_epoch == cache.latest_epoch) == (end == 20)
