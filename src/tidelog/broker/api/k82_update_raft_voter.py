"""UpdateRaftVoter (82), versions 0: a voter tells where it is and what it knows.

The quorum's leader decides (`kraft/membership.py`). It is
served on controller listeners only, and never forwarded.
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
    return voter_codec.response_to_entity(82, VoterChangeResponse(*refusal(response)), version)
