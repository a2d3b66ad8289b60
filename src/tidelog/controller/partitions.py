"""ISR, ELR and leader of existing partitions, when brokers come and go.

A broker that leaves or returns touches every partition with it in the ISR, or every partition
without a leader (`decide_broker_left`, `decide_leaderless`): these give records for `brokers.py` to
put beside the broker's own record, in slices (`slices.py`). `change_partition` is the one way to a
partition's change record; its caller chooses the target of the partition and the rules of the
election (`elections.py`). What leaders propose is in `isr_proposals.py`.

Invariants: those of `elections.py`.

Source: KIP-841, KIP-903, KIP-966; Kafka's replication control.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from itertools import chain

from tidelog.controller.assignments import without
from tidelog.controller.elections import (
    Election,
    ElectionRules,
    PartitionChange,
    PartitionTarget,
    decide_change,
)
from tidelog.controller.events import Cause
from tidelog.controller.partition_events import trace_change
from tidelog.controller.records import partition_change_record
from tidelog.controller.slices import Rest, Steps, in_slices
from tidelog.controller.view import Place, View, places_where
from tidelog.metadata.image import PartitionImage, TopicImage
from tidelog.metadata.records import MetadataRecord, PartitionChangeRecord
from tidelog.model import NO_LEADER, TopicId, Uuid


def decide_broker_left(
    view: View,
    broker_id: int,
    cause: Cause,
    *,
    uncleanly: bool = False,
    directories: Container[Uuid] | None = None,
) -> Steps[Rest]:
    """The broker leads nothing any more and leaves every ISR, except where it is the last member
    and ELRs are off. One that left uncleanly may have lost its last records: it leaves every ELR
    too. What it led is led again first, because that stands still altogether; topics with few
    partitions before those with many, which would keep all others waiting. With `directories` only
    the replicas in these leave."""

    def is_held(partition: PartitionImage) -> bool:
        if directories is not None and partition.directory_of(broker_id) not in directories:
            return False
        return broker_id in partition.isr or (uncleanly and broker_id in partition.eligible_leaders)

    led, others = _Chosen(), _Chosen()
    for topic in sorted(view.image.topics_by_id.values(), key=lambda each: len(each.partitions)):
        for number, partition in topic.partitions.items():
            if is_held(partition):
                (led if partition.leader == broker_id else others).add(topic.topic_id, number)
    unclean = (broker_id,) if uncleanly else ()
    keys = chain(led.keys(), others.keys())
    return _change_all(view, keys, cause, leaving=broker_id, unclean=unclean)


def decide_leaderless(view: View, cause: Cause) -> Steps[Rest]:
    """Leaders for partitions that could have one: a broker is alive again, or a predecessor may
    have failed between unfencing a broker and the elections that follow."""
    chosen = _Chosen()
    for place in places_where(view, lambda partition: partition.leader == NO_LEADER):
        chosen.add(place.topic.topic_id, place.number)
    return _change_all(view, chosen.keys(), cause)


class _Chosen:
    """Partitions that a long decision looks at, as two lists of what is there anyway: with an
    object for each of ten thousand, Python's collector takes longer than their choice."""

    def __init__(self) -> None:
        self._topic_ids: list[TopicId] = []
        self._numbers: list[int] = []

    def add(self, topic_id: TopicId, number: int) -> None:
        """One more, behind the others."""
        self._topic_ids.append(topic_id)
        self._numbers.append(number)

    def keys(self) -> Iterator[tuple[TopicId, int]]:
        """All of them."""
        return zip(self._topic_ids, self._numbers, strict=True)


def _change_all(
    view: View,
    keys: Iterable[tuple[TopicId, int]],
    cause: Cause,
    *,
    leaving: int = NO_LEADER,
    unclean: tuple[int, ...] = (),
) -> Steps[Rest]:
    rules = _RulesOfTopic(leaving)

    def change(view: View, key: tuple[TopicId, int]) -> MetadataRecord | None:
        place = view.find(*key)
        if place is None:
            return None
        isr = without(place.partition.isr, (leaving,))
        target = PartitionTarget(isr, place.partition.recovering, unclean)
        return change_partition(view, place, target, rules.of(view, place.topic), cause)

    return in_slices(view, keys, change)


class _RulesOfTopic:
    """The rules for one topic after the other, looked up once for each topic of a slice."""

    def __init__(self, leaving: int) -> None:
        self._leaving = leaving
        # The view and topic that were last asked for, and their rules.
        self._last: tuple[View, TopicImage, ElectionRules] | None = None

    def of(self, view: View, topic: TopicImage) -> ElectionRules:
        """The rules; the broker that is leaving may not lead."""
        if self._last is None or self._last[0] is not view or self._last[1] is not topic:
            leaving = self._leaving
            rules = rules_of(
                view, topic, lambda replica: replica != leaving and view.is_active(replica)
            )
            self._last = view, topic, rules
        return self._last[2]


def rules_of(view: View, topic: TopicImage, may_lead: Callable[[int], bool]) -> ElectionRules:
    """The rules for a topic's partitions, unless a special election was asked for."""
    unclean = view.unclean_election_enabled(topic.name)
    return ElectionRules(
        may_lead=may_lead,
        min_isr=view.min_isr(topic.name),
        elr_enabled=view.image.elr_enabled,
        has_directory=view.image.has_directory,
        election=Election.UNCLEAN if unclean else Election.ONLINE,
    )


def change_partition(
    view: View, place: Place, target: PartitionTarget, rules: ElectionRules, cause: Cause
) -> PartitionChangeRecord | None:
    """The record that brings a partition to its target, traced; `None` when nothing changes."""
    change = decide_change(place.partition, target, rules)
    if change.empty:
        return None
    record = record_of(view, place, change)
    trace_change(view, place, change, record, cause)
    return record


def record_of(view: View, place: Place, change: PartitionChange) -> PartitionChangeRecord:
    """The record of a change, with the directories of new replicas."""
    directories = None
    if change.assignment is not None:
        partition = place.partition
        known = dict(zip(partition.replicas, partition.directories, strict=False))
        directories = tuple(
            known.get(replica) or view.directory_of(replica)
            for replica in change.assignment.replicas
        )
    return partition_change_record(place.topic.topic_id, place.number, change, directories)
