"""The assignors: total, disjoint, only what members want, even, and sticky."""

from collections import Counter

import pytest

from tidelog.env.prng import Prng
from tidelog.groups.assignors import ASSIGNORS, Wanting, range_, uniform
from tidelog.groups.consumer_records import IdPartition
from tidelog.model import TopicId

A, B, C = (TopicId(bytes([number]) * 16) for number in range(1, 4))


def wanting(name, *topics, before=(), instance=None):
    return Wanting(name, instance, frozenset(topics), tuple(before))


def again(members, targets):
    return [each._replace(before=targets[each.member_id]) for each in members]


def sizes(targets):
    return {member_id: len(each) for member_id, each in targets.items()}


def moved(before, after):
    return sum(len(set(after.get(each, ())) - set(before[each])) for each in before)


def some(seed):
    """Members with subscriptions of their own, and former targets that need not fit any more."""
    prng = Prng(seed)
    topics = [TopicId(bytes([number]) * 16) for number in range(1, 2 + prng.below(5))]
    partitions = {each: 1 + prng.below(9) for each in topics}
    free = [IdPartition(each, number) for each in topics for number in range(12)]
    prng.shuffle(free)
    members = []
    for number in range(1 + prng.below(7)):
        wanted = [each for each in topics if prng.chance(2, 3)]
        before = [free.pop() for _ in range(prng.below(6)) if free]
        instance = f"i{number}" if prng.chance(1, 3) else None
        members.append(wanting(f"m{number}", *wanted, before=sorted(before), instance=instance))
    wanted = {each for member in members for each in member.topics}
    return members, {each: count for each, count in partitions.items() if each in wanted}


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("seed", range(60))
def test_every_partition_goes_to_one_member_that_wants_it(name, seed):
    members, partitions = some(seed)
    targets = ASSIGNORS[name](members, partitions)
    given = Counter(each for target in targets.values() for each in target)
    every = {IdPartition(each, number) for each in partitions for number in range(partitions[each])}
    assert set(given) == every and set(given.values()) <= {1}
    for member in members:
        assert {each.topic_id for each in targets[member.member_id]} <= member.topics
        assert list(targets[member.member_id]) == sorted(targets[member.member_id])


@pytest.mark.parametrize("seed", range(60))
def test_uniform_leaves_no_partition_to_move(seed):
    """No member has two more than one that could have one of its partitions."""
    members, partitions = some(seed)
    targets = uniform(members, partitions)
    wants = {each.member_id: each.topics for each in members}
    for donor, target in targets.items():
        for topic_id in {each.topic_id for each in target}:
            for taker, topics in wants.items():
                assert topic_id not in topics or len(target) - len(targets[taker]) <= 1, donor


@pytest.mark.parametrize("seed", range(20))
def test_uniform_changes_nothing_that_is_even(seed):
    members, partitions = some(seed)
    targets = uniform(members, partitions)
    assert uniform(again(members, targets), partitions) == targets


def test_uniform_moves_as_little_as_it_can():
    members = [wanting(each, A, B) for each in "abc"]
    partitions = {A: 6, B: 6}
    first = uniform(members, partitions)
    assert set(sizes(first).values()) == {4}
    more = uniform([*again(members, first), wanting("d", A, B)], partitions)
    assert set(sizes(more).values()) == {3} and moved(first, more) == 0
    less = uniform(again(members, first)[:2], partitions)
    assert sizes(less) == {"a": 6, "b": 6} and moved(first, less) == 4


def test_uniform_looks_at_all_topics():
    members = [wanting("a", A), wanting("b", A, B), wanting("c", A, B)]
    targets = uniform(members, {A: 4, B: 2})
    assert sizes(targets) == {"a": 2, "b": 2, "c": 2}


def test_range_gives_the_same_runs_of_each_topic():
    members = [wanting("c", A, B), wanting("b", A, B), wanting("z", A, B, instance="1")]
    targets = range_(members, {A: 7, B: 7})
    runs = {
        member_id: [each.partition for each in target if each.topic_id == A]
        for member_id, target in targets.items()
    }
    assert runs == {"z": [0, 1, 2], "b": [3, 4], "c": [5, 6]}
    for target in targets.values():
        by_topic = [[it.partition for it in target if it.topic_id == each] for each in (A, B)]
        assert by_topic[0] == by_topic[1]


def test_range_deals_out_a_topic_among_those_that_want_it():
    targets = range_([wanting("a", A), wanting("b", A, B), wanting("c", B, C)], {A: 2, B: 2, C: 1})
    assert sizes(targets) == {"a": 1, "b": 2, "c": 2}
