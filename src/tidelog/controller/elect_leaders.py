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
from tidelog.controller.view import (
    UNCLEAN_LEADER_ELECTION_ENABLE,
    ControllerDecision,
    Place,
    View,
    places_where,
)
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_ELECTIONS_PER_ROUND
from tidelog.metadata.image import PartitionImage
from tidelog.metadata.records import MetadataRecord
from tidelog.model import NO_LEADER

_BY_HAND = {
    Election.PREFERRED: (CauseKind.PREFERRED_BY_HAND, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    Election.UNCLEAN: (CauseKind.UNCLEAN_BY_HAND, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
}
"""Why, and the answer when no replica may lead."""


def decide_elect_leaders(view: View, request: ElectLeaders) -> ControllerDecision:
    """Decides the election of every partition of the request.

    Raises `ProtocolError(INVALID_REQUEST)` for an unknown election type.
    """
    try:
        election = Election[ElectionType(request.election_type).name]
    except ValueError:
        text = f"Unknown election type {request.election_type}."
        raise ProtocolError(ErrorCode.INVALID_REQUEST, text) from None
    records: list[MetadataRecord] = []
    results: list[ElectionResult] = []
    for name, number in dict.fromkeys(view.named_partitions(request.partitions)):
        try:
            records.append(_elect(view, name, number, election))
            results.append(ElectionResult(name, number, ErrorCode.NONE))
        except ProtocolError as error:
            if request.partitions is None and error.code is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            results.append(ElectionResult(name, number, error.code, error.message))
    return ControllerDecision(ElectLeadersResult(tuple(results)), records, atomic=False)


def _elect(view: View, name: str, number: int, election: Election) -> MetadataRecord:
    place = view.place(name, number)
    partition = place.partition
    if not _needs_election(partition, election):
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
    rules = replace(rules_of(view, place.topic, view.image.is_active), election=election)
    target = PartitionTarget(place.partition.isr, place.partition.recovering)
    return change_partition(view, place, target, rules, cause)


def _needs_election(partition: PartitionImage, election: Election) -> bool:
    if election is Election.PREFERRED:
        return partition.leader != partition.replicas[0]
    return partition.leader == NO_LEADER


# Without a request -------------------------------------------------------------------------


def decide_balance(view: View, limit: int = MAX_ELECTIONS_PER_ROUND) -> list[MetadataRecord]:
    """Leaders back to their preferred replicas, `limit` of them at most."""
    cause = Cause(CauseKind.PREFERRED_IS_BACK)
    changes = (
        _change_leader(view, place, Election.PREFERRED, cause)
        for place in places_where(view, lambda partition: partition.leader != partition.replicas[0])
        if view.image.is_active(place.partition.replicas[0])
    )
    return list(islice(filter(None, changes), limit))


def decide_unclean(view: View, cause: Cause) -> list[MetadataRecord]:
    """Leaders for all partitions without one whose topic would rather lose records than wait."""
    changes = (
        _change_leader(view, place, Election.UNCLEAN, cause)
        for place in places_where(view, lambda partition: partition.leader == NO_LEADER)
        if view.unclean_election_enabled(place.topic.name)
    )
    return list(filter(None, changes))


def may_allow_unclean(request: Request) -> bool:
    """Whether the request touches the config that allows unclean elections."""
    if not isinstance(request, IncrementalAlterConfigs) or request.validate_only:
        return False
    return any(
        change.name == UNCLEAN_LEADER_ELECTION_ENABLE
        for item in request.resources
        for change in item.changes
    )
