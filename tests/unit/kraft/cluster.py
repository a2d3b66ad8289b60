"""A whole metadata quorum in one process: virtual time, a network and disks that misbehave by seed.

Each replica is a real `Quorum` over a real `Log` on a `MemoryDisk`. Requests and answers travel as
values, with delay, loss and cut links; flushes complete in order, later; processes are killed
(what was written stays) or lose power (what was not flushed is gone).

After every event the replica that handled it is checked (`check()` of quorum and log), and the
`Oracle` compares what it sees with what all others have shown so far:

- ElectionSafety: one leader for each epoch.
- VoteUniqueness: a voter's granted votes name one candidate for each epoch, crashes included.
- CommittedForever (LogMatching below the high watermark): an offset has one content for all.
- Durability: when an offset is first seen committed, a majority of voters has it on disk.
- LeaderCompleteness: a new leader has everything that leaders of older epochs committed.
- OneChangeAtATime: committed voter sets that follow each other differ in one voter, so that their
  majorities intersect, and a leader's log never has two sets that are not committed.

With `dynamic`, the voters are in the log (KIP-853): the first ones are formatted, the other
replicas know nothing but everybody's address.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from tidelog.config import LogConfig, QuorumConfig
from tidelog.env.effects import Effect, EffectQueue, Flush, Replace
from tidelog.env.event import Event
from tidelog.env.instant import Instant
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, Trace, TraceEvent
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import (
    AddVoterRequest,
    CommittedBatch,
    NotLeader,
    RemoveVoterRequest,
    ReplicaKey,
    Reply,
    Request,
    Response,
    SendRequest,
    SupportRequest,
    SupportResponse,
    Voter,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
    VoterIdentity,
)
from tidelog.kraft.quorum import Quorum, QuorumEnv
from tidelog.kraft.quorum_state import QuorumStateFlush, RoleName
from tidelog.kraft.snapshot_format import BOOTSTRAP_SNAPSHOT, encode_snapshot, snapshot_name
from tidelog.kraft.voters import DYNAMIC_VOTERS, SUPPORTED_VERSIONS, by_id, voter_records
from tidelog.log.loading import open_log
from tidelog.log.log import Log
from tidelog.log.values import Checkpoints, LogEnv, LogFlush
from tidelog.model import METADATA_PARTITION, METADATA_TOPIC_ID, ZERO_UUID, Endpoint, Uuid

CLUSTER_ID = "tidelog-test"
WALL_ZERO_MS = 1_700_000_000_000

LOG_CONFIG = LogConfig(segment_bytes=1 << 16, max_message_bytes=1 << 20)


@dataclass(slots=True)
class Conditions:
    """How the network and the disks behave; may be changed while the cluster runs."""

    latency_ms: tuple[int, int] = (1, 1)
    """One way, both ends included."""
    flush_ms: tuple[int, int] = (1, 1)
    """How long each write of the disk queue takes."""
    loss_percent: int = 0
    """Of requests and answers; a lost one is noticed by timeout only."""
    refused_ms: int = 1
    """How long it takes to learn that a dead process refuses connections."""


@dataclass(slots=True)
class Oracle:
    """What is true for ever once any replica has shown it."""

    leaders: dict[int, int] = field(default_factory=dict)
    """Epoch -> node."""
    votes: dict[tuple[int, int], int] = field(default_factory=dict)
    """(Voter, epoch) -> candidate."""
    committed: dict[int, CommittedBatch] = field(default_factory=dict)
    """Base offset -> batch."""
    commit_epochs: dict[int, int] = field(default_factory=dict)
    """Base offset -> epoch of the leader that committed it."""
    end_offset: int = 0
    """Exclusive end of everything committed."""
    voter_sets: dict[int, dict[int, Uuid]] = field(default_factory=dict)
    """Offset of a committed voter set -> its voters and their directories."""

    def on_leader(self, node_id: int, quorum: Quorum, log: Log) -> None:
        """A replica says that it leads."""
        known = self.leaders.setdefault(quorum.epoch, node_id)
        assert known == node_id, f"ElectionSafety: {known} and {node_id} lead {quorum.epoch}"

    def on_elected(self, node_id: int, quorum: Quorum, log: Log) -> None:
        """A replica has just become leader."""
        for offset, batch in self.committed.items():
            if self.commit_epochs[offset] < quorum.epoch:
                assert batch.last_offset < log.log_end_offset, (
                    f"LeaderCompleteness: {node_id} leads {quorum.epoch} with log end "
                    f"{log.log_end_offset}, {batch.last_offset} is committed"
                )
                assert log.epochs.epoch_at(offset) == batch.epoch, (
                    f"LeaderCompleteness: {node_id} has {offset} of epoch "
                    f"{log.epochs.epoch_at(offset)}, committed with {batch.epoch}"
                )

    def on_voters(self, node_id: int, quorum: Quorum) -> None:
        """What a replica obeys."""
        history = quorum._core.history
        end = quorum.high_watermark
        pending = [entry.offset for entry in history._sets if entry.offset >= self.end_offset]
        if quorum.is_leader:
            assert len(pending) <= 1, f"OneChangeAtATime: {node_id} has {pending} above {end}"
        for offset, voters in history._sets:
            if 0 <= offset < end:
                members = {key: voter.directory_id for key, voter in voters.items()}
                known = self.voter_sets.setdefault(offset, members)
                assert known == members, f"CommittedForever: voters {members}, were {known}"
        in_order = [set(self.voter_sets[offset].items()) for offset in sorted(self.voter_sets)]
        for before, after in pairwise(in_order):
            changed = {node for node, _ in before ^ after}
            assert len(changed) <= 1, f"OneChangeAtATime: {before} -> {after}"

    def on_vote(self, voter_id: int, epoch: int, candidate_id: int) -> None:
        """A voter's answer left it."""
        known = self.votes.setdefault((voter_id, epoch), candidate_id)
        assert known == candidate_id, (
            f"VoteUniqueness: {voter_id} voted for {known} and {candidate_id} in {epoch}"
        )

    def on_committed(
        self, node_id: int, batch: CommittedBatch, epoch: int, durable_ends: Iterable[int]
    ) -> None:
        """A replica hands out a committed batch."""
        known = self.committed.get(batch.base_offset)
        if known is not None:
            assert known == batch, f"CommittedForever: {node_id} has {batch}, was {known}"
            return
        assert batch.base_offset == self.end_offset, (
            f"CommittedForever: {node_id} commits {batch.base_offset} after {self.end_offset}"
        )
        ends = list(durable_ends)
        holders = sum(1 for end in ends if end > batch.last_offset)
        assert holders >= len(ends) // 2 + 1, (
            f"Durability: {batch.last_offset} is committed with {holders} durable copies"
        )
        self.committed[batch.base_offset] = batch
        self.commit_epochs[batch.base_offset] = epoch
        self.end_offset = batch.last_offset + 1


class Replica:
    """One process and its disk; the disk outlives the process."""

    def __init__(self, cluster: "Cluster", node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.directory_id = Uuid(node_id.to_bytes(16, "big"))
        # Disks that it has lost: how many, and what was on them.
        self.wipe_count = 0
        self.lost_ends: dict[Uuid, int] = {}
        self.disk = MemoryDisk(f"/node{node_id}")
        self.disk.make_dir(str(METADATA_PARTITION))
        self.alive = False
        self.incarnation = 0
        # Time until which the disk does not complete anything; for scripts.
        self.disk_holds = False
        # Exclusive end of what is on the disk while the process is down.
        self.durable_end = 0
        self.committed: list[CommittedBatch] = []

    def start(self) -> None:
        """Starts the process."""
        assert not self.alive, f"{self.node_id} runs"
        cluster = self.cluster
        self.incarnation += 1
        self.alive = True
        self.effects = EffectQueue()
        self.disk_queue: deque[Effect] = deque()
        self.disk_busy = False
        self.was_leader = False
        self.wake_at: Instant | None = None
        self.open_requests: list[tuple[int, Request]] = []
        self.committed = []
        trace = Trace(_NodeSink(cluster, self.node_id), cluster.trace_level)
        self.disk.make_dir(str(METADATA_PARTITION))
        self.log = open_log(
            LogEnv(self.disk, self.effects, trace),
            str(METADATA_PARTITION),
            METADATA_PARTITION,
            LOG_CONFIG,
            Checkpoints(),
            clean=False,
            wall_ms=WALL_ZERO_MS,
        )
        if self.log.topic_id != METADATA_TOPIC_ID:
            self.log.assign_topic_id(METADATA_TOPIC_ID)
        self.quorum = cluster.make_quorum(self, trace)
        self.quorum.wall_offset_ms = WALL_ZERO_MS
        self.quorum.start(cluster.now)
        self.end_tick()

    def stop(self) -> None:
        """The process is gone; its files are as they were written."""
        self.alive = False
        self.durable_end = self.log.log_end_offset

    def lose_power(self, prng: Prng | None) -> None:
        """The process is gone and so is what was not flushed."""
        self.alive = False
        self.durable_end = self.log.recovery_point
        self.disk.crash(prng)

    def end_tick(self) -> None:
        """What a driver does after an input: wake, carry out, check, arm the timer."""
        cluster = self.cluster
        quorum = self.quorum
        quorum.wake(cluster.now)
        for output in quorum.take_outputs():
            if isinstance(output, SendRequest):
                cluster.send_request(self, output)
            else:
                cluster.send_reply(self, output)
        self.disk_queue.extend(self.effects.take())
        cluster.pump_disk(self)
        self.check()
        deadline = quorum.deadline()
        assert deadline is None or deadline > cluster.now, (
            f"{self.node_id} spins: deadline {deadline} at {cluster.now}"
        )
        if deadline is not None and deadline != self.wake_at:
            self.wake_at = deadline
            cluster.at(deadline, lambda: self._on_timer(deadline), self)

    def check(self) -> None:
        """The replica's own invariants and the oracle's."""
        quorum, oracle = self.quorum, self.cluster.oracle
        quorum.check()
        if quorum.is_leader:
            oracle.on_leader(self.node_id, quorum, self.log)
            if not self.was_leader:
                oracle.on_elected(self.node_id, quorum, self.log)
        self.was_leader = quorum.is_leader
        oracle.on_voters(self.node_id, quorum)
        for batch in quorum.take_committed():
            if not isinstance(batch, CommittedBatch):
                continue  # What formatting left behind: no records.
            self.committed.append(batch)
            ends = self.cluster.voters_durable_ends(quorum.voters)
            oracle.on_committed(self.node_id, batch, quorum.epoch, ends)

    def _on_timer(self, deadline: Instant) -> None:
        if self.wake_at == deadline:
            self.wake_at = None
            self.end_tick()


@dataclass(frozen=True, slots=True)
class _ReplyTo:
    requester: int
    incarnation: int
    request: Request
    peer_id: int


class _NodeSink:
    """Writes a node's trace into the cluster's."""

    def __init__(self, cluster: "Cluster", node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    def emit(self, event: Event | TraceEvent) -> None:
        """Takes one event."""
        if event.subject == "quorum":
            self._cluster.note(f"n{self._node_id} {event.text()}")


class Cluster:
    """Voters 1..n, optional observers, and everything between them."""

    def __init__(
        self,
        seed: int,
        *,
        voter_count: int = 3,
        observer_count: int = 0,
        config: QuorumConfig | None = None,
        conditions: Conditions | None = None,
        trace_level: Level = Level.ERROR,
        quorum_type: Callable[..., Quorum] = Quorum,
        dynamic: bool = False,
    ) -> None:
        self.now = Instant(0)
        self.config = config if config is not None else QuorumConfig()
        self.conditions = conditions if conditions is not None else Conditions()
        self.trace_level = trace_level
        self.lines: list[str] = []
        self.note_messages = False
        self.prng = Prng(seed)
        self.oracle = Oracle()
        # Whether the voters are in the log.
        self.dynamic = dynamic
        # What askers for changes of the voters were told: what they asked, then the answer.
        self.answers: list[tuple[str, VoterChangeResponse]] = []
        self.event_count = 0
        self._quorum_type = quorum_type
        self._events: list[tuple[int, int, int, Callable[[], None]]] = []
        self._event_sequence = 0
        # Directed links that lose everything, as (from, to).
        self.cut_links: set[tuple[int, int]] = set()
        self.voters = {
            node_id: Voter(node_id, ZERO_UUID, (Endpoint("CONTROLLER", f"n{node_id}", 9093),))
            for node_id in range(1, voter_count + 1)
        }
        count = voter_count + observer_count
        self.replicas = {node_id: Replica(self, node_id) for node_id in range(1, count + 1)}
        if dynamic:
            first = by_id([self.voter_of(node_id) for node_id in self.voters])
            for node_id in self.voters:
                entries = voter_records(DYNAMIC_VOTERS, first)
                data = encode_snapshot(BOOTSTRAP_SNAPSHOT, WALL_ZERO_MS, (), entries)
                path = f"{METADATA_PARTITION}/{snapshot_name(BOOTSTRAP_SNAPSHOT)}"
                self.replicas[node_id].disk.replace(path, data)

    def voter_of(self, node_id: int) -> Voter:
        """A replica as the voter set has it."""
        endpoint = Endpoint("CONTROLLER", f"n{node_id}", 9093)
        return Voter(node_id, self.replicas[node_id].directory_id, (endpoint,))

    # Processes ---------------------------------------------------------------------------------

    def make_quorum(self, replica: Replica, trace: Trace) -> Quorum:
        """The quorum of a starting process."""
        node_id = replica.node_id
        endpoints = (Endpoint("CONTROLLER", f"n{node_id}", 9093),)
        everybody = [Endpoint("CONTROLLER", f"n{other}", 9093) for other in self.replicas]
        return self._quorum_type(
            identity=VoterIdentity(node_id, replica.directory_id, CLUSTER_ID, endpoints),
            voters={} if self.dynamic else self.voters,
            bootstrap=everybody if self.dynamic else (),
            log=replica.log,
            config=self.config,
            env=QuorumEnv(replica.disk, replica.effects, Prng(self.prng.next_u64()), trace),
        )

    def start(self, *node_ids: int) -> None:
        """Starts the given replicas, or all."""
        for node_id in node_ids or tuple(self.replicas):
            self.replicas[node_id].start()

    def kill(self, node_id: int) -> None:
        """Kills a process: its peers see their connections close."""
        self.replicas[node_id].stop()
        self._close_connections(node_id)

    def cut_power(self, node_id: int, *, torn: bool = False) -> None:
        """As `kill`, and what was not flushed is lost."""
        self.replicas[node_id].lose_power(self.prng if torn else None)
        self._close_connections(node_id)

    def wipe(self, node_id: int) -> None:
        """A dead process gets an empty disk, with another directory id."""
        replica = self.replicas[node_id]
        assert not replica.alive, f"{node_id} runs"
        replica.disk = MemoryDisk(f"/node{node_id}")
        replica.wipe_count += 1
        replica.lost_ends[replica.directory_id] = replica.durable_end
        replica.directory_id = Uuid((replica.wipe_count << 32 | node_id).to_bytes(16, "big"))
        replica.durable_end = 0

    def add_voter(self, asked: int, node_id: int) -> None:
        """Asks one replica to make another one a voter."""
        self._ask(asked, f"add {node_id}", AddVoterRequest(CLUSTER_ID, self.voter_of(node_id)))

    def remove_voter(self, asked: int, node_id: int, directory_id: Uuid | None = None) -> None:
        """Asks one replica to take another one out of the voters."""
        key = ReplicaKey(node_id, directory_id or self.replicas[node_id].directory_id)
        self._ask(asked, f"remove {node_id}", RemoveVoterRequest(CLUSTER_ID, key))

    def _ask(self, asked: int, what: str, request: Request) -> None:
        replica = self.replicas[asked]
        replica.quorum.on_request(request, what, self.now)
        replica.end_tick()

    def suspect(self, node_id: int) -> None:
        """The failure detectors of all others report a dead process."""
        for replica in self.alive():
            if replica.node_id != node_id:
                replica.quorum.on_peer_suspected(node_id, self.now)
                replica.end_tick()

    def alive(self) -> list[Replica]:
        """The running replicas."""
        return [replica for replica in self.replicas.values() if replica.alive]

    def voters_durable_ends(self, voters: Mapping[int, Voter] | None = None) -> list[int]:
        """What each voter has on its disk, dead or alive, or had on a disk that is gone."""
        ends = []
        for voter_id, voter in (voters or self.voters).items():
            replica = self.replicas[voter_id]
            if voter.directory_id not in (ZERO_UUID, replica.directory_id):
                # What it has acknowledged was there; its loss is a fault like any other.
                ends.append(replica.lost_ends[voter.directory_id])
            else:
                ends.append(replica.log.recovery_point if replica.alive else replica.durable_end)
        return ends

    @property
    def leader(self) -> Replica | None:
        """The leader of the highest epoch that has one."""
        leaders = [replica for replica in self.alive() if replica.quorum.is_leader]
        return max(leaders, key=lambda replica: replica.quorum.epoch) if leaders else None

    def append(self, replica: Replica, *values: bytes) -> int | None:
        """Appends at this replica; `None` when it does not lead."""
        try:
            last = replica.quorum.append(values, self.now, WALL_ZERO_MS + self.now)
        except NotLeader:
            return None
        replica.end_tick()
        return last

    # Time --------------------------------------------------------------------------------------

    def at(self, when: int, action: Callable[[], None], replica: Replica | None = None) -> None:
        """Does something later, unless the replica's process has ended by then."""
        incarnation = replica.incarnation if replica is not None else 0

        def guarded() -> None:
            if replica is None or (replica.alive and replica.incarnation == incarnation):
                action()

        self._event_sequence += 1
        tie = self.prng.below(1 << 16)
        heapq.heappush(self._events, (when, tie, self._event_sequence, guarded))

    def run(self, duration_ms: int) -> None:
        """Lets time pass."""
        self.run_until(lambda: False, duration_ms)

    def run_until(self, condition: Callable[[], bool], limit_ms: int) -> bool:
        """Lets time pass until the condition holds, at most so long; returns whether it does."""
        end = self.now + limit_ms
        while not condition():
            if not self._events or self._events[0][0] > end:
                self.now = Instant(end)
                return condition()
            when, _, _, action = heapq.heappop(self._events)
            self.now = Instant(max(self.now, when))
            self.event_count += 1
            action()
        return True

    def note(self, text: str) -> None:
        """A line of the cluster's trace."""
        self.lines.append(f"{self.now:>6} {text}")

    # Network -----------------------------------------------------------------------------------

    def cut(self, one: int, other: int, *, both: bool = True) -> None:
        """The link loses everything."""
        self.cut_links.add((one, other))
        if both:
            self.cut_links.add((other, one))

    def isolate(self, node_id: int) -> None:
        """Cuts all links of a replica."""
        for other in self.replicas:
            if other != node_id:
                self.cut(node_id, other)

    def heal(self) -> None:
        """All links work."""
        self.cut_links.clear()

    def send_request(self, sender: Replica, output: SendRequest) -> None:
        """Carries a request to a node, or to an address of which nobody knows the node."""
        peer_id, request, target = output.peer_id, output.request, output.peer_id
        if peer_id < 0:
            assert output.endpoint is not None, f"nobody knows where {peer_id} is"
            target = int(output.endpoint.host.removeprefix("n"))
        if self.note_messages:
            self.note(f"n{sender.node_id} -> n{target} {describe(request)}")
        peer = self.replicas[target]
        sender.open_requests.append((peer_id, request))
        if not peer.alive:
            self._fail(sender, peer_id, request, self.conditions.refused_ms)
            return
        if self._is_lost(sender.node_id, target):
            return
        reply_to = _ReplyTo(sender.node_id, sender.incarnation, request, peer_id)

        def deliver() -> None:
            if (sender.node_id, target) in self.cut_links:
                return
            if isinstance(request, SupportRequest):
                # The node answers it, not its quorum.
                response = SupportResponse(ErrorCode.NONE, SUPPORTED_VERSIONS)
                self.send_reply(peer, Reply(reply_to, response))
            else:
                peer.quorum.on_request(request, reply_to, self.now)
                peer.end_tick()

        self.at(self.now + self._latency_ms(), deliver, peer)

    def send_reply(self, sender: Replica, reply: Reply) -> None:
        """Carries an answer."""
        to = reply.reply_to
        if isinstance(to, str):
            assert isinstance(reply.response, VoterChangeResponse)
            self.answers.append((to, reply.response))
            self.note(f"n{sender.node_id} answers: {to}: {describe(reply.response)}")
            return
        assert isinstance(to, _ReplyTo)
        self._show_to_oracle(sender.node_id, to.request, reply.response)
        if self.note_messages:
            self.note(f"n{to.requester} <- n{sender.node_id} {describe(reply.response)}")
        requester = self.replicas[to.requester]
        if requester.incarnation != to.incarnation or not requester.alive:
            return
        if self._is_lost(sender.node_id, to.requester):
            return

        def deliver() -> None:
            if (sender.node_id, to.requester) not in self.cut_links:
                self._answer(requester, to.peer_id, to.request, reply.response)

        self.at(self.now + self._latency_ms(), deliver, requester)

    def _show_to_oracle(self, voter_id: int, request: Request, response: Response) -> None:
        if not isinstance(request, VoteRequest) or not isinstance(response, VoteResponse):
            return
        if response.granted and not request.pre_vote:
            self.oracle.on_vote(voter_id, request.epoch, request.candidate_id)

    def _is_lost(self, source: int, target: int) -> bool:
        if (source, target) in self.cut_links:
            return True
        loss = self.conditions.loss_percent
        return loss > 0 and self.prng.chance(loss, 100)

    def _latency_ms(self) -> int:
        return self.prng.between(*self.conditions.latency_ms)

    def _answer(
        self, requester: Replica, peer_id: int, request: Request, response: Response | None
    ) -> None:
        kept = [one for one in requester.open_requests if one[1] is not request]
        if len(kept) == len(requester.open_requests):
            return
        requester.open_requests = kept
        requester.quorum.on_response(peer_id, request, response, self.now)
        requester.end_tick()

    def _fail(self, sender: Replica, peer_id: int, request: Request, delay_ms: int) -> None:
        self.at(self.now + delay_ms, lambda: self._answer(sender, peer_id, request, None), sender)

    def _close_connections(self, node_id: int) -> None:
        for replica in self.alive():
            for peer_id, request in replica.open_requests:
                if peer_id == node_id:
                    self._fail(replica, peer_id, request, self.conditions.refused_ms)

    # Disks -------------------------------------------------------------------------------------

    def pump_disk(self, replica: Replica) -> None:
        """Completes the disk queue in order, one write at a time."""
        if replica.disk_busy or not replica.disk_queue or replica.disk_holds:
            return
        replica.disk_busy = True
        delay_ms = self.prng.between(*self.conditions.flush_ms)

        def complete() -> None:
            replica.disk_busy = False
            if replica.disk_holds:
                return
            self._carry_out(replica, replica.disk_queue.popleft())
            replica.end_tick()

        self.at(self.now + delay_ms, complete, replica)

    def release_disk(self, node_id: int) -> None:
        """A disk that was held goes on."""
        replica = self.replicas[node_id]
        replica.disk_holds = False
        self.pump_disk(replica)

    def _carry_out(self, replica: Replica, effect: Effect) -> None:
        match effect:
            case Flush(file, subject):
                replica.disk.sync(file)
                if isinstance(subject, LogFlush):
                    replica.log.on_flushed(subject)
                replica.quorum.on_flushed(subject, self.now)
            case Replace(path, data, subject):
                replica.disk.replace(path, data)
                if isinstance(subject, QuorumStateFlush):
                    replica.quorum.on_flushed(subject, self.now)
            case _:
                raise AssertionError(f"the quorum emits no {effect}")


def describe(message: Request | Response) -> str:
    """A message in one line, without what a reader of a script does not need."""
    hidden = ("cluster_id", "voter_id", "records", "max_bytes", "max_wait_ms", "log_start_offset")
    parts = [type(message).__name__]
    for name in message.__slots__:
        value = getattr(message, name)
        if name in hidden or "directory" in name or "endpoint" in name or value in (None, ()):
            continue
        if name == "preferred_candidates":
            value = [candidate.node_id for candidate in value]
        parts.append(f"{name}={getattr(value, 'name', value)}".replace(", ", ","))
    return " ".join(parts)


def roles(cluster: Cluster) -> dict[int, RoleName]:
    """Who is what, of the running replicas."""
    return {replica.node_id: replica.quorum.role for replica in cluster.alive()}
