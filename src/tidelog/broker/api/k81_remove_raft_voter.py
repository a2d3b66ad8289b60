"""RemoveRaftVoter (81), versions 0: a voter is one no more.

The quorum's leader decides (`kraft/membership.py`). Brokers
forward it like any other request that changes the cluster.
"""

from typing import TYPE_CHECKING

from tidelog.broker.api.refusals import refusal
from tidelog.controller.messages import Response
from tidelog.kraft import voter_codec
from tidelog.kraft.messages import VoterChangeResponse
from tidelog.wire.entities import Entity

if TYPE_CHECKING:
    from tidelog.broker.context import Broker


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply when no leader could be asked."""
    return voter_codec.response_to_entity(81, VoterChangeResponse(*refusal(response)), version)
