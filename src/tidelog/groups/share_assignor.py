"""The assignor `simple` for share groups: which members read which partition together.

Members with the same topics are dealt with together, set of topics by set of topics. With M members
and P partitions each partition is shared by M/P members, rounded up, so that every member has
something and the members of a partition can keep up with it; with fewer members than partitions
each partition has one. Members get equal numbers, but for one. What a member has it keeps as far as
that allows.

Source: KIP-932; Kafka's SimpleAssignor for how many share a partition, not for which member gets
what.
"""

from collections.abc import Mapping
from math import ceil

from tidelog.groups.assignors import Wanting
from tidelog.groups.consumer_records import IdPartition, Target
from tidelog.model import TopicId


def simple(
    members: list[Wanting], assignable: Mapping[TopicId, frozenset[int]]
) -> dict[str, Target]:
    """The target of each member; `assignable` has the partitions that may be assigned."""
    alike: dict[frozenset[TopicId], list[Wanting]] = {}
    for member in sorted(members, key=lambda each: each.member_id):
        alike.setdefault(member.topics, []).append(member)
    given: dict[str, Target] = {}
    for topics, group in alike.items():
        partitions = [
            IdPartition(topic_id, number)
            for topic_id in sorted(topics)
            for number in sorted(assignable.get(topic_id, ()))
        ]
        given |= _dealt(group, partitions)
    return given


def _dealt(members: list[Wanting], partitions: list[IdPartition]) -> dict[str, Target]:
    """Members that may all have the same."""
    sharing = ceil(len(members) / len(partitions)) if partitions else 0
    total = sharing * len(partitions)
    # The limits of all members together are the total.
    edges = [-(-total * index // len(members)) for index in range(len(members) + 1)]
    limits = [edges[index + 1] - edges[index] for index in range(len(members))]
    kept: list[set[IdPartition]] = [set() for _ in members]
    sharers: dict[IdPartition, set[int]] = {each: set() for each in partitions}
    for index, member in enumerate(members):
        for each in member.before:
            fits = each in sharers and len(kept[index]) < limits[index]
            if fits and len(sharers[each]) < sharing:
                kept[index].add(each)
                sharers[each].add(index)
    # Those that lack most come first: a partition needs different members.
    for each in sorted(partitions, key=lambda it: len(sharers[it])):
        while len(sharers[each]) < sharing:
            free = [at for at in range(len(members)) if at not in sharers[each]]
            best = max(free, key=lambda at: (limits[at] - len(kept[at]), -at))
            if limits[best] <= len(kept[best]) and sharers[each]:
                break
            kept[best].add(each)
            sharers[each].add(best)
    return {
        member.member_id: tuple(sorted(each)) for member, each in zip(members, kept, strict=True)
    }
