"""Voters and observers in virtual time: their processes, what an operator does to them, and the
checks after every event of each.

Messages travel over the `Exchange`, flushes complete on the `Disks`. After every event of a replica
its quorum is checked, and the oracles compare what it shows with what all others have shown.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from tidelog.config import LogConfig, QuorumConfig
from tidelog.env.effects import Effect, Flush, Replace
from tidelog.env.event import Event
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, Trace, TraceLine
from tidelog.errors import ErrorCode, UsageError
from tidelog.kraft import messages
from tidelog.kraft.quorum import Quorum, QuorumEnv
from tidelog.kraft.quorum_state import QuorumStateFile
from tidelog.kraft.voters import write_first_voters
from tidelog.log.loading import open_log
from tidelog.log.values import Checkpoints, LogEnv, LogFlush
from tidelog.model import METADATA_PARTITION, METADATA_TOPIC_ID, ZERO_UUID
from tidelog.sim.engine.disk import ProcessKilled, SimDisk
from tidelog.sim.engine.formation import CLUSTER_ID, WALL_START_MS
from tidelog.sim.engine.timeline import NodeTrace, Simulation, Timeline
from tidelog.sim.engine.work import EventLoop, Hardware
from tidelog.sim.quorum.exchange import Act, Exchange, ReplyTo
from tidelog.sim.quorum.membership import VoterOracle, directory_of, endpoint_of
from tidelog.sim.quorum.options import CALM_SLOWNESS, Composition, Conditions
from tidelog.sim.quorum.oracle import QuorumOracle
from tidelog.sim.quorum.replica import Replica


class QuorumCluster(Simulation):
    """Voters, observers, and everything between."""

    def __init__(
        self,
        prng: Prng,
        *,
        composition: Composition,
        config: QuorumConfig,
        conditions: Conditions,
        trace_level: Level = Level.INFO,
    ) -> None:
        super().__init__(prng)
        self._composition = composition
        # Whether the voters stand in the log.
        self.dynamic = composition.dynamic or composition.upgradable
        self.voter_oracle = VoterOracle()
        self.conditions = conditions
        self._prng = prng
        self._config = config
        self._trace_level = trace_level
        self.voters = {
            node_id: messages.Voter(
                node_id,
                directory_of(node_id) if composition.dynamic else ZERO_UUID,
                (endpoint_of(node_id),),
            )
            for node_id in range(1, composition.voters + 1)
        }
        self.oracle = QuorumOracle(self.has_durable)
        self.replicas = {
            node_id: Replica(node_id, SimDisk(f"n{node_id}"))
            for node_id in range(1, composition.voters + composition.observers + 1)
        }
        self.exchange = Exchange(self, prng, conditions, self.replicas, self._act)
        self.disks = Disks(self, prng, conditions, self._act)
        for replica in self.replicas.values() if composition.slowness else ():
            replica.loop = EventLoop(Hardware(composition.slowness))
            replica.disk.costs = replica.loop.costs
        for node_id, replica in self.replicas.items() if composition.dynamic else ():
            replica.configured = False
            if node_id in self.voters:
                write_first_voters(replica.disk, self.voters, WALL_START_MS)

    def emit(self, node: str, event: Event | TraceLine) -> None:
        """A node's trace event."""
        for watch in self.watchers:
            watch(node, event)
        if event.subject == "quorum":
            self.note(f"{node} {event.text()}")

    @property
    def as_voters(self) -> dict[int, messages.Voter]:
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

    def has_durable(self, voter: messages.Voter, batch: messages.CommittedBatch) -> bool:
        """Whether a voter's disk has the batch, and not just another epoch's at its offsets."""
        return self.has_record(voter, batch.last_offset, batch.epoch)

    def has_record(self, voter: messages.Voter, offset: int, epoch: int) -> bool:
        """Whether a voter's disk has at this offset what this epoch wrote there."""
        replica = self.replicas[voter.node_id]
        if voter.directory_id not in (ZERO_UUID, replica.key.directory_id):
            return False
        if (replica.log.recovery_point if replica.alive else replica.durable_end) <= offset:
            return False
        log = replica.log
        # What lies before the log's start is in a snapshot.
        return offset < log.log_start_offset or log.epoch_at(offset) == epoch

    # Processes -------------------------------------------------------------------------------

    def start_all(self) -> None:
        """Starts every process that does not run."""
        for replica in self.replicas.values():
            if not replica.alive:
                self.start(replica)

    def start(self, replica: Replica) -> bool:
        """Starts the process; False when its disk does not let it."""
        assert not replica.alive, f"n{replica.node_id} runs"
        replica.begin_life(self._composition.snapshot_every)
        trace = Trace(NodeTrace(f"n{replica.node_id}", self.emit), self._trace_level)
        try:
            self._open(replica, trace)
            replica.quorum.wall_offset_ms = WALL_START_MS
            replica.quorum.start(self.now)
            if replica.loop is not None:
                replica.loop.begin_life(replica.log.log_end_offset, 0)
        except (ProcessKilled, UsageError) as error:
            if isinstance(error, UsageError):
                self.note(f"n{replica.node_id} refuses to start: {error}")
            self._die(replica, replica.durable_end)
            return False
        self._act(replica, lambda: None)
        return True

    def _open(self, replica: Replica, trace: Trace) -> None:
        QuorumStateFile.require(replica.disk)
        replica.log = open_log(
            LogEnv(replica.disk, replica.effects, trace),
            METADATA_PARTITION,
            LogConfig(segment_bytes=self._composition.segment_bytes, max_message_bytes=1 << 20),
            Checkpoints(),
            clean=False,
            wall_ms=WALL_START_MS,
        )
        if replica.log.topic_id != METADATA_TOPIC_ID:
            replica.log.assign_topic_id(METADATA_TOPIC_ID)
        own = replica.voter.endpoints if self.dynamic else ()
        everybody = [endpoint_of(other) for other in self.replicas]
        replica.quorum = Quorum(
            identity=messages.VoterIdentity(*replica.key, CLUSTER_ID, own),
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
        replica.end_work()
        replica.durable_end = durable_end
        replica.disk.fuse = None
        self.exchange.on_process_ended(replica)

    def wipe(self, replica: Replica) -> None:
        """A dead replica's disk is replaced by an empty one. With voters in the log it is not a
        voter any more, and the operator does not configure it as one either."""
        assert not replica.alive, f"n{replica.node_id} runs"
        replica.disk = SimDisk(f"n{replica.node_id}")
        replica.disk.costs = None if replica.loop is None else replica.loop.costs
        replica.durable_end = 0
        if self.dynamic:
            replica.lost_disks += 1
            replica.configured = False
            self.voter_oracle.note_wiped(replica.node_id)

    def cut(self, source: int, target: int) -> None:
        """Nothing gets through in this direction."""
        self.exchange.cut(source, target)

    def heal(self) -> None:
        """All links work; what was held back arrives."""
        self.exchange.heal()

    def become_calm(self) -> None:
        """Nothing is lost any more, and nothing takes long."""
        self.conditions.become_calm()
        for replica in self.replicas.values():
            if replica.loop is not None and replica.loop.factor > CALM_SLOWNESS:
                replica.loop.move_to(Hardware(CALM_SLOWNESS))
                replica.disk.costs = replica.loop.costs

    def suspect(self, node_id: int) -> None:
        """All failure detectors report a process."""
        for replica in self.alive():
            if replica.node_id != node_id:
                self._act(replica, partial(replica.quorum.on_peer_suspected, node_id, self.now))

    def resign(self, replica: Replica) -> None:
        """A clean stop begins."""
        self._act(replica, lambda: replica.quorum.resign(self.now))

    def change_voters(self, replica: Replica, request: messages.VoterChangeRequest) -> None:
        """An operator asks a replica for another voter set."""
        # The answer names its request: an operator is not a replica.
        self._act(replica, lambda: replica.quorum.on_request(request, request, self.now))

    def upgrade(self, replica: Replica) -> None:
        """An operator asks a leader to move the configured voters to the log; a busy one does not
        listen."""
        if replica.busy:
            return
        outcomes: list[tuple[ErrorCode, str]] = []
        self._act(replica, lambda: outcomes.append(replica.quorum.upgrade_version(1, self.now)))
        if outcomes and outcomes[0][0] is ErrorCode.NONE and replica.alive:
            self.voter_oracle.note_upgrade(replica.quorum)

    def append(self, replica: Replica, values: list[bytes]) -> int | None:
        """Appends at a replica that takes itself for the leader; `None` when it does not, and when
        it is busy: it appends later then."""
        quorum, found = replica.quorum, list[int]()

        def append() -> None:
            with suppress(messages.NotLeader):
                found.append(quorum.append(values, self.now, WALL_START_MS + self.now))

        self._act(replica, append)
        return found[0] if found else None

    # Time ------------------------------------------------------------------------------------

    run = Simulation.run_for

    def _act(self, replica: Replica, *actions: Callable[[], object]) -> None:
        """Inputs of one replica, and the end of its tick; later, when it is busy."""
        if replica.busy:
            replica.waiting += actions
            return
        quorum = replica.quorum
        try:
            for action in actions:
                if replica.loop is not None:
                    replica.loop.on_input(0)
                action()
                self.event_count += 1
                # A later input may change the voters whose majority has committed a record.
                self._follow_committed(replica)
            quorum.wake(self.now)
        except ProcessKilled:
            self.note(f"world n{replica.node_id}: killed (inside a write)")
            self.kill(replica)
            return
        outputs = quorum.take_outputs()
        state = (self.now, replica.node_id, len(outputs), quorum.epoch, quorum.log_end_offset)
        self.digest.update(b"%d %d %d %d %d" % state)
        over_at = replica.end_turn(self.now, outputs)
        if over_at > self.now:
            free = replica.in_this_life(lambda: self._become_free(replica))
            self.at(over_at - self.now, free)
            self._check(replica)
            return
        self._let_go(replica, outputs)
        self._check(replica)
        self._set_timer(replica)

    def _become_free(self, replica: Replica) -> None:
        """A turn is over: what it wanted to send leaves, and what waited is handled."""
        assert replica.loop is not None, "work is free"
        outputs, replica.loop.under_way = replica.loop.under_way, None
        self._let_go(replica, outputs or [])
        self._set_timer(replica)
        waiting, replica.waiting = replica.waiting, []
        if waiting and replica.alive:
            # All of them before a timer: one that was to be fetched from by then has been.
            self._act(replica, *waiting)

    def _let_go(self, replica: Replica, outputs: list[messages.Output]) -> None:
        for output in outputs:
            if isinstance(output, messages.SendRequest):
                self.exchange.send_request(replica, output)
            else:
                self._send_reply(replica, output)
        self.disks.take(replica)

    def _set_timer(self, replica: Replica) -> None:
        deadline = replica.quorum.deadline()
        if deadline is None or deadline == replica.timer_at:
            return
        # A turn that took long may be over behind the next deadline.
        if replica.loop is None:
            assert deadline > self.now, f"n{replica.node_id} spins at {self.now}"
        replica.timer_at = deadline
        expire = replica.in_this_life(lambda: self._on_timer(replica, deadline))
        self.at(max(0, deadline - self.now), expire)

    def _send_reply(self, sender: Replica, reply: messages.Reply) -> None:
        to, response = reply.reply_to, reply.response
        if isinstance(to, messages.VoterChangeRequest):
            assert isinstance(response, messages.VoterChangeResponse), f"{response}"
            self.voter_oracle.check_answer(sender.node_id, sender.quorum, to, response)
            return
        request = to.request if isinstance(to, ReplyTo) else None
        granted = isinstance(response, messages.VoteResponse) and response.granted
        if granted and isinstance(request, messages.VoteRequest) and not request.pre_vote:
            self.oracle.check_vote(sender.key, request.epoch, request.candidate_id)
        self.exchange.send_reply(sender, reply)

    def _on_timer(self, replica: Replica, due: int) -> None:
        if replica.timer_at == due:
            replica.timer_at = -1
            self._act(replica, lambda: None)

    def _check(self, replica: Replica) -> None:
        quorum = replica.quorum
        quorum.check()
        assert quorum.high_watermark >= replica.high_watermark, "HighWatermarkMonotonic"
        replica.high_watermark = quorum.high_watermark
        if quorum.is_leader and self.oracle.check_election_safety(replica.node_id, quorum.epoch):
            self.oracle.check_leader_completeness(replica.node_id, quorum, replica.log)
        if self.dynamic:
            self.voter_oracle.check_sets(replica.node_id, quorum, self.oracle.end_offset)
        self._follow_committed(replica)
        if not replica.saving and replica.state.wants_step(quorum):
            replica.saving = True
            step = replica.in_this_life(lambda: self._act(replica, lambda: self._save(replica)))
            self.at(1, step)

    def _follow_committed(self, replica: Replica) -> None:
        for each in replica.quorum.take_committed():
            if isinstance(each, messages.LoadedSnapshot):
                self.oracle.check_snapshot(replica.node_id, each.snapshot_id, each.records)
            else:
                self.oracle.check_committed(replica.node_id, each, replica.quorum)
            replica.state.take(each)

    def _save(self, replica: Replica) -> None:
        replica.saving = False
        state, before = replica.state, replica.quorum.latest_snapshot
        self.oracle.check_snapshot(replica.node_id, state.snapshot_id, state.records)
        state.step(replica.quorum)
        assert replica.quorum.latest_snapshot == before, "SnapshotDurable: counted before its flush"


class Disks:
    """The disk queues of all replicas: one effect after the other, each after a drawn time."""

    def __init__(self, timeline: Timeline, prng: Prng, conditions: Conditions, act: Act) -> None:
        self._timeline = timeline
        self._prng = prng
        self._conditions = conditions
        self._act = act

    def take(self, replica: Replica) -> None:
        """Queues what the replica asks of its disk since the last time."""
        was_idle = not replica.disk_queue
        replica.disk_queue.extend(replica.effects.take())
        if was_idle:
            self._begin(replica)

    def resume(self, replica: Replica) -> None:
        """A stalled disk goes on."""
        replica.stalled = False
        self._begin(replica)

    def _begin(self, replica: Replica) -> None:
        if replica.disk_queue and not replica.stalled:
            delay_ms = self._prng.between(0, self._conditions.flush_ms)
            self._timeline.at(delay_ms, replica.in_this_life(lambda: self._complete(replica)))

    def _complete(self, replica: Replica) -> None:
        if replica.stalled:
            return
        effect = replica.disk_queue.popleft()
        self._begin(replica)
        self._act(replica, lambda: self._carry_out(replica, effect))

    def _carry_out(self, replica: Replica, effect: Effect) -> None:
        match effect:
            case Flush(file, subject):
                replica.disk.sync(file)
                if isinstance(subject, LogFlush):
                    replica.log.on_flushed(subject)
                replica.quorum.on_flushed(subject, self._timeline.now)
            case Replace(path, data, subject):
                replica.disk.replace(path, data)
                if subject is not None:
                    replica.quorum.on_flushed(subject, self._timeline.now)
            case _:
                raise AssertionError(f"a quorum emits no {effect}")
