"""The six roles of a replica, which role may follow which, and the file that survives a crash.

Roles and terms. Time is cut into epochs; each has at most one leader (*ElectionSafety*). What a
voter has promised in an epoch, the vote it gave and the leader it knows, is its `ElectionState`.
It only grows: the epoch never falls, and inside an epoch a vote or a leader is learnt once and
never changed (*EpochMonotonic*, *VoteUniqueness*). `check_succession` asserts exactly that.

The file `quorum-state` holds the election state. It is one JSON line, rewritten as a whole: version
0 with static voters (`kraft.version` 0), version 1, which knows the directory of the candidate that
was voted for, with voters in the log. A role changes in memory at once, and
no message of the quorum leaves until the state behind it is durable
(*DurableBeforeSent*, see `outbox.py`): to the others it looks as if the write came first.

A replica that has lost the file does not know its vote, and no other file has it: it must not start
(*VotesAreNotForgotten*). So that a lost file differs from one that never was, the first start
writes it before there is a log (`QuorumStateFile.require`). The only configured voter and a node
that is only a broker give no vote that another counts: they go on in the epoch of their log.

Source: KIP-595 (quorum state), KIP-996 (the prospective role), KIP-853 (version 1).
"""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from tidelog.env.disk import Disk
from tidelog.env.effects import EffectQueue, Replace
from tidelog.errors import StorageError, UsageError
from tidelog.kraft.messages import ReplicaKey
from tidelog.kraft.snapshot_format import BOOTSTRAP_SNAPSHOT, parse_snapshot_name
from tidelog.log.checkpoint import (
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
    CheckpointDamaged,
    decode_offsets,
)
from tidelog.log.file_names import LOG_SUFFIX
from tidelog.model import METADATA_PARTITION, NO_LEADER, Uuid, uuid_from_text, uuid_to_text

QUORUM_STATE_PATH: Final = f"{METADATA_PARTITION}/quorum-state"

_NO_VOTE: Final = -1
_BEYOND: Final = 1 << 31
"""No epoch and no node id reaches it."""
_LOST_HINT: Final = (
    "put the file back as it was; if it is lost, another voter must take this one's place: voters "
    "in the log by `tidelog quorum remove-controller`, an empty directory and `add-controller`, "
    "configured ones by another `node.id` in `controller.quorum.voters`"
)


class RoleName(Enum):
    """What a replica of the metadata log is at the moment."""

    UNATTACHED = "unattached"
    """Knows an epoch and no leader of it."""
    FOLLOWER = "follower"
    """Fetches from the leader of its epoch."""
    PROSPECTIVE = "prospective"
    """Asks whether it would be elected, without disturbing anyone (pre-vote)."""
    CANDIDATE = "candidate"
    """Has begun an epoch and voted for itself."""
    LEADER = "leader"
    """Has the votes of a majority."""
    RESIGNED = "resigned"
    """Led this epoch and does not any more; it must not lead it again."""


TRANSITIONS: Final[Mapping[RoleName, frozenset[RoleName]]] = {
    # A higher epoch or a vote given makes it unattached again.
    RoleName.UNATTACHED: frozenset((RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.PROSPECTIVE)),
    RoleName.FOLLOWER: frozenset((RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.PROSPECTIVE)),
    # Losing a pre-vote leads back to the leader it knew, if any.
    RoleName.PROSPECTIVE: frozenset((RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.CANDIDATE)),
    RoleName.CANDIDATE: frozenset(
        (RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.PROSPECTIVE, RoleName.LEADER)
    ),
    RoleName.LEADER: frozenset((RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.RESIGNED)),
    # Never straight to prospective: it led this epoch, so it begins anew in the next one.
    RoleName.RESIGNED: frozenset((RoleName.UNATTACHED, RoleName.FOLLOWER)),
}
"""Which role may follow which. Only a candidate becomes leader, only a prospective a candidate."""


class ElectionState(NamedTuple):
    """What must not be forgotten."""

    epoch: int = 0
    leader_id: int = NO_LEADER
    """The leader of `epoch`; -1 while it is not known."""
    voted: ReplicaKey | None = None
    """The candidate that got this voter's vote in `epoch`."""


def check_succession(old: ElectionState, new: ElectionState) -> None:
    """Asserts that `new` may follow `old`."""
    assert new.epoch >= old.epoch, f"EpochMonotonic: {old} -> {new}"
    if new.epoch > old.epoch:
        return
    assert old.voted is None or old.voted == new.voted, f"VoteUniqueness: {old} -> {new}"
    assert old.leader_id in (NO_LEADER, new.leader_id), f"ElectionSafety: {old} -> {new}"


def encode_state(state: ElectionState, voter_ids: Sequence[int], kraft_version: int = 0) -> bytes:
    """The content of `quorum-state` as Kafka writes it."""
    voted = ReplicaKey(_NO_VOTE) if state.voted is None else state.voted
    content: dict[str, object] = {} if kraft_version else {"clusterId": ""}
    content |= {"leaderId": state.leader_id, "leaderEpoch": state.epoch, "votedId": voted.node_id}
    if kraft_version:
        content["votedDirectoryId"] = uuid_to_text(voted.directory_id)
    else:
        content["appliedOffset"] = 0
        content["currentVoters"] = [{"voterId": voter_id} for voter_id in voter_ids]
    content["data_version"] = min(kraft_version, 1)
    return json.dumps(content, separators=(",", ":")).encode()


def decode_state(data: bytes, path: str = QUORUM_STATE_PATH) -> ElectionState:
    """Reads versions 0 and 1. Raises `StorageError` for anything else: guessing a vote would
    break *VoteUniqueness*."""
    try:
        content = json.loads(data)
        version = int(content["data_version"])
        epoch = int(content["leaderEpoch"])
        leader_id = int(content["leaderId"])
        voted_id = int(content["votedId"])
        directory_text = content.get("votedDirectoryId") or ""
        directory_id = uuid_from_text(directory_text) if directory_text else Uuid(bytes(16))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise StorageError(path, f"not a quorum state: {error!r}") from error
    is_possible = 0 <= epoch < _BEYOND and max(leader_id, voted_id) < _BEYOND
    if version not in (0, 1) or not is_possible or min(leader_id, voted_id) < -1:
        raise StorageError(path, f"not a quorum state: {content!r}")
    voted = None if voted_id == _NO_VOTE else ReplicaKey(voted_id, directory_id)
    return ElectionState(epoch, leader_id, voted)


def _has_lived(disk: Disk) -> bool:
    """Whether a process of this node has opened its metadata log before."""
    directory = str(METADATA_PARTITION)
    names = disk.list_dir(directory) if disk.exists(directory) else []
    snapshots = (parse_snapshot_name(name) for name in names)
    if any(one not in (None, BOOTSTRAP_SNAPSHOT) for one in snapshots):
        return True
    try:
        durable_ends = decode_offsets(disk.read_file(RECOVERY_POINT_FILE) or b"")
    except CheckpointDamaged:
        durable_ends = {}
    # The topic id is written when the log is made; its name is durable before the first vote is,
    # because a vote syncs this directory.
    log_files = (PARTITION_METADATA_FILE, LOG_SUFFIX)
    return METADATA_PARTITION in durable_ends or any(name.endswith(log_files) for name in names)


class QuorumStateFlush(NamedTuple):
    """Subject of the `Replace` effect that writes `quorum-state`."""

    sequence: int


class QuorumStateFile:
    """Writes election states in order and knows how far they are durable."""

    def __init__(self, disk: Disk, effects: EffectQueue, voter_ids: Sequence[int]) -> None:
        self._effects = effects
        self._voter_ids = tuple(voter_ids)
        # Which version of the file is written; the quorum's own, from its log.
        self.kraft_version: int = 0
        # Written and not yet confirmed, oldest first: (sequence, state).
        self._pending: deque[tuple[int, ElectionState]] = deque()
        data = disk.read_file(QUORUM_STATE_PATH)
        # The newest state handed to the disk.
        self.written: ElectionState = ElectionState() if data is None else decode_state(data)
        # The newest state known to survive a power cut.
        self.durable: ElectionState = self.written
        # Sequence of `durable`; grows by one with each write, 0 is what was found at the start.
        self.durable_sequence: int = 0

    @staticmethod
    def require(disk: Disk) -> None:
        """Makes the file at the first start of a controller; to be called before the metadata log
        is opened.

        Raises `UsageError` when it cannot be read, or when anything shows an earlier life without
        it: then it was lost.
        """
        data = disk.read_file(QUORUM_STATE_PATH)
        if data is not None:
            try:
                decode_state(data, f"{disk.root}/{QUORUM_STATE_PATH}")
            except StorageError as error:
                raise UsageError(str(error), _LOST_HINT) from None
            return
        if _has_lived(disk):
            raise UsageError(
                f"`{disk.root}/{QUORUM_STATE_PATH}` is missing, and this node has taken part in a "
                "quorum: it does not know any more how it voted",
                _LOST_HINT,
            )
        disk.make_dir(str(METADATA_PARTITION))
        disk.replace(QUORUM_STATE_PATH, encode_state(ElectionState(), ()))

    @property
    def sequence(self) -> int:
        """The sequence of `written`."""
        return self._pending[-1][0] if self._pending else self.durable_sequence

    def maybe_write(self, state: ElectionState) -> bool:
        """Emits the write of a state that differs from the last one written."""
        if state == self.written:
            return False
        check_succession(self.written, state)
        sequence = self.sequence + 1
        self._pending.append((sequence, state))
        self.written = state
        data = encode_state(state, self._voter_ids, self.kraft_version)
        self._effects.emit(Replace(QUORUM_STATE_PATH, data, QuorumStateFlush(sequence)))
        return True

    def on_durable(self, sequence: int) -> None:
        """The write with this sequence is safe, and so is everything before it."""
        while self._pending and self._pending[0][0] <= sequence:
            self.durable_sequence, self.durable = self._pending.popleft()

    def check(self) -> None:
        """Asserts that what is written never ran behind what is durable."""
        check_succession(self.durable, self.written)
        sequences = [sequence for sequence, _ in self._pending]
        expected = list(
            range(self.durable_sequence + 1, self.durable_sequence + 1 + len(sequences))
        )
        assert sequences == expected, f"{sequences} after {self.durable_sequence}"
