"""Voters that come, go and move while everything else fails (KIP-853), and what must hold then.

A share of the seeds keeps its voters in the metadata log, or moves them there (`kraft.version` 0 to
1). An operator adds and removes voters, at
any replica that takes itself for the leader, also while another change is under way; replicas come
back at another address and say so (UpdateVoter); some join by themselves (KIP-1186).

| property | says |
| --- | --- |
| OneChangeAtATime (I20) | sets that follow each other differ in one voter, committed or not |
| CommittedForever (I17) | a committed set stands where it stands, for all |
| AcknowledgedChange | a change that was reported as made is in a committed set |

From the first the rest follows: two sets that differ in one voter have no disjoint majorities. The
oracle of the tier goes on with its own properties over the changing sets.

When the voters are in the log, the operator takes them out of the configuration of who has not read
that yet: such a node follows no leader but a configured one. Not before there is a leader, because
its vote may be needed, and without voters it has none.

A voter that loses its disk is another replica from then on (*VoterIsItsDisk*), in the same process
and at the same address. The operator replaces its disk only while all voters have all that the
leader has, one at a time, and changes nothing else before the old voter is removed: nothing is
promised to who replaces two of three.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    ReplicaKey,
    Voter,
    VoterChangeRequest,
    VoterChangeResponse,
)
from tidelog.kraft.quorum import Quorum
from tidelog.model import Endpoint, Uuid
from tidelog.sim.report.violation import Violation

LISTENER: Final = "CONTROLLER"
FIRST_PORT: Final = 9093
MOST_VOTERS: Final = 5

MARKS: Final = (
    ADDED := "voters: added",
    REMOVED := "voters: removed",
    MOVED := "voters: moved to another address",
    LEADER_REMOVED := "voters: the leader removed itself",
    REFUSED_AS_PENDING := "voters: refused, another change is pending",
    REFUSED_AS_BEHIND := "voters: refused, the newcomer lags or is not reached",
    LOST := "voters: the leader of a change has changed",
    UPGRADED := "voters: from the configuration to the log",
    WIPED := "voters: lost its disk",
    REPLACED := "voters: added again with another disk",
)
"""Rare states that seeds with changing voters should reach."""

_PENDING: Final = ("another change", "the last change", "nothing of the leader's epoch")

Members = frozenset[ReplicaKey]


def endpoint_of(node_id: int, port: int = FIRST_PORT) -> Endpoint:
    """Where a replica is reached; the host is enough to find it."""
    return Endpoint(LISTENER, f"n{node_id}", port)


def node_at(endpoint: Endpoint) -> int:
    """Who is reached there."""
    return int(endpoint.host.removeprefix("n"))


def directory_of(node_id: int, disk: int = 0) -> Uuid:
    """The id of a replica's disk, of which it has had so many before."""
    return Uuid(disk.to_bytes(8, "big") + node_id.to_bytes(8, "big"))


class VoterOracle:
    """Every voter set that any replica has shown."""

    def __init__(self) -> None:
        # The rare states that were reached, in the order of the first time.
        self.marks: dict[str, None] = {}
        # Committed sets by the offset from which they count.
        self._committed: dict[int, Mapping[int, Voter]] = {}
        # Per replica: the newest set when it was looked at last, and whether that was committed.
        self._seen: dict[int, tuple[int | None, bool]] = {}
        # Voters that lost their disks.
        self._wiped: dict[int, None] = {}

    @property
    def committed_end(self) -> int:
        """Exclusive end of the committed sets that were seen; 0 for none."""
        return max(self._committed, default=-1) + 1

    @property
    def in_log(self) -> bool:
        """Whether the voters stand in the log for good: some set is committed there."""
        return bool(self._committed)

    def check_sets(self, node_id: int, quorum: Quorum, committed_end: int) -> None:
        """What a replica obeys; `committed_end` is the end of all that is committed anywhere."""
        sets = quorum.voter_sets
        newest = sets[-1][0] if sets else None
        seen = (newest, newest is not None and newest < quorum.high_watermark)
        if self._seen.get(node_id) == seen:
            return
        self._seen[node_id] = seen
        for offset, voters in sets:
            if 0 <= offset < quorum.high_watermark:
                self._note_committed(node_id, offset, voters)
        if quorum.is_leader:
            pending = {_members(voters) for offset, voters in sets if offset >= committed_end}
            settled = [_members(voters) for offset, voters in sets if offset < committed_end]
            if len(pending | set(settled[-1:])) > 2:
                raise Violation("OneChangeAtATime", f"{node_id} has {len(pending)} sets pending")

    def note_wiped(self, node_id: int) -> None:
        """A voter has lost its disk."""
        self._wiped[node_id] = None
        self.marks[WIPED] = None

    def note_upgrade(self, quorum: Quorum) -> None:
        """A leader has moved the configured voters to the log."""
        _, voters = quorum.voter_sets[-1]
        nameless = [key for key, voter in voters.items() if not any(voter.directory_id)]
        if nameless:
            raise Violation("VoterIsItsDisk", f"voters {nameless} without a directory")
        self.marks[UPGRADED] = None

    def _note_committed(self, node_id: int, offset: int, voters: Mapping[int, Voter]) -> None:
        known = self._committed.get(offset)
        if known is not None:
            if known != voters:
                raise Violation("CommittedForever", f"voters {voters} of {node_id}, were {known}")
            return
        self._committed[offset] = voters
        in_order = [self._committed[key] for key in sorted(self._committed)]
        for before, after in pairwise(in_order):
            self._compare(before, after)

    def _compare(self, before: Mapping[int, Voter], after: Mapping[int, Voter]) -> None:
        gone, come = _members(before) - _members(after), _members(after) - _members(before)
        if len(gone) + len(come) > 1:
            raise Violation("OneChangeAtATime", f"{sorted(before)} -> {sorted(after)}")
        if come:
            self.marks[ADDED] = None
            if any(key.node_id in self._wiped for key in come):
                self.marks[REPLACED] = None
        elif gone:
            self.marks[REMOVED] = None
        elif before != after:
            self.marks[MOVED] = None

    def check_answer(
        self,
        answerer: int,
        quorum: Quorum,
        request: VoterChangeRequest,
        response: VoterChangeResponse,
    ) -> None:
        """An operator receives what became of a change."""
        code, message = response.error_code, response.message
        if code is ErrorCode.REQUEST_TIMED_OUT:
            pending = message.startswith(_PENDING)
            self.marks[REFUSED_AS_PENDING if pending else REFUSED_AS_BEHIND] = None
        elif code is ErrorCode.NOT_LEADER_OR_FOLLOWER and "changed" in message:
            self.marks[LOST] = None
        if code is not ErrorCode.NONE:
            return
        committed = [
            voters for offset, voters in quorum.voter_sets if offset < quorum.high_watermark
        ]
        _check_made(request, committed[-1:], f"{answerer} says")
        if not isinstance(request, AddVoterRequest) and request.voter.node_id == answerer:
            self.marks[LEADER_REMOVED] = None

    def check_acknowledged(self, request: VoterChangeRequest, since: int) -> None:
        """A client receives that a change was made that it asked for when the committed sets ended
        at `since`; by now others may have followed it."""
        later = [voters for offset, voters in self._committed.items() if offset >= since]
        _check_made(request, later, "a client was answered")


def _check_made(
    request: VoterChangeRequest, sets: Iterable[Mapping[int, Voter]], claim: str
) -> None:
    """A change that was reported as made is made in one of these sets."""
    key = ReplicaKey(request.voter.node_id, request.voter.directory_id)
    adds = isinstance(request, AddVoterRequest)
    if not any((key in _members(voters)) == adds for voters in sets):
        verb = "added" if adds else "removed"
        raise Violation("AcknowledgedChange", f"{claim} that {key.node_id} is {verb}")


def _members(voters: Mapping[int, Voter]) -> Members:
    return frozenset(ReplicaKey(key, voter.directory_id) for key, voter in voters.items())


def draw_change(
    prng: Prng, quorum: Quorum, replicas: Mapping[int, Voter], *, cluster_id: str
) -> VoterChangeRequest | None:
    """What an operator asks of a replica that takes itself for the leader; `None` when nothing is
    possible. `replicas` is every replica as the voter it is or would be.

    The replica that is asked is removed more often than others: that is the rarest way. A voter
    without its disk goes first.
    """
    voters = quorum.voters
    for lost in voters_without_disk(voters, replicas):
        if prng.chance(1, 4):
            return AddVoterRequest(cluster_id, replicas[lost.node_id])
        return RemoveVoterRequest(cluster_id, lost)
    strangers = [node_id for node_id in replicas if node_id not in voters]
    grows = len(voters) < MOST_VOTERS and (len(voters) < 2 or prng.chance(1, 2))
    if grows and strangers:
        return AddVoterRequest(cluster_id, replicas[prng.choice(strangers)])
    if len(voters) < 2:
        return None
    node_id = prng.choice(sorted(voters))
    return RemoveVoterRequest(cluster_id, ReplicaKey(node_id, voters[node_id].directory_id))


def voters_without_disk(
    voters: Mapping[int, Voter], replicas: Mapping[int, Voter]
) -> list[ReplicaKey]:
    """The voters whose disk is not the one that the replica of this id has now."""
    keys = [ReplicaKey(key, voter.directory_id) for key, voter in voters.items()]
    return [one for one in keys if one.directory_id != replicas[one.node_id].directory_id]
