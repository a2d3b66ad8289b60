"""Voters that come and go while everything else goes on (KIP-853).

An operator adds and removes voters through any broker, which forwards the request like any other.
He knows the voter set of some running node, so he may be behind. A request without an answer may
still be carried out, later than others: whatever became of it, sets that follow each other differ
in one voter, and a change that was reported as made is made (`OneChangeAtATime`,
`AcknowledgedChange`, in `sim/quorum/membership.py`).
"""

from dataclasses import replace
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.kraft import codec as quorum_codec
from tidelog.kraft.messages import AddVoterRequest
from tidelog.sim.engine.formation import CLUSTER_ID
from tidelog.sim.engine.world import World
from tidelog.sim.quorum.membership import VoterOracle, draw_change
from tidelog.sim.workloads.admin import Admin

CHANGE_TIMEOUT_MS: Final = 3_000


class VoterOperator:
    """One client that changes the voter set, one request at a time."""

    def __init__(self, world: World, admin: Admin, prng: Prng, oracle: VoterOracle) -> None:
        self._world = world
        self._admin = admin
        self._prng = prng
        self._oracle = oracle
        self._waits = False

    def act(self) -> None:
        """Adds or removes a voter, unless the last answer is not there yet."""
        running = [host.node for host in self._world.hosts.values() if host.node is not None]
        if self._waits or not running:
            return
        quorum = self._prng.choice(running).broker.quorum
        seats = self._world.as_voters
        if not quorum.voters.keys() <= seats.keys() or not quorum.voters:
            return
        request = draw_change(self._prng, quorum, seats, cluster_id=CLUSTER_ID)
        if request is None:
            return
        if isinstance(request, AddVoterRequest):
            request = replace(request, timeout_ms=CHANGE_TIMEOUT_MS)
        since = self._oracle.committed_end
        self._waits = True
        self._world.note(f"world voters: {type(request).__name__} {request.voter.node_id}")

        def done(code: ErrorCode | None) -> None:
            self._waits = False
            if code is ErrorCode.NONE:
                self._oracle.check_acknowledged(request, since)

        self._admin.ask(quorum_codec.request_to_entity(request), done)
