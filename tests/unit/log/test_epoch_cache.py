"""The leader epoch cache against the rules of KIP-101."""

import pytest

from tidelog.env.effects import EffectQueue, Replace
from tidelog.env.prng import Prng
from tidelog.log.checkpoint import decode_epochs
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


def test_every_change_is_written_in_order() -> None:
    """Goal: the last Replace effect always equals the cache; method: 300 random operations."""
    effects = EffectQueue()
    cache = LeaderEpochCache("t-0/leader-epoch-checkpoint", effects)
    prng = Prng(8)
    written: Entries = []
    for _ in range(300):
        operation = prng.below(4)
        if operation < 2:
            cache.assign(prng.below(40), prng.below(400))
        elif operation == 2:
            cache.truncate_from_end(prng.below(400))
        else:
            cache.truncate_from_start(prng.below(100))
        cache.check(1_000)
        for effect in effects.take():
            assert isinstance(effect, Replace)
            written = decode_epochs(effect.data)
        assert written == cache.entries
