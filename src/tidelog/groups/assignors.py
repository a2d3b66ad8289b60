"""The server's assignors: which member of a consumer group shall have which partition.

| name | deals out |
| --- | --- |
| `uniform` | as evenly as subscriptions allow, and moves as little as it can |
| `range` | of each topic a run of partitions to each member, the same run of each topic |

`uniform` goes in three steps. What a member has and is still subscribed to it keeps. Partitions
without an owner go to the subscriber that has least, those of topics with few subscribers first.
Then partitions move from the subscriber that has most to the one that has least, until no move of a
partition makes two members more even. Members with equal subscriptions end up with equal numbers,
but for one.

`range` does not look at what was before; members in order, static ones first, so a static member
that comes back gets what it had. Racks are not looked at, as Kafka's do not since 4.0.

Source: KIP-848; Kafka's assignors for which properties hold, not for which member gets what.
"""

from collections.abc import Callable, Mapping
from heapq import heapify, heapreplace
from typing import Final, NamedTuple

from tidelog.groups.consumer_records import IdPartition, Target
from tidelog.limits import MAX_BALANCING_ROUNDS
from tidelog.model import TopicId


class Wanting(NamedTuple):
    """A member, as an assignor sees it."""

    member_id: str
    instance_id: str | None
    topics: frozenset[TopicId]
    """What it is subscribed to; each exists."""
    before: Target
    """Its former target."""


Partitions = Mapping[TopicId, int]
"""How many partitions each topic has."""
Assignor = Callable[[list[Wanting], Partitions], dict[str, Target]]


def uniform(members: list[Wanting], partitions: Partitions) -> dict[str, Target]:
    """Even, and sticky."""
    subscribers = _subscribers(sorted(members, key=lambda each: each.member_id))
    given: dict[str, set[IdPartition]] = {each.member_id: set() for each in members}
    owners: dict[IdPartition, str] = {}
    for member in members:
        for each in member.before:
            exists = each.partition < partitions.get(each.topic_id, 0)
            if exists and each.topic_id in member.topics and each not in owners:
                owners[each] = member.member_id
                given[member.member_id].add(each)
    topics = sorted(
        subscribers,
        key=lambda it: (-partitions[it] / len(subscribers[it]), len(subscribers[it]), it),
    )
    for topic_id in topics:
        _fill(topic_id, partitions[topic_id], subscribers[topic_id], given, owners)
    for _ in range(MAX_BALANCING_ROUNDS):
        moved = [_balance(each, subscribers[each], given) for each in topics]
        if not any(moved):
            break
    return {member_id: tuple(sorted(each)) for member_id, each in given.items()}


def _subscribers(members: list[Wanting]) -> dict[TopicId, list[str]]:
    """The members that are subscribed to each topic, in the order of the members."""
    found: dict[TopicId, list[str]] = {}
    for member in members:
        for topic_id in sorted(member.topics):
            found.setdefault(topic_id, []).append(member.member_id)
    return found


def _fill(
    topic_id: TopicId,
    count: int,
    subscribers: list[str],
    given: dict[str, set[IdPartition]],
    owners: dict[IdPartition, str],
) -> None:
    """Gives each partition without an owner to the subscriber that has least."""
    heap = [(len(given[each]), each) for each in subscribers]
    heapify(heap)
    for number in range(count):
        partition = IdPartition(topic_id, number)
        if partition not in owners:
            load, member_id = heap[0]
            given[member_id].add(partition)
            heapreplace(heap, (load + 1, member_id))


def _balance(topic_id: TopicId, subscribers: list[str], given: dict[str, set[IdPartition]]) -> bool:
    """Moves partitions of one topic from those that have much to those that have little; whether
    any moved."""
    spare = {
        each: sorted(it for it in given[each] if it.topic_id == topic_id) for each in subscribers
    }
    moved = False
    while True:
        donors = [each for each in subscribers if spare[each]]
        if not donors:
            return moved
        most = max(donors, key=lambda each: len(given[each]))
        least = min(subscribers, key=lambda each: len(given[each]))
        if len(given[most]) - len(given[least]) <= 1:
            return moved
        partition = spare[most].pop()
        given[most].remove(partition)
        given[least].add(partition)
        moved = True


def range_(members: list[Wanting], partitions: Partitions) -> dict[str, Target]:
    """Runs of partitions."""

    def rank(member: Wanting) -> tuple[bool, str]:
        return member.instance_id is None, member.instance_id or member.member_id

    given: dict[str, list[IdPartition]] = {each.member_id: [] for each in members}
    for topic_id, subscribers in _subscribers(sorted(members, key=rank)).items():
        least, extra = divmod(partitions[topic_id], len(subscribers))
        start = 0
        for index, member_id in enumerate(subscribers):
            end = start + least + (index < extra)
            given[member_id] += [IdPartition(topic_id, number) for number in range(start, end)]
            start = end
    return {member_id: tuple(sorted(each)) for member_id, each in given.items()}


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform, "range": range_}
