"""Goal: every partition is read, every member has work, and little moves."""

from math import ceil

import pytest

from tidelog.env.prng import Prng
from tidelog.groups.assignors import Wanting
from tidelog.groups.share_assignor import simple
from tidelog.model import TopicId

SEED = 4711
A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)


def wanting(count, *topics, before=None):
    before = before or {}
    return [
        Wanting(f"m{number:02}", None, frozenset(topics), before.get(f"m{number:02}", ()))
        for number in range(count)
    ]


def sharers(given):
    found = {}
    for target in given.values():
        for each in target:
            found[each] = found.get(each, 0) + 1
    return found


@pytest.mark.parametrize("members", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("size", [1, 2, 3, 6, 7])
def test_all_are_read_and_all_read(members, size):
    given = simple(wanting(members, A), {A: frozenset(range(size))})
    shared = sharers(given)
    assert len(shared) == size
    assert set(shared.values()) == {ceil(members / size)}
    loads = {len(target) for target in given.values()}
    assert max(loads) - min(loads) <= 1 and min(loads) > 0


def test_only_initialised_partitions_are_assigned():
    assert simple(wanting(2, A), {}) == {"m00": (), "m01": ()}
    given = simple(wanting(2, A, B), {B: frozenset({3})})
    assert {each for target in given.values() for each in target} == {(B, 3)}


def test_what_a_member_has_it_keeps():
    first = simple(wanting(3, A), {A: frozenset(range(6))})
    assert simple(wanting(3, A, before=first), {A: frozenset(range(6))}) == first
    more = simple(wanting(3, A, before=first), {A: frozenset(range(9))})
    assert all(set(first[each]) <= set(more[each]) for each in first)


def test_random_groups_are_served():
    prng = Prng(SEED)
    given = {}
    for _ in range(200):
        count, size = 1 + prng.below(9), prng.below(9)
        members = [
            member._replace(topics=frozenset((A, B)[: 1 + prng.below(2)]))
            for member in wanting(count, A, before=given)
        ]
        assignable = {A: frozenset(range(size)), B: frozenset(range(prng.below(4)))}
        given = simple(members, assignable)
        wanted = {
            (it, number) for each in members for it in each.topics for number in assignable[it]
        }
        assert set(sharers(given)) == wanted
        for member in members:
            assert {each.topic_id for each in given[member.member_id]} <= member.topics
