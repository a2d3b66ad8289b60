"""The parts of one replica, and the way between them and the other replicas.

Every part decides one concern around the core. Some have a state of their own and are made here,
each with the parts that it uses; the others are functions: `transitions.py`, `voting.py`,
`epochs.py`, `elections.py`.

A role names the peers to which it wants to send its one kind of request (`planned_requests`);
`requests.py` says from when on a peer may be asked. A request, an answer and a failure go to the
part that they concern. Nothing is decided here.
"""

from collections.abc import Hashable

from tidelog.env.instant import NEVER, Instant
from tidelog.kraft import elections, epochs, messages, voting
from tidelog.kraft.committed import CommittedReader
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.fetch_server import FetchServer
from tidelog.kraft.fetcher import Fetcher
from tidelog.kraft.leader import Leader
from tidelog.kraft.log_cleaning import LogCleaner
from tidelog.kraft.membership import Membership
from tidelog.kraft.messages import Request, Response
from tidelog.kraft.own_voter import OwnVoter
from tidelog.kraft.roles import Campaign, Prospective, Resigned
from tidelog.kraft.snapshot_fetcher import SnapshotFetcher
from tidelog.kraft.snapshot_server import SnapshotServer


class Exchange:
    """All parts of one replica that have a state, and what goes between them and the others."""

    def __init__(self, core: QuorumCore) -> None:
        self._core = core
        # How far the committed log was handed out.
        self.reader = CommittedReader(core.log)
        # Snapshots and segments that are kept no longer.
        self.cleaner = LogCleaner(core)
        # The leader's side of replication and of FetchSnapshot.
        self.server = FetchServer(core)
        self.snapshot_server = SnapshotServer(core, self.cleaner)
        # The follower's side of both.
        self.snapshot_fetcher = SnapshotFetcher(core, self.reader, self.cleaner)
        self.fetcher = Fetcher(core, self.snapshot_fetcher, self.reader)
        # The leader's side of changes of the voter set.
        self.membership = Membership(core)
        # What this replica asks of the voter set for itself.
        self.own_voter = OwnVoter(core)

    # What comes in -----------------------------------------------------------------------------

    def on_request(self, request: Request, reply_to: Hashable, now: Instant) -> None:
        """A replica or an operator asks."""
        core, alive = self._core, self._core.requests.on_alive
        match request:
            case messages.VoteRequest():
                alive(request.candidate_id)
                voting.on_vote_request(core, request, reply_to, now)
            case messages.QuorumFetchRequest():
                alive(request.replica_id)
                self.server.on_fetch(request, reply_to, now)
            case messages.BeginQuorumEpochRequest():
                alive(request.leader_id)
                epochs.on_begin_request(core, request, reply_to, now)
            case messages.EndQuorumEpochRequest():
                alive(request.leader_id)
                epochs.on_end_request(core, request, reply_to, now)
            case messages.FetchSnapshotRequest():
                alive(request.replica_id)
                self.snapshot_server.on_fetch_snapshot(request, reply_to, now)
            case messages.SupportRequest():
                raise AssertionError("ApiVersions is answered by the node")
            case _:
                self.membership.on_voter_change(request, reply_to, now)

    def on_response(
        self, peer_id: int, request: Request, response: Response | None, now: Instant
    ) -> None:
        """A request of this replica was answered, or failed (`None`)."""
        requests = self._core.requests
        if response is not None:
            requests.on_alive(peer_id)
        if not requests.on_answered(peer_id, request):
            return
        if response is None:
            self._on_failure(peer_id, request, now)
        else:
            self._on_answer(peer_id, request, response, now)

    def fail_overdue(self, now: Instant) -> None:
        """Gives up the requests that were not answered in time."""
        for peer_id, request in self._core.requests.take_overdue(now):
            self._on_failure(peer_id, request, now)

    def _on_answer(self, peer_id: int, request: Request, response: Response, now: Instant) -> None:
        core = self._core
        match request, response:
            case messages.VoteRequest(), messages.VoteResponse():
                elections.on_vote_response(core, peer_id, request, response, now)
            case messages.QuorumFetchRequest(), messages.QuorumFetchResponse():
                self.fetcher.on_fetch_response(peer_id, request, response, now)
            case messages.FetchSnapshotRequest(), messages.FetchSnapshotResponse():
                self.fetcher.on_snapshot_response(peer_id, request, response, now)
            case messages.BeginQuorumEpochRequest(), messages.BeginQuorumEpochResponse():
                epochs.on_begin_response(core, peer_id, response, now)
            case messages.EndQuorumEpochRequest(), messages.EndQuorumEpochResponse():
                epochs.on_end_response(core, peer_id, response, now)
            case messages.SupportRequest(), messages.SupportResponse():
                self.membership.on_support(request, response, now)
            case _, messages.VoterChangeResponse():
                self.own_voter.on_voter_change_response(peer_id, response)
            case _:
                raise AssertionError(f"{response} answers {request}")

    def _on_failure(self, peer_id: int, request: Request, now: Instant) -> None:
        core = self._core
        core.requests.on_failed(peer_id, now)
        if isinstance(request, messages.QuorumFetchRequest | messages.FetchSnapshotRequest):
            self.fetcher.on_failure(peer_id, now)
        elif isinstance(request, messages.BeginQuorumEpochRequest) and isinstance(
            core.role, Leader
        ):
            core.role.on_begin_failed(peer_id, now)
        elif isinstance(request, messages.VoteRequest):
            elections.count_votes(core, now)
        elif isinstance(request, messages.SupportRequest):
            self.membership.on_support(request, None, now)

    # What goes out -----------------------------------------------------------------------------

    def due_requests(self) -> list[tuple[int, Instant]]:
        """(peer, from when on) for each request that the role wants to send."""
        core = self._core
        kind = self._request_kind()
        if kind is messages.QuorumFetchRequest and not self.fetcher.may_fetch:
            return []
        if self.snapshot_fetcher.is_waiting:
            return []
        due = []
        for peer_id, planned_at in core.role.planned_requests():
            when = max(planned_at, core.requests.ready_at(peer_id, kind))
            if when < NEVER:
                due.append((peer_id, when))
        return due

    def send_due(self, now: Instant) -> None:
        """Sends what the role wants to send by now."""
        core = self._core
        for peer_id, when in self.due_requests():
            if when <= now:
                core.send(peer_id, self._make_request(peer_id), now)
                if isinstance(core.role, Leader):
                    core.role.on_begin_sent(peer_id, now)

    def _request_kind(self) -> type[Request]:
        match self._core.role:
            case Leader():
                return messages.BeginQuorumEpochRequest
            case Resigned():
                return messages.EndQuorumEpochRequest
            case Campaign():
                return messages.VoteRequest
            case _ if self.snapshot_fetcher.is_downloading:
                return messages.FetchSnapshotRequest
            case _:
                return messages.QuorumFetchRequest

    def _make_request(self, peer_id: int) -> Request:
        core = self._core
        role = core.role
        identity = core.identity
        endpoints = core.voters[core.own_id].endpoints if core.is_voter else identity.endpoints
        match role:
            case Leader():
                peer = core.voter_key(peer_id)
                return messages.BeginQuorumEpochRequest(
                    identity.cluster_id, *peer, core.own_id, role.epoch, endpoints
                )
            case Resigned():
                return messages.EndQuorumEpochRequest(
                    identity.cluster_id, core.own_id, role.epoch, role.successors, endpoints
                )
            case Campaign():
                return messages.VoteRequest(
                    cluster_id=identity.cluster_id,
                    voter_id=peer_id,
                    voter_directory_id=core.voter_key(peer_id).directory_id,
                    candidate_id=core.own_id,
                    candidate_directory_id=identity.directory_id,
                    epoch=role.epoch,
                    last_epoch=core.last_epoch,
                    last_offset=core.log.log_end_offset,
                    pre_vote=isinstance(role, Prospective),
                )
            case _ if self.snapshot_fetcher.is_downloading:
                return self.snapshot_fetcher.make_request()
            case _:
                return self.fetcher.make_request()
