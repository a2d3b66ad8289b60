"""Requests and answers between replicas: what the role sends, and which part handles what.

A role names the peers to which it wants to send its one kind of request (`planned_requests`);
`requests.py` says from when on a peer may be asked. A request, an answer and a failure go to the
part that they concern. Nothing is decided here.
"""

from collections.abc import Hashable

from tidelog.env.instant import NEVER, Instant
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumFetchRequest,
    QuorumFetchResponse,
    RemoveVoterRequest,
    Request,
    Response,
    SupportRequest,
    SupportResponse,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from tidelog.kraft.parts import Parts
from tidelog.kraft.roles import Campaign, Prospective, Resigned


class Exchange:
    """The way between one replica's parts and the other replicas."""

    __slots__ = ("_core", "_parts")

    def __init__(self, core: QuorumCore, parts: Parts) -> None:
        self._core = core
        self._parts = parts

    # What comes in -----------------------------------------------------------------------------

    def on_request(self, request: Request, reply_to: Hashable, now: Instant) -> None:
        """A replica or an operator asks."""
        parts, alive = self._parts, self._core.requests.on_alive
        match request:
            case VoteRequest():
                alive(request.candidate_id)
                parts.voting.on_vote_request(request, reply_to, now)
            case QuorumFetchRequest():
                alive(request.replica_id)
                parts.server.on_fetch(request, reply_to, now)
            case BeginQuorumEpochRequest():
                alive(request.leader_id)
                parts.epochs.on_begin_request(request, reply_to, now)
            case EndQuorumEpochRequest():
                alive(request.leader_id)
                parts.epochs.on_end_request(request, reply_to, now)
            case FetchSnapshotRequest():
                alive(request.replica_id)
                parts.snapshot_server.on_fetch_snapshot(request, reply_to, now)
            case AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest():
                parts.membership.on_voter_change(request, reply_to, now)
            case SupportRequest():
                raise AssertionError("ApiVersions is answered by the node")

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
        parts = self._parts
        match request, response:
            case VoteRequest(), VoteResponse():
                parts.elections.on_vote_response(peer_id, request, response, now)
            case QuorumFetchRequest(), QuorumFetchResponse():
                parts.fetcher.on_fetch_response(peer_id, request, response, now)
            case FetchSnapshotRequest(), FetchSnapshotResponse():
                parts.fetcher.on_snapshot_response(peer_id, request, response, now)
            case BeginQuorumEpochRequest(), BeginQuorumEpochResponse():
                parts.epochs.on_begin_response(peer_id, response, now)
            case EndQuorumEpochRequest(), EndQuorumEpochResponse():
                parts.epochs.on_end_response(peer_id, response, now)
            case SupportRequest(), SupportResponse():
                parts.membership.on_support(request, response, now)
            case (
                AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest(),
                VoterChangeResponse(),
            ):
                parts.own_voter.on_voter_change_response(peer_id, response)
            case _:
                raise AssertionError(f"{response} answers {request}")

    def _on_failure(self, peer_id: int, request: Request, now: Instant) -> None:
        core, parts = self._core, self._parts
        core.requests.on_failed(peer_id, now)
        if isinstance(request, QuorumFetchRequest | FetchSnapshotRequest):
            parts.fetcher.on_failure(peer_id, now)
        elif isinstance(request, BeginQuorumEpochRequest) and isinstance(core.role, Leader):
            core.role.on_begin_failed(peer_id, now)
        elif isinstance(request, VoteRequest):
            parts.elections.count_votes(now)
        elif isinstance(request, SupportRequest):
            parts.membership.on_support(request, None, now)

    # What goes out -----------------------------------------------------------------------------

    def due_requests(self) -> list[tuple[int, Instant]]:
        """(peer, from when on) for each request that the role wants to send."""
        core, parts = self._core, self._parts
        kind = self._request_kind()
        if kind is QuorumFetchRequest and not parts.fetcher.may_fetch:
            return []
        if parts.snapshot_fetcher.is_waiting:
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
                return BeginQuorumEpochRequest
            case Resigned():
                return EndQuorumEpochRequest
            case Campaign():
                return VoteRequest
            case _ if self._parts.snapshot_fetcher.is_downloading:
                return FetchSnapshotRequest
            case _:
                return QuorumFetchRequest

    def _make_request(self, peer_id: int) -> Request:
        core = self._core
        role = core.role
        identity = core.identity
        endpoints = core.voters[core.own_id].endpoints if core.is_voter else identity.endpoints
        match role:
            case Leader():
                peer = core.voter_key(peer_id)
                return BeginQuorumEpochRequest(
                    identity.cluster_id, *peer, core.own_id, role.epoch, endpoints
                )
            case Resigned():
                return EndQuorumEpochRequest(
                    identity.cluster_id, core.own_id, role.epoch, role.successors, endpoints
                )
            case Campaign():
                return VoteRequest(
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
            case _ if self._parts.snapshot_fetcher.is_downloading:
                return self._parts.snapshot_fetcher.make_request()
            case _:
                return self._parts.fetcher.make_request()
