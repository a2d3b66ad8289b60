"""Changes of the voter set: the leader's decision, and what a voter asks for by itself.

One change at a time (*OneChangeAtATime*). A change begins only when

1. no other is under way, here or in the log (the newest set is committed),
2. the leader's own epoch is committed, so that no change of an earlier leader can still win,
3. the quorum runs with `kraft.version` 1.

Adding. The newcomer has fetched as an observer and is caught up; it is asked over its own address
which versions it supports, which also shows that the address is right. Then the new set is
appended and counts at once; the asker is answered when it is committed, by a majority of the *new*
set. Removing and updating are the same without the question. A leader that was removed goes on
until that is committed, then it resigns.

What is said no to, in Kafka's order: another cluster, another leader, a busy leader
(REQUEST_TIMED_OUT: ask again), static voters (UNSUPPORTED_VERSION), a voter that is there already
or is not there, a replica that is not reached, does not fit, or lags.

A change under way ends with the leadership: its asker hears NOT_LEADER_OR_FOLLOWER, and must look
who leads now and what became of it.

From configured voters to voters in the log (`kraft.version` 0 to 1, UpdateFeatures): the leader
appends the version and the set in one batch. It knows the voters' directories from their fetches of
this epoch, and does not begin before it has heard them all; then each counts as the disk that has
acknowledged records. Ids stay the same, so majorities do. Whoever has other addresses than the
configured ones says so then. There is no way back.

What a replica asks for: a voter whose own address or versions differ from the set tells the leader
so; with `controller.quorum.auto.join.enable` a controller that is no voter asks to become one,
after it had the voter removed that had its id on another disk.

Source: KIP-853, KIP-1186; Kafka's AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tidelog.env.instant import NEVER, Instant, earliest
from tidelog.errors import ErrorCode
from tidelog.kraft.core import SUBJECT, QuorumCore
from tidelog.kraft.elections import Elections
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
from tidelog.kraft.roles import Follower
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
"""An asker may wait longer, but is told that time is up."""


@dataclass(frozen=True, slots=True)
class _Asking:
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
    """`None` when the asker was answered already."""
    deadline: Instant


class Membership:
    """The voter set's changes, on the leader and on those who want one."""

    __slots__ = ("_ask_at", "_change", "_core", "_elections")

    def __init__(self, core: QuorumCore, elections: Elections) -> None:
        self._core = core
        # Is told when the leader was removed.
        self._elections = elections
        # The change under way; `None` unless this replica leads.
        self._change: _Asking | _Committing | None = None
        # When this replica may tell the leader again what it wants of the voter set.
        self._ask_at: Instant = Instant(0)

    # The leader ------------------------------------------------------------------------------

    def on_request(self, request: VoterChangeRequest, reply_to: object, now: Instant) -> None:
        """Begins a change, or says why not."""
        core = self._core
        error, message = self._refusal(request)
        if error is not ErrorCode.NONE:
            core.env.trace.info(
                SUBJECT,
                "on_voter_change",
                "refused",
                message,
                code=error.name,
                asked=type(request).__name__,
                voter=request.voter.node_id,
            )
            self._reply(reply_to, error, message)
            return
        deadline = Instant(now + min(self._timeout_ms(request), MAX_TIMEOUT_MS))
        if isinstance(request, RemoveVoterRequest):
            left = {k: v for k, v in core.voters.items() if k != request.voter.node_id}
            self._append(left, reply_to, deadline, now)
            return
        voter = request.voter
        if voter.node_id == core.own_id:
            self._append({**core.voters, voter.node_id: voter}, None, deadline, now)
            self._reply(reply_to, ErrorCode.NONE)
            return
        question = SupportRequest(ReplicaKey(voter.node_id, voter.directory_id))
        self._change = _Asking(request, reply_to, deadline, question)
        core.send(voter.node_id, question, now, endpoint=core.choose(voter.endpoints))

    def _refusal(self, request: VoterChangeRequest) -> tuple[ErrorCode, str]:
        core = self._core
        if not core.is_my_cluster(request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID, "the request is for another cluster"
        role = core.role
        if not isinstance(role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {core.own_id} does not lead the quorum"
        if isinstance(request, UpdateVoterRequest) and request.leader_epoch != core.epoch:
            fenced = request.leader_epoch < core.epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH
            return code, f"epoch {request.leader_epoch}, the leader's is {core.epoch}"
        error, message = self._malformed(request)
        if error is not ErrorCode.NONE:
            return error, message
        is_asked = core.requests.ready_at(request.voter.node_id, SupportRequest) == NEVER
        if self._change is not None or is_asked:
            return ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way"
        if role.high_watermark < 0:
            return ErrorCode.REQUEST_TIMED_OUT, "nothing of the leader's epoch is committed yet"
        if not core.is_dynamic:
            return (
                ErrorCode.UNSUPPORTED_VERSION,
                "the voters are static (`kraft.version` 0) and cannot be changed",
            )
        offset = core.history.voters_offset
        assert offset is not None, "a version without voters"
        if offset >= core.high_watermark:
            return ErrorCode.REQUEST_TIMED_OUT, "the last change of the voters is not committed"
        return self._refusal_by_set(request)

    def _malformed(self, request: VoterChangeRequest) -> tuple[ErrorCode, str]:
        voter = request.voter
        if voter.node_id < 0 or voter.directory_id == ZERO_UUID:
            return ErrorCode.INVALID_REQUEST, "a voter has an id and the id of its directory"
        if isinstance(voter, Voter):
            identity = self._core.identity
            listener = identity.endpoints[0].listener if identity.endpoints else ""
            if listener not in [end.listener for end in voter.endpoints]:
                return ErrorCode.INVALID_REQUEST, f"the voter has no listener `{listener}`"
            low, high = voter.kraft_versions
            if not 0 <= low <= high:
                return ErrorCode.INVALID_REQUEST, f"`kraft.version` from {low} to {high}"
        return ErrorCode.NONE, ""

    def _refusal_by_set(self, request: VoterChangeRequest) -> tuple[ErrorCode, str]:
        voters = self._core.voters
        node_id = request.voter.node_id
        if isinstance(request, AddVoterRequest):
            if node_id in voters:
                return (
                    ErrorCode.DUPLICATE_VOTER,
                    f"node {node_id} is a voter already; remove it first if its disk was replaced",
                )
        elif not is_voter(voters, ReplicaKey(node_id, request.voter.directory_id)):
            return ErrorCode.VOTER_NOT_FOUND, f"node {node_id} with this directory is no voter"
        elif isinstance(request, RemoveVoterRequest) and len(voters) == 1:
            return ErrorCode.VOTER_NOT_FOUND, f"node {node_id} is the last voter"
        return ErrorCode.NONE, ""

    @staticmethod
    def _timeout_ms(request: VoterChangeRequest) -> int:
        return MAX_TIMEOUT_MS if isinstance(request, UpdateVoterRequest) else request.timeout_ms

    def on_support(
        self, question: SupportRequest, response: SupportResponse | None, now: Instant
    ) -> None:
        """The newcomer answered, or cannot be reached (`None`)."""
        change = self._change
        if not isinstance(change, _Asking) or change.question != question:
            return
        error, message = self._unfit(change.request, response, now)
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

    def _unfit(
        self,
        request: AddVoterRequest | UpdateVoterRequest,
        response: SupportResponse | None,
        now: Instant,
    ) -> tuple[ErrorCode, str]:
        core, node_id = self._core, request.voter.node_id
        if response is None or response.error_code is not ErrorCode.NONE:
            address = core.choose(request.voter.endpoints)
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
        return ErrorCode.NONE, ""

    def _append(
        self, voters: Mapping[int, Voter], reply_to: object | None, deadline: Instant, now: Instant
    ) -> None:
        core = self._core
        before = core.voters
        changed = sorted(before.keys() ^ voters.keys())
        assert len(changed) <= 1, f"OneChangeAtATime: {sorted(before)} -> {sorted(voters)}"
        value = encode_voters(by_id(list(voters.values())))
        offset = core.append_control([ControlEntry(ControlType.KRAFT_VOTERS, value)], now)
        self._change = _Committing(offset, reply_to, deadline)

    # From configured voters to voters in the log --------------------------------------------------

    def upgrade(self, level: int, now: Instant, *, validate_only: bool) -> tuple[ErrorCode, str]:
        """Makes `level` the `kraft.version`, or says why not; `validate_only` makes nothing."""
        core = self._core
        error, message = self._upgrade_refusal(level)
        if error is not ErrorCode.NONE or level == core.history.version or validate_only:
            return error, message
        records = voter_records(level, by_id(self._voters_heard()))
        offset = core.append_control(records, now)
        self._change = _Committing(offset, None, NEVER)
        return ErrorCode.NONE, ""

    def _upgrade_refusal(self, level: int) -> tuple[ErrorCode, str]:
        core, role = self._core, self._core.role
        if not isinstance(role, Leader):
            return ErrorCode.NOT_CONTROLLER, f"node {core.own_id} does not lead the quorum"
        version = core.history.version
        if level < version or level > DYNAMIC_VOTERS:
            return (
                ErrorCode.INVALID_UPDATE_VERSION,
                f"`{KRAFT_VERSION}` is {version} and cannot become {level}",
            )
        if level == version:
            return ErrorCode.NONE, ""
        if self._change is not None or role.high_watermark < 0:
            return ErrorCode.REQUEST_TIMED_OUT, "nothing of the leader's epoch is committed yet"
        unheard = [voter.node_id for voter in self._voters_heard() if not any(voter.directory_id)]
        if unheard:
            return (
                ErrorCode.INVALID_UPDATE_VERSION,
                f"the directories of the voters {unheard} are not known: they have not fetched",
            )
        return ErrorCode.NONE, ""

    def _voters_heard(self) -> list[Voter]:
        """The configured voters with the directories that they fetch for."""
        core, role = self._core, self._core.role
        assert isinstance(role, Leader), f"{role.name.value} asks for directories"
        own = core.identity.directory_id
        return [
            replace(
                voter,
                directory_id=own if key == core.own_id else role.voters[key].directory_id,
            )
            for key, voter in core.voters.items()
        ]

    def on_high_watermark(self, now: Instant) -> None:
        """More is committed, perhaps the change under way."""
        core, change = self._core, self._change
        role = core.role
        if not isinstance(role, Leader) or not isinstance(change, _Committing):
            return
        if role.high_watermark > change.offset:
            self._end(ErrorCode.NONE, "")
            if not role.counts_itself:
                self._elections.resign(now, "is no voter any more")

    def maybe_resume(self) -> None:
        """The set at the beginning of an epoch may take this leader out: it must see that
        committed as if it had begun the change."""
        core = self._core
        offset = core.history.voters_offset
        if isinstance(core.role, Leader) and not core.role.counts_itself and self._change is None:
            assert offset is not None, "static voters are never removed"
            self._change = _Committing(offset, None, Instant(2**62))

    def wake(self, now: Instant) -> None:
        """Time may be up. A set that is in the log stays there, whatever becomes of it."""
        change = self._change
        if change is None or change.deadline > now:
            return
        if isinstance(change, _Asking):
            self._end(ErrorCode.REQUEST_TIMED_OUT, "the new voter did not answer in time")
        elif change.reply_to is not None:
            self._reply(change.reply_to, ErrorCode.REQUEST_TIMED_OUT, "not committed in time")
            self._change = replace(change, reply_to=None, deadline=Instant(2**62))

    def end_unless_leading(self) -> None:
        """The leadership is over, and the change with it."""
        if self._change is not None and not isinstance(self._core.role, Leader):
            self._end(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader has changed")

    def _end(self, error: ErrorCode, message: str) -> None:
        change, self._change = self._change, None
        assert change is not None, "no change is under way"
        step = "asking" if isinstance(change, _Asking) else f"offset {change.offset}"
        self._core.env.trace.info(
            SUBJECT, "on_voter_change", "ended", message, code=error.name, step=step
        )
        if change.reply_to is not None:
            self._reply(change.reply_to, error, message)

    def _reply(self, reply_to: object, error: ErrorCode, message: str = "") -> None:
        core = self._core
        core.reply(
            reply_to,
            VoterChangeResponse(
                error, message, core.public_leader_id, core.epoch, core.leader_endpoint
            ),
        )

    # Who wants a change ------------------------------------------------------------------------

    def next_wish(self) -> VoterChangeRequest | None:
        """What a follower wants the leader to change, if anything."""
        core = self._core
        identity = core.identity
        role = core.role
        if not core.is_dynamic or not identity.endpoints or not isinstance(role, Follower):
            return None
        if role.is_in_doubt or role.has_heard_goodbye:
            return None
        mine = core.own_voter
        known = core.voters.get(core.own_id)
        if core.is_voter:
            if known == mine:
                return None
            return UpdateVoterRequest(identity.cluster_id, core.epoch, mine)
        if not core.config.auto_join_enable:
            return None
        if known is not None:
            return RemoveVoterRequest(identity.cluster_id, core.voter_key(core.own_id))
        return AddVoterRequest(identity.cluster_id, mine, waits_for_commit=False)

    @property
    def wish_at(self) -> Instant | None:
        """When a wish may be sent; `None` without one."""
        wish = self.next_wish()
        if wish is None:
            return None
        ready_at = self._core.requests.ready_at(self._core.role.leader_id, type(wish))
        return None if ready_at == NEVER else max(self._ask_at, ready_at)

    def maybe_send_wish(self, now: Instant) -> None:
        """Asks the leader, at most once in a fetch timeout."""
        wish_at = self.wish_at
        if wish_at is None or wish_at > now:
            return
        wish = self.next_wish()
        assert wish is not None, "a time for no wish"
        self._ask_at = Instant(now + self._core.config.fetch_timeout_ms)
        self._core.send(self._core.role.leader_id, wish, now)

    def on_wish_answered(self, peer_id: int, response: VoterChangeResponse) -> None:
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

    # Time and invariants -------------------------------------------------------------------------

    def deadline(self) -> Instant | None:
        """When time is up for a change, or a wish is due."""
        due = None if self._change is None else self._change.deadline
        return earliest(due, self.wish_at)

    def check(self) -> None:
        """OneChangeAtATime: a leader's log has at most one set that is not committed."""
        core, change = self._core, self._change
        if change is None:
            return
        assert isinstance(core.role, Leader), f"ValidRoles: {core.role.name.value} changes voters"
        if isinstance(change, _Asking):
            offset = core.history.voters_offset
            assert offset is not None, "OneChangeAtATime: static voters change"
            assert offset < core.high_watermark, (
                f"OneChangeAtATime: voters of {offset} above {core.high_watermark}"
            )
