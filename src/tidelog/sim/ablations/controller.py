"""Safeguards of the controller, and what it decides without them."""

from typing import Any, Final

from tidelog.controller import brokers, elections, partitions
from tidelog.sim.ablations.safeguard import of_cluster, of_story


def _elect_anybody(
    partition: Any, assigned: Any, isr: Any, elr: Any, rules: Any
) -> tuple[elections.Outcome, int]:
    for replica in assigned:
        if rules.may_lead(replica):
            return elections.Outcome.FROM_ISR, replica
    return elections.Outcome.LEADERLESS, -1


def _treat_as_clean(view: Any, existing: Any, request: Any) -> Any:
    return partitions.decide_broker_left(view, request.broker_id, "restarted")


SAFEGUARDS: Final = (
    of_cluster(
        "elections",
        "elections-from-isr",
        "a leader that lacks committed records",
        (elections, "_elect", _elect_anybody),
    ),
    of_cluster(
        "lossy-restarts",
        "unclean-restarts",
        "an ISR member that lost records with its power",
        (brokers, "_clean_up", _treat_as_clean),
    ),
    of_story(
        "r09",
        "eligibility",
        "a fenced or dying replica in the ISR",
        (partitions, "_ineligible", lambda *_: None),
    ),
    of_story(
        "r45",
        "removal-begins-a-term",
        "a fetch of a former replica that counts for its empty successor",
        (elections, "without", lambda *_: ()),
    ),
)
"""Of elections, registrations and proposals."""
