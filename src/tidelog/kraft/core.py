"""What the parts of one replica share: its identity, role, log, and what it sends.

`QuorumCore` holds the state that elections, replication and membership read together. The parts
that change it: `transitions.py` the role, `control_records.py` the voter history,
`fetch_server.py`, `fetcher.py` and `snapshot_fetcher.py` the high watermark.

One input is handled to its end, then settled (`settle`): the election state is written if it
changed, and what is to be sent is sealed behind that write.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.config import QuorumConfig
from tidelog.env.disk import Disk
from tidelog.env.effects import EffectQueue
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.kraft.addresses import Addresses
from tidelog.kraft.events import SUBJECT
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import (
    UNKNOWN_HIGH_WATERMARK,
    ReplicaKey,
    Reply,
    Request,
    Response,
    SendRequest,
    Voter,
    VoterIdentity,
)
from tidelog.kraft.outbox import Outbox
from tidelog.kraft.quorum_state import QuorumStateFile
from tidelog.kraft.requests import PeerRequests
from tidelog.kraft.roles import Resigned, Role, Unattached
from tidelog.kraft.snapshots import Snapshots
from tidelog.kraft.timers import ElectionTimers
from tidelog.kraft.voters import DYNAMIC_VOTERS, SUPPORTED_VERSIONS, VoterHistory, is_voter
from tidelog.log.log import Log
from tidelog.model import NO_LEADER, Endpoint, Uuid


@dataclass(frozen=True, slots=True)
class QuorumEnv:
    """The ports of the quorum."""

    disk: Disk
    effects: EffectQueue
    prng: Prng
    trace: Trace


class QuorumCore:
    """The state of one replica of the metadata quorum."""

    def __init__(
        self,
        *,
        identity: VoterIdentity,
        voters: Mapping[int, Voter],
        log: Log,
        config: QuorumConfig,
        env: QuorumEnv,
        bootstrap: Sequence[Endpoint] = (),
    ) -> None:
        assert voters or bootstrap, "a replica knows voters, or where to ask for them"
        # This replica.
        self.identity = identity
        # The voter sets that the log has had, and the configured one before them.
        self.history = VoterHistory(voters)
        # Where the other replicas are reached.
        self.addresses = Addresses(identity, self.history, bootstrap)
        # The metadata log of this replica.
        self.log = log
        self.config = config
        self.env = env
        # Draws the waits before elections.
        self.timers = ElectionTimers(config, env.prng)
        # The snapshots on this replica's disk.
        self.snapshots = Snapshots(env.disk, env.effects, env.trace)
        # Whether the log begins above 0 and what came before is nowhere on this disk: until the
        # leader has given it, this replica has no state to lead with (*BaseBeforeLeading*).
        self.lacks_base: bool = False
        # Whether records are gone from this log that this replica has acknowledged. Until it has
        # again all that a leader has it neither votes nor asks for votes: a candidate without
        # those records could win by it (*MemoryComesBackFirst*).
        self.must_catch_up: bool = False
        # Durable election state; runs behind `role` only while an input is handled.
        self.state_file = QuorumStateFile(env.disk, env.effects, tuple(voters))
        # What to send, held until it may leave.
        self.outbox = Outbox()
        # What was sent and not answered.
        self.requests = PeerRequests(
            timeout_ms=config.request_timeout_ms, backoff_ms=config.retry_backoff_ms
        )
        # What this replica is; `start` sets the real one.
        self.role: Role = Unattached(self.state_file.written, None, None)
        # Exclusive end of what this process knows to be committed; never falls, not persisted.
        self.high_watermark: int = log.log_start_offset
        # Wall time in ms minus monotonic time in ms; for the timestamps of control records.
        self.wall_offset_ms: int = 0

    # Views -----------------------------------------------------------------------------------

    @property
    def own_id(self) -> int:
        """This replica's node id."""
        return self.identity.node_id

    @property
    def may_only_follow(self) -> bool:
        """Whether this replica may be a follower only, for now."""
        return self.lacks_base or self.must_catch_up

    @property
    def voters(self) -> Mapping[int, Voter]:
        """The voter set that counts now, in the order of ids."""
        return self.history.voters

    @property
    def peers(self) -> tuple[int, ...]:
        """The other voters, in the order of ids."""
        return tuple(key for key in self.voters if key != self.own_id)

    @property
    def is_alone(self) -> bool:
        """Whether no other replica has the metadata: it is the only voter. Where it knows no voter,
        because damage has taken their record, bootstrap servers stand for them."""
        if self.voters:
            return set(self.voters) == {self.own_id}
        return not self.addresses.leads_to_others

    @property
    def is_dynamic(self) -> bool:
        """Whether the voter set is in the log (`kraft.version` 1)."""
        return self.history.version >= DYNAMIC_VOTERS

    @property
    def is_voter(self) -> bool:
        """Whether it may be elected; otherwise it observes. With a wiped disk it is not the voter
        of its id any more (*VoterIsItsDisk*)."""
        return is_voter(self.voters, self.identity.key)

    def is_my_cluster(self, cluster_id: str | None) -> bool:
        """Whether a request that names this cluster, or none, is meant for this quorum."""
        return cluster_id in (None, self.identity.cluster_id)

    def leadership_error(self, epoch: int) -> ErrorCode:
        """The error for a replica that fetches in `epoch`; NONE if this one leads that epoch."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if isinstance(self.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER

    @property
    def may_campaign(self) -> bool:
        """Whether it may ask for votes."""
        return self.history.may_campaign(self.identity.key, self.high_watermark)

    @property
    def epoch(self) -> int:
        """The quorum epoch it is in."""
        return self.role.epoch

    @property
    def leader_id(self) -> int:
        """The leader as far as this replica knows; -1 for none. One that resigned does not
        count."""
        return NO_LEADER if isinstance(self.role, Resigned) else self.role.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader is reached."""
        return self.addresses.of(self.leader_id)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 for an empty log, as Kafka counts. A log that was
        emptied for a snapshot ends with the snapshot's epoch, also when that is damaged: what was
        acknowledged counts in votes, and a leader is asked to go on from there."""
        if self.log.latest_epoch >= 0:
            return self.log.latest_epoch
        return self.snapshots.epoch_before(self.log.log_end_offset)

    @property
    def durable_end_offset(self) -> int:
        """Exclusive end of what this replica has on disk."""
        return self.log.recovery_point

    @property
    def known_high_watermark(self) -> int:
        """The high watermark for a fetch request; -1 before any is known."""
        return self.high_watermark if self.high_watermark > 0 else UNKNOWN_HIGH_WATERMARK

    def voter_key(self, voter_id: int) -> ReplicaKey:
        """Id and (when known) directory of a voter."""
        return ReplicaKey(voter_id, self.voters[voter_id].directory_id)

    def voter_keys(self) -> list[ReplicaKey]:
        """All voters, in the order of ids."""
        return [self.voter_key(voter_id) for voter_id in self.voters]

    @property
    def own_voter(self) -> Voter:
        """This replica as the voter set should have it."""
        identity = self.identity
        return Voter(
            identity.node_id, identity.directory_id, identity.endpoints, SUPPORTED_VERSIONS
        )

    def may_have_unknown_voters(self, named_disk: Uuid) -> bool:
        """Whether a sender that names this disk as the receiver's may be, and may count this
        replica as, a voter that this one does not know. With voters in the log that may always
        be. With configured voters, when the disk is this replica's own: only a set in the log has
        that, and its record has not come here yet or was lost with the power, never acknowledged.
        """
        return self.is_dynamic or named_disk == self.identity.directory_id

    # Sending ---------------------------------------------------------------------------------

    def reply(
        self, reply_to: object, kind: Callable[..., Response], error: ErrorCode, **content: Any
    ) -> None:
        """Answers a request with an error, or NONE, and the leader that this replica knows."""
        response = kind(
            error_code=error,
            leader_id=self.leader_id,
            leader_epoch=self.epoch,
            leader_endpoint=self.leader_endpoint,
            **content,
        )
        self.outbox.add(Reply(reply_to, response))

    def send(
        self, peer_id: int, request: Request, now: Instant, *, endpoint: Endpoint | None = None
    ) -> None:
        """Sends a request, to another address than the known one if it is given."""
        self.requests.on_sent(peer_id, request, now)
        endpoint = endpoint or self.addresses.of(peer_id)
        assert endpoint is not None, f"{request} to {peer_id}, whose address is not known"
        self.outbox.add(SendRequest(peer_id, request, endpoint))

    # Waits -----------------------------------------------------------------------------------

    def draw_first_wait(self, now: Instant) -> Instant:
        """The wait of this replica for its turn to ask for votes."""
        return self.timers.draw_first_wait(now, has_no_peer=not self.peers)

    def draw_probe_peer(self) -> int | None:
        """The replica to ask next for the leader."""
        servers = tuple(self.addresses.bootstrap)
        known = (*self.peers, *servers) if self.is_dynamic or not self.voters else self.peers
        return self.env.prng.choice(known) if known else None

    # The log ---------------------------------------------------------------------------------

    def raise_high_watermark(self, value: int) -> None:
        """Everything below `value` is committed."""
        assert value > self.high_watermark, (
            f"HighWatermarkMonotonic: {self.high_watermark} -> {value}"
        )
        assert value <= self.log.log_end_offset, f"{value} beyond {self.log.log_end_offset}"
        self.env.trace.debug(
            SUBJECT, "raise_high_watermark", "raised", had=self.high_watermark, to=value
        )
        self.high_watermark = value
        if value > self.log.high_watermark:
            self.log.update_high_watermark(value)

    def settle(self) -> None:
        """Ends the handling of one input: the state is written, what is to be sent is sealed."""
        self.state_file.maybe_write(self.role.election)
        self.outbox.seal(self.state_file.sequence)
