"""Which share partitions of a group have a state at the share coordinators: what is to be asked,
and what is noted.

    (subscribed) ──> initializing ──(a share coordinator has it)──> initialized ──> deleting
          ^               │
          └── refused ────┘

The group coordinator notes each step before it asks, so that no state is left behind that a group
does not know of. Topics that do not exist any more are dropped wherever they are: share
coordinators forget their states by themselves.

Source: KIP-932; Kafka's ShareGroupStatePartitionMetadata.
"""

from collections.abc import Collection, Iterable, Mapping

from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.share_group import ShareGroup
from tidelog.groups.share_records import ShareStates, States, TopicPartitions
from tidelog.groups.topics import Topics
from tidelog.model import TopicId


def uninitialized(group: ShareGroup, topics: Topics, busy: Collection[TopicId]) -> States:
    """The partitions of subscribed topics that have no state; of the topics in `busy` those that
    are being initialised are left out."""
    states, found = group.known_states, {}
    for name in sorted(group.topics()):
        for topic_id, size in topics.sizes([name]).items():
            known = _partitions(states.initialized, topic_id)
            if topic_id in busy:
                known |= _partitions(states.initializing, topic_id)
            missing = frozenset(range(size)) - known
            if missing:
                found[topic_id] = TopicPartitions(name, missing)
    return found


def initializing(states: ShareStates, asked: States, topics: Topics) -> ShareStates:
    """After these partitions are asked for."""
    begun = dict(states.initializing)
    for topic_id, each in asked.items():
        before = _partitions(states.initializing, topic_id)
        begun[topic_id] = TopicPartitions(each.name, before | each.partitions)
    deleting = {it: name for it, name in states.deleting.items() if it not in asked}
    return ShareStates(
        _existing(begun, topics),
        _existing(states.initialized, topics),
        {it: name for it, name in deleting.items() if topics.name_of(it) is not None},
    )


def initialized(
    states: ShareStates, partitions: Iterable[IdPartition], topics: Topics, *, is_done: bool
) -> ShareStates:
    """After share coordinators have answered about these partitions. Those that are not awaited any
    more do not count: they were to be deleted meanwhile, and that was asked behind this."""
    begun, done = dict(states.initializing), dict(states.initialized)
    for topic_id, numbers in _by_topic(partitions).items():
        known = begun.pop(topic_id, None)
        if known is None:
            continue
        left = known.partitions - numbers
        if left:
            begun[topic_id] = TopicPartitions(known.name, left)
        if is_done and topics.name_of(topic_id) is not None:
            answered = known.partitions & numbers
            done[topic_id] = TopicPartitions(known.name, _partitions(done, topic_id) | answered)
    return ShareStates(begun, done, states.deleting)


def with_states(states: ShareStates, topics: Topics) -> list[IdPartition]:
    """Every partition of an existing topic that may have a state; of topics that are being deleted
    all of them."""
    numbers: dict[TopicId, frozenset[int]] = {}
    for topic_id in (*states.initializing, *states.initialized):
        known = _partitions(states.initializing, topic_id)
        numbers[topic_id] = known | _partitions(states.initialized, topic_id)
    for name in states.deleting.values():
        for topic_id, size in topics.sizes([name]).items():
            if topic_id in states.deleting:
                numbers[topic_id] = frozenset(range(size))
    return [
        IdPartition(topic_id, number)
        for topic_id, known in sorted(numbers.items())
        if topics.name_of(topic_id) is not None
        for number in sorted(known)
    ]


def all_deleting(states: ShareStates) -> ShareStates:
    """When the group is to be deleted."""
    both = {**states.initializing, **states.initialized}
    names = {topic_id: each.name for topic_id, each in both.items()}
    return ShareStates({}, {}, {**states.deleting, **names})


def deleting(states: ShareStates, topics: Collection[TopicId]) -> ShareStates:
    """When the states of these topics are to be deleted, as far as there are some."""
    names = {it: each.name for it, each in states.initialized.items() if it in topics}
    begun = {it: each for it, each in states.initializing.items() if it not in names}
    kept = {it: each for it, each in states.initialized.items() if it not in names}
    return ShareStates(begun, kept, {**states.deleting, **names})


def deleted(states: ShareStates, topics: Collection[TopicId]) -> ShareStates:
    """When the share coordinators have forgotten these topics."""
    left = {it: name for it, name in states.deleting.items() if it not in topics}
    return ShareStates(states.initializing, states.initialized, left)


def named_states(partitions: Iterable[IdPartition], topics: Topics) -> States:
    """These partitions, with the names of their topics; without those of deleted ones."""
    found = {}
    for topic_id, numbers in _by_topic(partitions).items():
        name = topics.name_of(topic_id)
        if name is not None:
            found[topic_id] = TopicPartitions(name, numbers)
    return found


def _partitions(states: Mapping[TopicId, TopicPartitions], topic_id: TopicId) -> frozenset[int]:
    found = states.get(topic_id)
    return frozenset() if found is None else found.partitions


def _existing(states: States, topics: Topics) -> States:
    return {it: each for it, each in states.items() if topics.name_of(it) is not None}


def _by_topic(partitions: Iterable[IdPartition]) -> dict[TopicId, frozenset[int]]:
    found: dict[TopicId, set[int]] = {}
    for topic_id, number in partitions:
        found.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(numbers) for topic_id, numbers in found.items()}
