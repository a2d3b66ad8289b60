"""What a replica asks the leader to change of the voter set for itself.

A voter whose own address or versions differ from the set sends them to the leader
(UpdateRaftVoter). With `controller.quorum.auto.join.enable` a controller that is not a voter asks
to become one, after it had the voter removed that had its id on another disk. It asks again until
the set in its log is as it should be; the leader's answer alone changes nothing.

Source: KIP-853, KIP-1186.
"""

from tidelog.env.instant import NEVER, Instant
from tidelog.errors import ErrorCode
from tidelog.kraft import messages
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import SUBJECT
from tidelog.kraft.roles import Follower


class OwnVoter:
    """Keeps this replica's entry in the voter set up to date."""

    def __init__(self, core: QuorumCore) -> None:
        self._core = core
        # When this replica may ask the leader again.
        self._ask_at: Instant = Instant(0)

    def next_request(self) -> messages.VoterChangeRequest | None:
        """What a follower wants the leader to change, if anything."""
        core = self._core
        identity = core.identity
        role = core.role
        if not core.is_dynamic or not identity.endpoints or not isinstance(role, Follower):
            return None
        if role.is_in_doubt or role.leader_has_resigned:
            return None
        mine = core.own_voter
        known = core.voters.get(core.own_id)
        if core.is_voter:
            if known == mine:
                return None
            return messages.UpdateVoterRequest(identity.cluster_id, core.epoch, mine)
        if not core.config.auto_join_enable:
            return None
        if known is not None:
            return messages.RemoveVoterRequest(identity.cluster_id, core.voter_key(core.own_id))
        return messages.AddVoterRequest(identity.cluster_id, mine, waits_for_commit=False)

    def deadline(self) -> Instant | None:
        """When the next request may be sent; `None` without one."""
        request = self.next_request()
        if request is None:
            return None
        ready_at = self._core.requests.ready_at(self._core.role.leader_id, type(request))
        return None if ready_at == NEVER else max(self._ask_at, ready_at)

    def maybe_send(self, now: Instant) -> None:
        """Asks the leader, at most once in a fetch timeout."""
        due = self.deadline()
        if due is None or due > now:
            return
        request = self.next_request()
        assert request is not None, "a time for no request"
        self._ask_at = Instant(now + self._core.config.fetch_timeout_ms)
        self._core.send(self._core.role.leader_id, request, now)

    def on_voter_change_response(
        self, peer_id: int, response: messages.VoterChangeResponse
    ) -> None:
        """The leader's answer; what counts is the set in the log."""
        if response.error_code is not ErrorCode.NONE:
            self._core.env.trace.info(
                SUBJECT,
                "on_voter_change_response",
                "refused",
                response.message,
                leader=peer_id,
                code=response.error_code.name,
            )
