"""Goal: a shared map answers as a dictionary does, and what was shared stays as it was."""

import pytest

from tidelog.env.prng import Prng
from tidelog.rsm.shared_map import SharedMap


@pytest.mark.parametrize("seed", range(5))
def test_it_is_a_dictionary_that_never_changes(seed):
    prng = Prng(seed)
    shared: SharedMap[int] = SharedMap()
    plain: dict[str, int] = {}
    history = []
    for step in range(200):
        history.append((shared, dict(plain)))
        changes: dict[str, int | None] = {}
        for _ in range(prng.below(8)):
            changes[f"k{prng.below(300)}"] = None if prng.chance(1, 3) else step
        shared = shared.changed(changes)
        for key, value in changes.items():
            if value is None:
                plain.pop(key, None)
            else:
                plain[key] = value
    history.append((shared, plain))
    for earlier, expected in history:
        assert dict(earlier.items()) == expected
        assert len(earlier) == len(expected)
    assert all(shared.get(f"k{number}") == plain.get(f"k{number}") for number in range(300))


def test_nothing_is_copied_where_nothing_changes():
    shared: SharedMap[int] = SharedMap()
    assert shared.changed({}) is shared


def test_a_change_leaves_the_rest_shared():
    """A copy of everything for each commit would cost as much as all groups together."""
    shared = SharedMap[int]().changed({f"k{number}": number for number in range(10_000)})
    after = shared.changed({"k1": -1})
    same = sum(one is other for one, other in zip(shared._pages, after._pages, strict=True))
    assert same == len(shared._pages) - 1
