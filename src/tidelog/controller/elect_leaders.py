"""Elections that an operator asks for, where nothing about the brokers has changed.

An operator moves leaders back to the preferred replica, which is the first of the list, or gives
up records to have a leader at all (`decide_elect_leaders`). The controller moves leaders back by
itself every `leader.imbalance.check.interval.seconds` (`decide_balance`): after a rolling restart
the last broker to come back would lead nothing for ever. And where a topic allows unclean
elections, a partition without a leader gets one: at once when an operator allows them, and else
at the latest after `unclean.leader.election.interval.ms` (`decide_unclean`).

A preferred election never costs a record: the preferred replica must be in the ISR (or, while the
ISR is empty, in the ELR). If it is not, the leader stays where it is. An unclean election is only
for partitions without a leader, and prefers a clean leader even then. Both change leaders by the
rules of `elections.py`; this module chooses the partitions and the answers.

A request for all partitions names in its answer those only that were to change; who asks for
single partitions receives ELECTION_NOT_NEEDED for each that needed none.

Source: KIP-183, KIP-460; Kafka's replication control.
"""

from dataclasses import replace
from itertools import islice

from tidelog.controller.elections import Election, PartitionTarget
from tidelog.controller.events import Cause, CauseKind
from tidelog.controller.messages import (
    ElectionResult,
    ElectionType,
    ElectLeaders,
    ElectLeadersResult,
    IncrementalAlterConfigs,
    Request,
)
from tidelog.controller.partitions import change_partition, rules_of
from tidelog.controller.slices import Slices, a_slice, in_slices
from tidelog.controller.view import (
    UNCLEAN_LEADER_ELECTION_ENABLE,
    ControllerDecision,
    Place,
    View,
    places_where,
)
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_CHANGES_PER_TURN
from tidelog.metadata.image import PartitionImage
from tidelog.metadata.records import MetadataRecord
from tidelog.model import NO_LEADER, TopicId

_BY_HAND = {
    Election.PREFERRED: (CauseKind.PREFERRED_BY_HAND, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    Election.UNCLEAN: (CauseKind.UNCLEAN_BY_HAND, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
}
"""Why, and the answer when no replica may lead."""


def decide_elect_leaders(view: View, request: ElectLeaders) -> Slices:
    """Decides the election of every partition of the request.

    Raises `ProtocolError(INVALID_REQUEST)` for an unknown election type.
    """
    try:
        election = Election[ElectionType(request.election_type).name]
    except ValueError:
        text = f"Unknown election type {request.election_type}."
        raise ProtocolError(ErrorCode.INVALID_REQUEST, text) from None
    results: list[ElectionResult] = []

    def elect(view: View, key: tuple[str, int]) -> MetadataRecord | None:
        record, code, message = None, ErrorCode.NONE, None
        try:
            record = _elect(view, *key, election)
        except ProtocolError as error:
            code, message = error.code, error.message
        if request.partitions is not None or code is not ErrorCode.ELECTION_NOT_NEEDED:
            results.append(ElectionResult(*key, code, message))
        return record

    _, records, _ = yield from in_slices(view, _wanted(view, request, election), elect)
    return ControllerDecision(ElectLeadersResult(tuple(results)), records, atomic=False)


def _wanted(view: View, request: ElectLeaders, election: Election) -> list[tuple[str, int]]:
    if request.partitions is not None:
        return list(dict.fromkeys(view.named_partitions(request.partitions)))
    places = places_where(view, lambda partition: needs_election(partition, election))
    return [(place.topic.name, place.number) for place in places]


def _elect(view: View, name: str, number: int, election: Election) -> MetadataRecord:
    place = view.place(name, number)
    partition = place.partition
    if not needs_election(partition, election):
        text = "The leader is the one that this election would choose."
        raise ProtocolError(ErrorCode.ELECTION_NOT_NEEDED, text)
    cause, code = _BY_HAND[election]
    record = _change_leader(view, place, election, Cause(cause))
    if record is None:
        text = f"None of the replicas {list(partition.replicas)} may take over."
        if election is Election.PREFERRED:
            text = f"The preferred leader {partition.replicas[0]} is not in sync, or not alive."
        raise ProtocolError(code, text)
    return record


def _change_leader(
    view: View, place: Place, election: Election, cause: Cause
) -> MetadataRecord | None:
    rules = replace(rules_of(view, place.topic, view.is_active), election=election)
    target = PartitionTarget(place.partition.isr, place.partition.recovering)
    return change_partition(view, place, target, rules, cause)


def needs_election(partition: PartitionImage, election: Election) -> bool:
    """Whether an election of this kind by hand has anything to decide."""
    if election is Election.PREFERRED:
        return partition.leader != partition.replicas[0]
    return partition.leader == NO_LEADER


# Without a request -------------------------------------------------------------------------


def decide_balance(view: View, limit: int = MAX_CHANGES_PER_TURN) -> list[MetadataRecord]:
    """Leaders back to their preferred replicas, `limit` of them at most."""
    cause = Cause(CauseKind.PREFERRED_IS_BACK)
    changes = (
        _change_leader(view, place, Election.PREFERRED, cause)
        for place in places_where(view, lambda partition: partition.leader != partition.replicas[0])
        if view.is_active(place.partition.replicas[0])
    )
    return list(islice(filter(None, changes), limit))


def decide_unclean(view: View, cause: Cause) -> Slices:
    """Leaders for all partitions without one whose topic would rather lose records than wait."""
    leaderless = places_where(view, lambda partition: partition.leader == NO_LEADER)
    keys = [
        (place.topic.topic_id, place.number)
        for place in leaderless
        if view.unclean_election_enabled(place.topic.name)
    ]

    def elect(view: View, key: tuple[TopicId, int]) -> MetadataRecord | None:
        place = view.find(*key)
        if place is None or place.partition.leader != NO_LEADER:
            return None
        if not view.unclean_election_enabled(place.topic.name):
            return None
        return _change_leader(view, place, Election.UNCLEAN, cause)

    _, records, _ = yield from in_slices(view, keys, elect)
    return a_slice(records)


def may_allow_unclean(request: Request) -> bool:
    """Whether the request touches the config that allows unclean elections."""
    if not isinstance(request, IncrementalAlterConfigs) or request.validate_only:
        return False
    return any(
        change.name == UNCLEAN_LEADER_ELECTION_ENABLE
        for item in request.resources
        for change in item.changes
    )
