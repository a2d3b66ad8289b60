"""Voters and observers in virtual time: a network that loses, delays and holds back messages, disks
that lose what was not flushed.

Requests and answers travel as values. A lost one is noticed by timeout only, one to a dead process
after a moment. What a cut link holds back may arrive when it heals, seconds late. Flushes complete
one after the other.
"""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from tidelog.config import LogConfig, QuorumConfig
from tidelog.env.disk import FileSlice
from tidelog.env.effects import Effect, EffectQueue, Flush, Replace
from tidelog.env.event import Event
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, Trace, TraceEvent
from tidelog.errors import ErrorCode, UsageError
from tidelog.kraft.messages import (
    LoadedSnapshot,
    NotLeader,
    QuorumFetchResponse,
    ReplicaKey,
    Reply,
    Request,
    Response,
    SendRequest,
    SupportRequest,
    SupportResponse,
    Voter,
    VoterChangeRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
    VoterIdentity,
)
from tidelog.kraft.quorum import Quorum, QuorumEnv
from tidelog.kraft.quorum_state import QuorumStateFile
from tidelog.kraft.voters import SUPPORTED_VERSIONS, write_first_voters
from tidelog.log.loading import open_log
from tidelog.log.log import Log
from tidelog.log.values import Checkpoints, LogEnv, LogFlush
from tidelog.model import METADATA_PARTITION, METADATA_TOPIC_ID, ZERO_UUID
from tidelog.sim.engine.disk import ProcessKilled, SimDisk
from tidelog.sim.engine.formation import CLUSTER_ID, WALL_START_MS
from tidelog.sim.engine.timeline import Simulation
from tidelog.sim.quorum.membership import (
    FIRST_PORT,
    VoterOracle,
    directory_of,
    endpoint_of,
    node_at,
)
from tidelog.sim.quorum.oracle import QuorumOracle
from tidelog.sim.quorum.state import RecordList

LOG_CONFIG = LogConfig(segment_bytes=1 << 14, max_message_bytes=1 << 20)
REFUSED_MS = 1
QUICK: Final = QuorumConfig(
    election_timeout_ms=200,
    fetch_timeout_ms=400,
    election_backoff_max_ms=200,
    request_timeout_ms=400,
    fetch_max_wait_ms=100,
    first_election_max_ms=50,
)
"""Kafka's timers divided by five: more happens in a virtual second."""


@dataclass(frozen=True, slots=True)
class Saving:
    """How often snapshots are made, and how small the files of the log are."""

    snapshot_every: int = 0
    """Records between two snapshots; 0 for none."""
    segment_bytes: int = 1 << 14


@dataclass(frozen=True, slots=True)
class Composition:
    """Who is there at the beginning: voters 1..n, observers after them."""

    voters: int
    observers: int = 0
    dynamic: bool = False
    """Whether the voters stand in the metadata log (`kraft.version` 1): the first ones are
    formatted with the set, the others know nothing but everybody's address."""
    upgradable: bool = False
    """Whether the voters are configured and may be moved to the log."""


@dataclass(slots=True)
class Conditions:
    """How network and disks behave; may change while the cluster runs."""

    latency_ms: int = 1
    """Longest way of one message."""
    flush_ms: int = 1
    """Longest flush."""
    loss_percent: int = 0
    hold_percent: int = 0
    """Of messages over a cut link that arrive when it heals."""


@dataclass(frozen=True, slots=True)
class _ReplyTo:
    requester: int
    life: int
    peer_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class _Operator:
    """Somebody outside of the quorum, who asks for another voter set."""

    request: VoterChangeRequest


@dataclass(slots=True, eq=False)
class Replica:
    """One process and its disk."""

    node_id: int
    disk: SimDisk
    alive: bool = False
    # Counts processes.
    life: int = 0
    # Whether its disk completes nothing at the moment.
    stalled: bool = False
    # Exclusive end of what is on the disk while the process is down.
    durable_end: int = 0
    # Whether its configuration names the voters, and not only where to ask for them.
    configured: bool = True
    # The port of its address.
    port: int = FIRST_PORT
    # How many disks it has had before this one.
    lost_disks: int = 0
    # What it has asked and whom: as what it knows the peer, and who that is.
    requests: list[tuple[int, Request, int]] = field(default_factory=list)
    disk_queue: deque[Effect] = field(default_factory=deque)
    timer_at: int = -1
    high_watermark: int = 0
    effects: EffectQueue = field(default_factory=EffectQueue)
    # Whether the next step of its snapshot is on the queue.
    saving: bool = False
    log: Log = field(init=False)
    quorum: Quorum = field(init=False)
    state: RecordList = field(init=False)

    def follows(self, leader: "Replica") -> bool:
        """Whether this one, which runs, takes that one for the leader of its epoch, or is it."""
        quorum = self.quorum
        return quorum.leader_id == leader.node_id and quorum.epoch == leader.quorum.epoch

    @property
    def key(self) -> ReplicaKey:
        """Id and disk."""
        return ReplicaKey(self.node_id, directory_of(self.node_id, self.lost_disks))

    @property
    def voter(self) -> Voter:
        """As the voter set has it, or would have it."""
        return Voter(*self.key, (endpoint_of(self.node_id, self.port),))


class QuorumCluster(Simulation):
    """Voters, observers, and everything between."""

    def __init__(
        self,
        prng: Prng,
        *,
        composition: Composition,
        config: QuorumConfig,
        conditions: Conditions,
        saving: Saving = Saving(),
        trace_level: Level = Level.INFO,
    ) -> None:
        super().__init__(prng)
        self._saving = saving
        # Whether the voters stand in the log.
        self.dynamic = composition.dynamic or composition.upgradable
        self._formatted = composition.dynamic
        self.voter_oracle = VoterOracle()
        self.conditions = conditions
        self._prng = prng
        self._config = config
        self._trace_level = trace_level
        # Directed links that are cut, and what they hold back.
        self._cuts: set[tuple[int, int]] = set()
        self._held: list[Callable[[], None]] = []
        self.voters = {
            node_id: Voter(
                node_id,
                directory_of(node_id) if self._formatted else ZERO_UUID,
                (endpoint_of(node_id),),
            )
            for node_id in range(1, composition.voters + 1)
        }
        self.oracle = QuorumOracle(self._durable_ends)
        self.replicas = {
            node_id: self._new_replica(node_id)
            for node_id in range(1, composition.voters + composition.observers + 1)
        }
        if self._formatted:
            self._format()

    def _format(self) -> None:
        for replica in self.replicas.values():
            replica.configured = False
        for node_id in self.voters:
            write_first_voters(self.replicas[node_id].disk, self.voters, WALL_START_MS)

    @staticmethod
    def _new_replica(node_id: int) -> Replica:
        return Replica(node_id, SimDisk(f"n{node_id}"))

    def emit(self, node_id: int, event: Event | TraceEvent) -> None:
        """A node's trace event."""
        if event.subject == "quorum":
            self.note(f"n{node_id} {event.text()}")

    @property
    def as_voters(self) -> dict[int, Voter]:
        """Every replica as the voter that it is or would be."""
        return {node_id: replica.voter for node_id, replica in self.replicas.items()}

    def alive(self) -> list[Replica]:
        """The running replicas."""
        return [replica for replica in self.replicas.values() if replica.alive]

    def leaders(self) -> list[Replica]:
        """The running replicas that believe to lead."""
        return [replica for replica in self.alive() if replica.quorum.is_leader]

    def leader(self) -> Replica | None:
        """The running leader of the highest epoch."""
        return max(self.leaders(), key=lambda replica: replica.quorum.epoch, default=None)

    def _durable_ends(self, voters: Iterable[Voter]) -> list[int]:
        return [self.durable_end_of(voter) for voter in voters]

    def durable_end_of(self, voter: Voter) -> int:
        """The exclusive end of what is on the voter's disk; 0 if it has that no more."""
        replica = self.replicas[voter.node_id]
        if voter.directory_id not in (ZERO_UUID, replica.key.directory_id):
            return 0
        return replica.log.recovery_point if replica.alive else replica.durable_end

    # Processes -------------------------------------------------------------------------------

    def start_all(self) -> None:
        """Starts every process that does not run."""
        for replica in self.replicas.values():
            if not replica.alive:
                self.start(replica)

    def start(self, replica: Replica) -> bool:
        """Starts the process; False when its disk does not let it."""
        assert not replica.alive, f"n{replica.node_id} runs"
        replica.life += 1
        replica.alive = True
        replica.effects = EffectQueue()
        replica.disk_queue.clear()
        replica.requests.clear()
        replica.timer_at = -1
        replica.high_watermark = 0
        replica.saving = False
        replica.state = RecordList(self._saving.snapshot_every)
        trace = Trace(_Sink(self, replica.node_id), self._trace_level)
        try:
            self._open(replica, trace)
            replica.quorum.wall_offset_ms = WALL_START_MS
            replica.quorum.start(self.now)
        except ProcessKilled:
            self._die(replica, replica.durable_end)
            return False
        except UsageError as error:
            self.note(f"n{replica.node_id} refuses to start: {error}")
            self._die(replica, replica.durable_end)
            return False
        self._end_tick(replica)
        return True

    def _open(self, replica: Replica, trace: Trace) -> None:
        QuorumStateFile.require(replica.disk)
        replica.log = open_log(
            LogEnv(replica.disk, replica.effects, trace),
            str(METADATA_PARTITION),
            METADATA_PARTITION,
            dataclasses.replace(LOG_CONFIG, segment_bytes=self._saving.segment_bytes),
            Checkpoints(),
            clean=False,
            wall_ms=WALL_START_MS,
        )
        if replica.log.topic_id != METADATA_TOPIC_ID:
            replica.log.assign_topic_id(METADATA_TOPIC_ID)
        own = replica.voter.endpoints if self.dynamic else ()
        everybody = [endpoint_of(other) for other in self.replicas]
        replica.quorum = Quorum(
            identity=VoterIdentity(*replica.key, CLUSTER_ID, own),
            voters=self.voters if replica.configured else {},
            bootstrap=() if replica.configured else everybody,
            log=replica.log,
            config=self._config,
            env=QuorumEnv(replica.disk, replica.effects, Prng(self._prng.next_u64()), trace),
        )

    def kill(self, replica: Replica) -> None:
        """The process is gone, its files are as it wrote them."""
        self._die(replica, replica.log.log_end_offset)

    def cut_power(self, replica: Replica) -> None:
        """The process is gone, and so is what was not flushed, or part of it."""
        self._die(replica, replica.log.recovery_point)
        replica.disk.crash(self._prng if self._prng.chance(1, 2) else None)

    def _die(self, replica: Replica, durable_end: int) -> None:
        replica.alive = False
        replica.life += 1
        replica.durable_end = durable_end
        replica.disk.fuse = None
        for other in self.alive():
            for peer_id, request, target in list(other.requests):
                if target == replica.node_id:
                    self._fail(other, peer_id, request)

    def wipe(self, replica: Replica) -> None:
        """A dead replica's disk is replaced by an empty one. With voters in the log it is no voter
        any more, and the operator does not configure it as one either."""
        assert not replica.alive, f"n{replica.node_id} runs"
        replica.disk = self._new_replica(replica.node_id).disk
        replica.durable_end = 0
        if self.dynamic:
            replica.lost_disks += 1
            replica.configured = False
            self.voter_oracle.note_wiped(replica.node_id)

    def ask(self, sender: Replica, peer_id: int, request: Request) -> None:
        """Sends a request in a replica's name, whatever it thinks of it."""
        self._send_request(sender, SendRequest(peer_id, request, endpoint_of(peer_id)))

    def tell(self, requester: Replica, peer_id: int, request: Request, response: Response) -> None:
        """Answers a request in a peer's name."""
        self._answer(requester, peer_id, request, response)

    def suspect(self, node_id: int) -> None:
        """All failure detectors report a process."""
        for replica in self.alive():
            if replica.node_id != node_id:
                self._do(replica, partial(replica.quorum.on_peer_suspected, node_id, self.now))

    def resign(self, replica: Replica) -> None:
        """A clean stop begins."""
        self._do(replica, lambda: replica.quorum.resign(self.now))

    def change_voters(self, replica: Replica, request: VoterChangeRequest) -> None:
        """An operator asks a replica for another voter set."""
        asker = _Operator(request)
        self._do(replica, lambda: replica.quorum.on_request(request, asker, self.now))

    def upgrade(self, replica: Replica) -> None:
        """An operator asks a leader to move the configured voters to the log."""
        outcomes: list[tuple[ErrorCode, str]] = []
        self._do(replica, lambda: outcomes.append(replica.quorum.upgrade_version(1, self.now)))
        if outcomes and outcomes[0][0] is ErrorCode.NONE and replica.alive:
            self.voter_oracle.note_upgrade(replica.quorum)

    def append(self, replica: Replica, values: list[bytes]) -> int | None:
        """Appends where somebody believes to lead; `None` when he does not."""
        found: list[int] = []

        def append() -> None:
            found.append(replica.quorum.append(values, self.now, WALL_START_MS + self.now))

        try:
            self._do(replica, append)
        except NotLeader:
            return None
        return found[0] if found else None

    # Time ------------------------------------------------------------------------------------

    def run(self, duration_ms: int) -> None:
        """Lets time pass."""
        self.run_for(duration_ms)

    def _do(self, replica: Replica, action: Callable[[], None]) -> None:
        """One input of one replica, and the end of its tick."""
        try:
            action()
        except ProcessKilled:
            self.note(f"world n{replica.node_id}: killed (inside a write)")
            self.kill(replica)
            return
        self._end_tick(replica)

    def _end_tick(self, replica: Replica) -> None:
        self.event_count += 1
        quorum = replica.quorum
        try:
            quorum.wake(self.now)
        except ProcessKilled:
            self.note(f"world n{replica.node_id}: killed (inside a write)")
            self.kill(replica)
            return
        outputs = quorum.take_outputs()
        state = (self.now, replica.node_id, len(outputs), quorum.epoch, quorum.log_end_offset)
        self.digest.update(b"%d %d %d %d %d" % state)
        for output in outputs:
            if isinstance(output, SendRequest):
                self._send_request(replica, output)
            else:
                self._send_reply(replica, output)
        was_idle = not replica.disk_queue
        replica.disk_queue.extend(replica.effects.take())
        if was_idle:
            self._begin_flush(replica)
        self._check(replica)
        deadline = quorum.deadline()
        if deadline is not None and deadline != replica.timer_at:
            assert deadline > self.now, f"n{replica.node_id} spins at {self.now}"
            replica.timer_at = deadline
            self._at_replica(
                deadline - self.now, replica, lambda: self._on_timer(replica, deadline)
            )

    def _on_timer(self, replica: Replica, due: int) -> None:
        if replica.timer_at == due:
            replica.timer_at = -1
            self._end_tick(replica)

    def _check(self, replica: Replica) -> None:
        quorum = replica.quorum
        quorum.check()
        assert quorum.high_watermark >= replica.high_watermark, "HighWatermarkMonotonic"
        replica.high_watermark = quorum.high_watermark
        if quorum.is_leader and self.oracle.check_election_safety(replica.node_id, quorum.epoch):
            self.oracle.check_leader_completeness(replica.node_id, quorum, replica.log)
        if self.dynamic:
            self.voter_oracle.check_sets(replica.node_id, quorum, self.oracle.end_offset)
        for each in quorum.take_committed():
            if isinstance(each, LoadedSnapshot):
                self.oracle.check_snapshot(replica.node_id, each.snapshot_id, each.records)
            else:
                self.oracle.check_committed(replica.node_id, each, quorum)
            replica.state.take(each)
        if not replica.saving and replica.state.wants_step(quorum):
            replica.saving = True
            self._at_replica(1, replica, lambda: self._do(replica, lambda: self._save(replica)))

    def _save(self, replica: Replica) -> None:
        replica.saving = False
        state, before = replica.state, replica.quorum.latest_snapshot
        self.oracle.check_snapshot(replica.node_id, state.snapshot_id, state.records)
        state.step(replica.quorum)
        assert replica.quorum.latest_snapshot == before, "SnapshotDurable: counted before its flush"

    # Network ---------------------------------------------------------------------------------

    def cut(self, source: int, target: int) -> None:
        """Nothing gets through in this direction."""
        self._cuts.add((source, target))

    def heal(self) -> None:
        """All links work; what was held back arrives."""
        self._cuts.clear()
        held, self._held = self._held, []
        for deliver in held:
            deliver()

    def _at_replica(self, delay_ms: int, replica: Replica, action: Callable[[], None]) -> None:
        life = replica.life

        def guarded() -> None:
            if replica.alive and replica.life == life:
                action()

        self.at(delay_ms, guarded)

    def _carry(self, source: int, target: Replica, deliver: Callable[[], None]) -> None:
        if self._prng.chance(self.conditions.loss_percent, 100):
            return

        def arrive() -> None:
            if (source, target.node_id) not in self._cuts:
                deliver()
            elif self._prng.chance(self.conditions.hold_percent, 100):
                life = target.life
                self._held.append(
                    lambda: deliver() if target.alive and target.life == life else None
                )

        self._at_replica(self._prng.between(1, self.conditions.latency_ms), target, arrive)

    def _send_request(self, sender: Replica, output: SendRequest) -> None:
        peer_id, request, target = output.peer_id, output.request, output.peer_id
        if target < 0:
            target = node_at(output.endpoint)
        peer = self.replicas[target]
        sender.requests.append((peer_id, request, target))
        if not peer.alive:
            self._fail(sender, peer_id, request)
            return
        reply_to = _ReplyTo(sender.node_id, sender.life, peer_id, request)

        def deliver() -> None:
            if isinstance(request, SupportRequest):
                # The node answers it, not its quorum.
                supported = SupportResponse(ErrorCode.NONE, SUPPORTED_VERSIONS)
                self._send_reply(peer, Reply(reply_to, supported))
                return
            self._do(peer, lambda: peer.quorum.on_request(request, reply_to, self.now))

        self._carry(sender.node_id, peer, deliver)

    def _send_reply(self, sender: Replica, reply: Reply) -> None:
        to = reply.reply_to
        if isinstance(to, _Operator):
            assert isinstance(reply.response, VoterChangeResponse), f"{reply.response}"
            self.voter_oracle.check_answer(
                sender.node_id, sender.quorum, to.request, reply.response
            )
            return
        assert isinstance(to, _ReplyTo), f"{to} is nobody to reply to"
        response = _without_files(reply.response)
        request = to.request
        granted = isinstance(response, VoteResponse) and response.granted
        if granted and isinstance(request, VoteRequest) and not request.pre_vote:
            self.oracle.check_vote(sender.key, request.epoch, request.candidate_id)
        requester = self.replicas[to.requester]
        if not requester.alive or requester.life != to.life:
            return
        self._carry(
            sender.node_id,
            requester,
            lambda: self._answer(requester, to.peer_id, request, response),
        )

    def _answer(
        self, requester: Replica, peer_id: int, request: Request, response: Response | None
    ) -> None:
        kept = [one for one in requester.requests if one[1] is not request]
        if len(kept) == len(requester.requests):
            return
        requester.requests = kept
        self._do(
            requester,
            lambda: requester.quorum.on_response(peer_id, request, response, self.now),
        )

    def _fail(self, sender: Replica, peer_id: int, request: Request) -> None:
        self._at_replica(REFUSED_MS, sender, lambda: self._answer(sender, peer_id, request, None))

    # Disks -----------------------------------------------------------------------------------

    def _begin_flush(self, replica: Replica) -> None:
        if replica.disk_queue and not replica.stalled:
            delay = self._prng.between(0, self.conditions.flush_ms)
            self._at_replica(delay, replica, lambda: self._complete(replica))

    def resume_disk(self, replica: Replica) -> None:
        """A stalled disk goes on."""
        replica.stalled = False
        self._begin_flush(replica)

    def _complete(self, replica: Replica) -> None:
        if replica.stalled:
            return
        effect = replica.disk_queue.popleft()
        self._begin_flush(replica)
        self._do(replica, lambda: self._carry_out(replica, effect))

    def _carry_out(self, replica: Replica, effect: Effect) -> None:
        match effect:
            case Flush(file, subject):
                replica.disk.sync(file)
                if isinstance(subject, LogFlush):
                    replica.log.on_flushed(subject)
                replica.quorum.on_flushed(subject, self.now)
            case Replace(path, data, subject):
                replica.disk.replace(path, data)
                if subject is not None:
                    replica.quorum.on_flushed(subject, self.now)
            case _:
                raise AssertionError(f"a quorum emits no {effect}")


class _Sink:
    """Writes a node's trace into the cluster's."""

    def __init__(self, cluster: QuorumCluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    def emit(self, event: Event | TraceEvent) -> None:
        """Takes one event."""
        self._cluster.emit(self._node_id, event)


def _without_files(response: Response) -> Response:
    """Records as bytes: the answerer's file may be gone when the answer arrives."""
    if not isinstance(response, QuorumFetchResponse) or not response.records:
        return response
    chunks = tuple(
        chunk.file.read(chunk.position, chunk.length) if isinstance(chunk, FileSlice) else chunk
        for chunk in response.records
    )
    return replace(response, records=chunks)
