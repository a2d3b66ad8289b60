"""Changes of the voter set, as the leader carries them out.

One change at a time (*OneChangeAtATime*). A change begins only when

1. no other is under way, here or in the log (the newest set is committed),
2. the leader's own epoch is committed, so that no change of an earlier leader can still win,
3. the quorum runs with `kraft.version` 1.

Every refusal is decided over the leader's state, in Kafka's order: another cluster, another leader,
a malformed voter, a busy leader (REQUEST_TIMED_OUT: ask again), static voters
(UNSUPPORTED_VERSION, but for an update), a voter that is there already or is not there, a replica
that is not reached, does not fit, or lags.

Adding. The newcomer has fetched as an observer and is caught up; it is asked at its own address
which versions it supports, which also shows that the address is right. Then the new set is
appended and counts at once; the client is answered when it is committed, by a majority of the *new*
set. Removing and updating are the same without the question. A leader that was removed goes on
until that is committed, then it resigns.

A change under way ends with the leadership: its client receives NOT_LEADER_OR_FOLLOWER, and must
find the leader and look what became of the change.

A configured voter that reports its addresses is answered NONE and nothing changes: an Apache Kafka
voter reports them at each start, and tries again after a refusal.

From configured voters to voters in the log (`kraft.version` 0 to 1, UpdateFeatures): the leader
appends the version and the set in one batch. It knows the voters' directories from their fetches of
this epoch, and does not begin before all of them have fetched; then each counts as the disk that
has acknowledged records. Ids stay the same, so majorities do. A voter that has other addresses than
the configured ones reports them then (`own_voter.py`). There is no way back.

Source: KIP-853; Kafka's AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tidelog.env.instant import NEVER, Instant
from tidelog.errors import ErrorCode
from tidelog.kraft import epochs
from tidelog.kraft.control_records import append_control
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import RoleReason, VoterChangeEnded, VoterChangeRefused
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    ReplicaKey,
    SupportRequest,
    SupportResponse,
    UpdateVoterRequest,
    Voter,
    VoterChangeRequest,
    VoterChangeResponse,
)
from tidelog.kraft.snapshot_format import ControlEntry
from tidelog.kraft.voters import (
    DYNAMIC_VOTERS,
    KRAFT_VERSION,
    by_id,
    encode_voters,
    is_voter,
    voter_records,
)
from tidelog.model import ZERO_UUID
from tidelog.records.control import ControlType

MAX_TIMEOUT_MS: Final = 60_000
"""The longest wait of a client, whatever it asks for."""


@dataclass(frozen=True, slots=True)
class _CheckingSupport:
    """The newcomer is asked what it supports."""

    request: AddVoterRequest | UpdateVoterRequest
    reply_to: object
    deadline: Instant
    question: SupportRequest


@dataclass(frozen=True, slots=True)
class _Committing:
    """The new set is in the log."""

    offset: int
    reply_to: object | None
    """`None` when the client was answered already."""
    deadline: Instant


class Membership:
    """The change of the voter set that is under way on the leader."""

    def __init__(self, core: QuorumCore) -> None:
        self._core = core
        # The change under way; `None` unless this replica leads.
        self._change: _CheckingSupport | _Committing | None = None

    @property
    def is_changing(self) -> bool:
        """Whether a change is under way."""
        return self._change is not None

    def on_voter_change(self, request: VoterChangeRequest, reply_to: object, now: Instant) -> None:
        """Begins a change, or refuses it."""
        core = self._core
        error, message = _decide_request(core, request, is_changing=self.is_changing)
        if error is not ErrorCode.NONE:
            core.env.trace.event(
                VoterChangeRefused(
                    reason=message,
                    code=error.name,
                    asked=type(request).__name__,
                    voter=request.voter.node_id,
                )
            )
            self._reply(reply_to, error, message)
            return
        deadline = Instant(now + min(self._timeout_ms(request), MAX_TIMEOUT_MS))
        if isinstance(request, RemoveVoterRequest):
            left = {k: v for k, v in core.voters.items() if k != request.voter.node_id}
            self._append(left, reply_to, deadline, now)
            return
        voter = request.voter
        if not core.is_dynamic:
            self._reply(reply_to, ErrorCode.NONE)
            return
        if voter.node_id == core.own_id:
            self._append({**core.voters, voter.node_id: voter}, None, deadline, now)
            self._reply(reply_to, ErrorCode.NONE)
            return
        question = SupportRequest(ReplicaKey(voter.node_id, voter.directory_id))
        self._change = _CheckingSupport(request, reply_to, deadline, question)
        core.send(voter.node_id, question, now, endpoint=core.addresses.choose(voter.endpoints))

    @staticmethod
    def _timeout_ms(request: VoterChangeRequest) -> int:
        return MAX_TIMEOUT_MS if isinstance(request, UpdateVoterRequest) else request.timeout_ms

    def on_support(
        self, question: SupportRequest, response: SupportResponse | None, now: Instant
    ) -> None:
        """The newcomer answered, or cannot be reached (`None`)."""
        change = self._change
        if not isinstance(change, _CheckingSupport) or change.question != question:
            return
        error, message = _decide_support(self._core, change.request, response, now)
        if error is not ErrorCode.NONE:
            self._end(error, message)
            return
        assert response is not None, "an answer that fits"
        assert response.kraft_versions is not None, "an answer that fits"
        core, request = self._core, change.request
        voter = replace(request.voter, kraft_versions=response.kraft_versions)
        waits = isinstance(request, AddVoterRequest) and request.waits_for_commit
        reply_to = change.reply_to if waits else None
        self._change = None
        self._append({**core.voters, voter.node_id: voter}, reply_to, change.deadline, now)
        if not waits:
            self._reply(change.reply_to, ErrorCode.NONE)

    def _append(
        self, voters: Mapping[int, Voter], reply_to: object | None, deadline: Instant, now: Instant
    ) -> None:
        core = self._core
        before = core.voters
        changed = sorted(before.keys() ^ voters.keys())
        assert len(changed) <= 1, f"OneChangeAtATime: {sorted(before)} -> {sorted(voters)}"
        value = encode_voters(by_id(list(voters.values())))
        offset = append_control(core, [ControlEntry(ControlType.KRAFT_VOTERS, value)], now)
        self._change = _Committing(offset, reply_to, deadline)

    # From configured voters to voters in the log --------------------------------------------------

    def upgrade(self, level: int, now: Instant, *, validate_only: bool) -> tuple[ErrorCode, str]:
        """Makes `level` the `kraft.version`, or refuses it; `validate_only` makes nothing."""
        core = self._core
        error, message = _decide_upgrade(core, level, is_changing=self.is_changing)
        if error is not ErrorCode.NONE or level == core.history.version or validate_only:
            return error, message
        records = voter_records(level, by_id(_fetching_voters(core)))
        offset = append_control(core, records, now)
        self._change = _Committing(offset, None, NEVER)
        return ErrorCode.NONE, ""

    def on_high_watermark(self, now: Instant) -> None:
        """More is committed, perhaps the change under way."""
        core, change = self._core, self._change
        role = core.role
        if not isinstance(role, Leader) or not isinstance(change, _Committing):
            return
        if role.high_watermark > change.offset:
            self._end(ErrorCode.NONE, "")
            if not role.counts_itself:
                epochs.resign(core, now, RoleReason.REMOVED)

    def maybe_resume(self) -> None:
        """The set at the beginning of an epoch may take this leader out: it must see that
        committed as if it had begun the change."""
        core = self._core
        offset = core.history.voters_offset
        if isinstance(core.role, Leader) and not core.role.counts_itself and self._change is None:
            assert offset is not None, "static voters are never removed"
            self._change = _Committing(offset, None, NEVER)

    def wake(self, now: Instant) -> None:
        """Time may be up. A set that is in the log stays there, whatever becomes of it."""
        change = self._change
        if change is None or change.deadline > now:
            return
        if isinstance(change, _CheckingSupport):
            self._end(ErrorCode.REQUEST_TIMED_OUT, "the new voter did not answer in time")
        elif change.reply_to is not None:
            self._reply(change.reply_to, ErrorCode.REQUEST_TIMED_OUT, "not committed in time")
            self._change = replace(change, reply_to=None, deadline=NEVER)

    def end_unless_leading(self) -> None:
        """The leadership is over, and the change with it."""
        if self._change is not None and not isinstance(self._core.role, Leader):
            self._end(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader has changed")

    def _end(self, error: ErrorCode, message: str) -> None:
        change, self._change = self._change, None
        assert change is not None, "no change is under way"
        step = "asking" if isinstance(change, _CheckingSupport) else f"offset {change.offset}"
        self._core.env.trace.event(VoterChangeEnded(reason=message, code=error.name, step=step))
        if change.reply_to is not None:
            self._reply(change.reply_to, error, message)

    def _reply(self, reply_to: object, error: ErrorCode, message: str = "") -> None:
        self._core.reply(reply_to, VoterChangeResponse, error, message=message)

    # Time and invariants -------------------------------------------------------------------------

    def deadline(self) -> Instant | None:
        """When time is up for a change."""
        return None if self._change is None else self._change.deadline

    def check(self) -> None:
        """OneChangeAtATime: a leader's log has at most one set that is not committed."""
        core, change = self._core, self._change
        if change is None:
            return
        assert isinstance(core.role, Leader), f"ValidRoles: {core.role.name.value} changes voters"
        if isinstance(change, _CheckingSupport):
            offset = core.history.voters_offset
            assert offset is not None, "OneChangeAtATime: static voters change"
            assert offset < core.high_watermark, (
                f"OneChangeAtATime: voters of {offset} above {core.high_watermark}"
            )


# Refusals: an error and its message; NONE and no message for a change that may begin -----------

_Refusal = tuple[ErrorCode, str]

_ACCEPTED: _Refusal = (ErrorCode.NONE, "")
_NOT_COMMITTED: _Refusal = (
    ErrorCode.REQUEST_TIMED_OUT,
    "nothing of the leader's epoch is committed yet",
)


def _decide_request(
    core: QuorumCore, request: VoterChangeRequest, *, is_changing: bool
) -> _Refusal:
    """Whether a change may begin; `is_changing` while another one is under way."""
    if not core.is_my_cluster(request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID, "the request is for another cluster"
    role = core.role
    if not isinstance(role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {core.own_id} does not lead the quorum"
    if isinstance(request, UpdateVoterRequest) and request.current_leader_epoch != core.epoch:
        fenced = request.current_leader_epoch < core.epoch
        code = ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH
        return code, f"epoch {request.current_leader_epoch}, the leader's is {core.epoch}"
    refusal = _decide_form(core, request)
    if refusal != _ACCEPTED:
        return refusal
    is_checking_support = core.requests.ready_at(request.voter.node_id, SupportRequest) == NEVER
    if is_changing or is_checking_support:
        return ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way"
    if role.high_watermark < 0:
        return _NOT_COMMITTED
    if not core.is_dynamic and isinstance(request, UpdateVoterRequest):
        if request.voter.node_id in core.voters:
            return _ACCEPTED
        return ErrorCode.VOTER_NOT_FOUND, f"node {request.voter.node_id} is not a voter"
    if not core.is_dynamic:
        return (
            ErrorCode.UNSUPPORTED_VERSION,
            "the voters are static (`kraft.version` 0) and cannot be changed",
        )
    offset = core.history.voters_offset
    assert offset is not None, "a version without voters"
    if offset >= core.high_watermark:
        return ErrorCode.REQUEST_TIMED_OUT, "the last change of the voters is not committed"
    return _decide_by_set(core, request)


def _decide_form(core: QuorumCore, request: VoterChangeRequest) -> _Refusal:
    voter = request.voter
    if voter.node_id < 0 or voter.directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "a voter has an id and the id of its directory"
    if isinstance(voter, Voter):
        endpoints = core.identity.endpoints
        listener = endpoints[0].listener if endpoints else ""
        if listener not in [end.listener for end in voter.endpoints]:
            return ErrorCode.INVALID_REQUEST, f"the voter has no listener `{listener}`"
        low, high = voter.kraft_versions
        if not 0 <= low <= high:
            return ErrorCode.INVALID_REQUEST, f"`kraft.version` from {low} to {high}"
    return _ACCEPTED


def _decide_by_set(core: QuorumCore, request: VoterChangeRequest) -> _Refusal:
    voters, node_id = core.voters, request.voter.node_id
    if isinstance(request, AddVoterRequest):
        if node_id in voters:
            return (
                ErrorCode.DUPLICATE_VOTER,
                f"node {node_id} is a voter already; remove it first if its disk was replaced",
            )
    elif not is_voter(voters, ReplicaKey(node_id, request.voter.directory_id)):
        return ErrorCode.VOTER_NOT_FOUND, f"node {node_id} with this directory is not a voter"
    elif isinstance(request, RemoveVoterRequest) and len(voters) == 1:
        return ErrorCode.VOTER_NOT_FOUND, f"node {node_id} is the last voter"
    return _ACCEPTED


def _decide_support(
    core: QuorumCore,
    request: AddVoterRequest | UpdateVoterRequest,
    response: SupportResponse | None,
    now: Instant,
) -> _Refusal:
    """Whether a newcomer fits that has answered what it supports, or is not reached (`None`)."""
    node_id = request.voter.node_id
    if response is None or response.error_code is not ErrorCode.NONE:
        address = core.addresses.choose(request.voter.endpoints)
        return ErrorCode.REQUEST_TIMED_OUT, f"node {node_id} was not reached at `{address}`"
    version = core.history.version
    if response.kraft_versions is None:
        return ErrorCode.INVALID_REQUEST, f"node {node_id} has no feature `kraft.version`"
    low, high = response.kraft_versions
    if not low <= version <= high:
        return (
            ErrorCode.INVALID_REQUEST,
            f"node {node_id} supports `kraft.version` {low} to {high}, not {version}",
        )
    key = ReplicaKey(node_id, request.voter.directory_id)
    assert isinstance(core.role, Leader), f"{core.role.name.value} changes voters"
    if isinstance(request, AddVoterRequest) and not core.role.is_caught_up(key, now):
        return (
            ErrorCode.REQUEST_TIMED_OUT,
            f"node {node_id} with this directory has not caught up with the metadata log",
        )
    return _ACCEPTED


def _decide_upgrade(core: QuorumCore, level: int, *, is_changing: bool) -> _Refusal:
    """Whether `level` may become the `kraft.version`, or is it already."""
    role = core.role
    if not isinstance(role, Leader):
        return ErrorCode.NOT_CONTROLLER, f"node {core.own_id} does not lead the quorum"
    version = core.history.version
    if level < version or level > DYNAMIC_VOTERS:
        return (
            ErrorCode.INVALID_UPDATE_VERSION,
            f"`{KRAFT_VERSION}` is {version} and cannot become {level}",
        )
    if level == version:
        return _ACCEPTED
    if is_changing or role.high_watermark < 0:
        return _NOT_COMMITTED
    unknown = [voter.node_id for voter in _fetching_voters(core) if not any(voter.directory_id)]
    if unknown:
        return (
            ErrorCode.INVALID_UPDATE_VERSION,
            f"the directories of the voters {unknown} are not known: they have not fetched",
        )
    return _ACCEPTED


def _fetching_voters(core: QuorumCore) -> list[Voter]:
    """The configured voters with the directories for which they fetch from this leader."""
    role = core.role
    assert isinstance(role, Leader), f"{role.name.value} asks for directories"
    own = core.identity.directory_id
    return [
        replace(voter, directory_id=own if key == core.own_id else role.voters[key].directory_id)
        for key, voter in core.voters.items()
    ]
