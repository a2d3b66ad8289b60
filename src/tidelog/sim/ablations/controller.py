"""Safeguards of the controller, and what it decides without them."""

from dataclasses import replace
from typing import Any, Final

from tidelog.controller import brokers, elections, isr_proposals, partitions, slices
from tidelog.controller.events import Cause, CauseKind
from tidelog.sim.ablations.safeguard import Original, guard, guard_of_cluster


def _elect_any_replica(partition: Any, replicas: Any, isr: Any, elr: Any, rules: Any) -> Any:
    """The leader goes on; else the first replica that is alive."""
    if partition.leader >= 0 and rules.may_lead(partition.leader):
        return elections.Outcome.FROM_ISR, partition.leader
    for replica in replicas:
        if rules.may_lead(replica):
            return elections.Outcome.UNCLEAN, replica
    return elections.Outcome.LEADERLESS, -1


def _treat_as_clean(view: Any, existing: Any, request: Any) -> Any:
    cause = Cause(CauseKind.RESTARTED, request.broker_id)
    return partitions.decide_broker_left(view, request.broker_id, cause)


def _elect_last_known(elect: Original, partition: Any, replicas: Any, *rest: Any) -> Any:
    """Alive or not."""
    isr, elr, _ = rest
    outcome, leader = elect(partition, replicas, *rest)
    last_known = partition.last_known_eligible_leaders
    if leader < 0 and not isr and not elr and len(last_known) == 1:
        return elections.Outcome.LAST_KNOWN, last_known[0]
    return outcome, leader


def _lead_from_any_directory(rules_of: Original, *args: Any) -> Any:
    return replace(rules_of(*args), has_directory=lambda *_: True)


SAFEGUARDS: Final = (
    guard("s10", "elections-from-isr", "a leader that lacks committed records").replaced(
        elections, "_elect", _elect_any_replica
    ),
    guard(
        "r11", "unclean-restarts", "an eligible leader that lost records with its power"
    ).replaced(brokers, "_clean_up", _treat_as_clean),
    guard(
        "r13", "restarts-end-terms", "a leader that is another process in the same term"
    ).replaced(brokers, "_clean_up", lambda view, *_: slices.in_slices(view, (), lambda *_: None)),
    guard("r14", "last-known-leader-is-alive", "a fenced leader").wrapped(
        elections, "_elect", _elect_last_known
    ),
    guard("r09", "eligibility", "a fenced or dying replica in the ISR").replaced(
        isr_proposals, "_ineligible", lambda *_: None
    ),
    guard("s12", "proposals-of-the-present-leader", "an ISR without its leader").replaced(
        isr_proposals, "_validate", lambda *_: None
    ),
    guard(
        "r45",
        "removal-begins-a-term",
        "a fetch of a former replica that counts for its empty successor",
    ).replaced(elections, "without", lambda *_: ()),
    guard_of_cluster(
        "several-disks", "directories-are-registered", "a leader whose log is on a disk that died"
    ).wrapped(partitions, "rules_of", _lead_from_any_directory),
)
"""Of elections, registrations and proposals."""
