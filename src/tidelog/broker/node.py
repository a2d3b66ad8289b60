"""One node, broker or controller or both, in one sans-IO object.

`Node` owns no protocol of its own. It opens the log directory, makes the rooms, and carries values
between them, because siblings do not see each other:

- inputs go to the room they belong to: connection events to `connections` or `peers`, flush
  completions to the log's owner;
- the quorum's committed batches go to the controller (which keeps the truth) and, as a delta, to
  the replicas (which follow it);
- what only a broker does is in `broker_side.py`, what only a controller does in
  `controller_side.py`; `process.roles` says which of them a node has. On a node without the broker
  the replicas are there and stay empty, because no partition is ever placed on it;
- what rooms want to say to other nodes goes out through `peers`; what they answer goes back through
  `connections` in the order of the requests.

A *tick* is what a driver does once per turn of its loop: any number of `receive`, then one `wake`.
`receive` only takes input; `wake` runs due timers and lets the rooms' outputs flow until nothing
moves (at most `MAX_ROUNDS` rounds, more is a bug), then flushes one `Send` per connection. So all
appends of one tick complete parked fetches and acks once. A connection that sent more requests
than a turn takes has the rest handled in the ticks that follow at once.

Invariant `MetadataFollowsLog`: the image given to the replicas is the fold of all committed batches
up to its offset, and offsets only grow.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from tidelog.broker.api import k55_describe_quorum
from tidelog.broker.broker_side import BrokerSide
from tidelog.broker.connections import Connection, Connections
from tidelog.broker.context import Broker
from tidelog.broker.control_link import CallEnded, ControlLink, ForwardDecided
from tidelog.broker.controller_side import ControllerSide
from tidelog.broker.events import (
    AnswerIgnored,
    DirectoryFailed,
    MetadataFlushFailed,
    NodeStopped,
    PeerLostContact,
    PeerSuspected,
)
from tidelog.broker.events import PeerReached as PeerReachedEvent
from tidelog.broker.failure_detector import FailureDetector
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.lifecycle import BrokerLifecycle, BrokerState
from tidelog.broker.metadata_feed import MetadataFeed
from tidelog.broker.metadata_log import MetadataLog
from tidelog.broker.metadata_snapshots import MetadataSnapshots, with_images
from tidelog.broker.peers import Answered, Failed, PeerChannels, PeerLost, PeerReached, Purpose
from tidelog.broker.quorum_link import QuorumLink
from tidelog.broker.replica_link import ReplicaLink
from tidelog.broker.router import Router
from tidelog.config import LogConfig, NodeConfig
from tidelog.controller.controller import Controller
from tidelog.env.disk import Buffer, Disk
from tidelog.env.effects import (
    Closed,
    CloseReason,
    Connected,
    Effect,
    EffectQueue,
    Exit,
    Flushed,
    FlushFailed,
    Input,
    Opened,
    Received,
    StopRequested,
    WallClock,
)
from tidelog.env.instant import NEVER, Instant, earliest
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, Trace, TraceSink
from tidelog.errors import LogDamaged, MalformedFrame, StorageError, UsageError
from tidelog.kraft import voter_codec
from tidelog.kraft.messages import Voter, VoterIdentity
from tidelog.kraft.quorum import Quorum, QuorumEnv
from tidelog.kraft.quorum_state import QuorumStateFile
from tidelog.limits import MAX_REQUESTS_PER_TURN
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.directory import DirectoryClosed, LogDirectory, RenamesForgotten, read_identity
from tidelog.log.log import LogFlush
from tidelog.model import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    NO_EPOCH,
    NO_LEADER,
    ZERO_UUID,
    Uuid,
)
from tidelog.replication.messages import LogStartsSaved, TruncationsAnnounced
from tidelog.replication.replicas import Replicas
from tidelog.wire import codec
from tidelog.wire.api import ApiKey

GOODBYE_LIMIT_MS: Final = 1000
"""How long a leader that stops waits for somebody to follow it."""
MAX_ROUNDS: Final = 1000
"""Rounds of one tick; outputs that keep producing outputs for longer are a loop between rooms."""


class Node:
    """A broker, a controller, or both; see the module's text. Verbs: `receive`, `wake`, `deadline`,
    `take_effects`, `check` (`ARCHITECTURE.md`)."""

    def __init__(
        self,
        config: NodeConfig,
        disk: Disk,
        seed: int,
        trace_sink: TraceSink,
        *,
        now: Instant,
        wall_ms: int,
        trace_level: Level = Level.INFO,
    ) -> None:
        """Opens the log directory and recovers it, which takes as long as the disk needs.

        Raises `UsageError` for a directory that is not this node's, `StorageError` for a bad disk.
        """
        self.config = config
        self._trace = Trace(trace_sink, trace_level, measures=config.events.enable)
        self._effects = EffectQueue()
        self._prng = Prng(seed)
        self._connections = Connections.obeying(self._effects, config.broker)
        self._peers = PeerChannels(self._effects)
        self._detector = FailureDetector(config.quorum.disconnect_grace_ms)
        self._directory = self._open_directory(disk, wall_ms)
        self._quorum = self._make_quorum(disk)
        self._metadata_log = MetadataLog(self._quorum)
        # None on a node that is only a broker.
        self._controller_side = self._make_controller_side()
        controller = None if self._controller_side is None else self._controller_side.controller
        self._replicas = self._make_replicas()
        self._feed = MetadataFeed(config, self._replicas)
        # Snapshots of what the feed has published.
        self._snapshots = MetadataSnapshots(self._quorum, config.quorum, now)
        self._control = self._make_control_link(controller)
        self.broker = self._make_broker(controller, disk)
        self._router = Router(self.broker, self._trace)
        self._quorum_link = QuorumLink(
            config,
            self._quorum,
            peers=self._peers,
            connections=self._connections,
            router=self._router,
        )
        self._replica_link = ReplicaLink(config, self._replicas, self._peers)
        # None on a node that is only a controller.
        self._broker_side = self._make_broker_side()
        # What the controller was last told about the quorum's leadership.
        self._told_leader: tuple[int, int] = (-2, -1)
        # `Quorum.turn_count` when its news were last taken.
        self._quorum_turns_seen = -1
        # The last tick; requests left over ask for another one at once.
        self._woken_at = now
        # Whether a clean stop was asked for; a broker leaves by its own steps.
        self._stop_requested = False
        # Until when the stop waits for voters to hear that this leader has resigned.
        self._goodbye_by = NEVER
        # The last disk effect of a clean stop: until it is durable nothing else matters.
        self._closing: DirectoryClosed | None = None
        # Set by the last step of a stop: nothing is done any more.
        self._exited = False
        self._set_wall_offset(wall_ms - now)
        if METADATA_PARTITION in self._directory.remembered:
            self._quorum.distrust_log()
        self._quorum.start(now)

    def _open_directory(self, disk: Disk, wall_ms: int) -> LogDirectory:
        # Nothing is touched in a directory that this node must not use.
        owner_id = read_identity(disk).node_id
        if owner_id != self.config.node_id:
            raise UsageError(
                f"data directory `{disk.root}` belongs to node `{owner_id}`, "
                f"not to node `{self.config.node_id}`",
                "set `node.id` or `log.dirs` to match, or format another directory",
            )
        if self.config.is_controller and set(self.config.voters) != {self.config.node_id}:
            QuorumStateFile.require(disk)
        directory = LogDirectory.open(
            disk,
            effects=self._effects,
            trace=self._trace,
            default_config=self.config.log,
            wall_ms=wall_ms,
        )
        # All of it will be read anyway, and it must not be found damaged when it is half replayed.
        if not directory.is_sound(METADATA_PARTITION):
            directory.repair(METADATA_PARTITION, METADATA_TOPIC_ID, LogConfig(), remember=True)
        if METADATA_PARTITION not in directory.logs:
            directory.create(METADATA_PARTITION, METADATA_TOPIC_ID, LogConfig())
        elif directory.logs[METADATA_PARTITION].topic_id != METADATA_TOPIC_ID:
            # A power cut may leave the name of the file without its content.
            directory.logs[METADATA_PARTITION].assign_topic_id(METADATA_TOPIC_ID)
        # What `log.*` says is for topics.
        directory.logs[METADATA_PARTITION].config = LogConfig(
            segment_bytes=self.config.quorum.segment_bytes,
            segment_ms=self.config.quorum.segment_ms,
        )
        return directory

    def _make_broker(self, controller: Controller | None, disk: Disk) -> Broker:
        return Broker(
            config=self.config,
            cluster_id=self._directory.cluster_id,
            connections=self._connections,
            replicas=self._replicas,
            quorum=self._quorum,
            controller=controller,
            control=self._control,
            fetch_sessions=FetchSessions(
                Prng(self._prng.next_u64()), self.config.broker.max_fetch_sessions
            ),
            trace=self._trace,
            disk=disk,
        )

    def _make_control_link(self, controller: Controller | None) -> ControlLink:
        return ControlLink(
            node_id=self.config.node_id,
            controller=controller,
            peers=self._peers,
            request_timeout_ms=self.config.broker.request_timeout_ms,
            session_timeout_ms=self.config.broker.session_timeout_ms,
        )

    def _make_replicas(self) -> Replicas:
        return Replicas(
            node_id=self.config.node_id,
            directory=self._directory,
            config=self.config.replication,
            trace=self._trace,
        )

    def _make_quorum(self, disk: Disk) -> Quorum:
        config, directory = self.config, self._directory
        identity = VoterIdentity(
            config.node_id,
            directory.directory_id,
            directory.cluster_id,
            config.advertised_controller_listeners if config.is_controller else (),
        )
        voters = {
            node_id: Voter(
                node_id,
                directory.directory_id if node_id == config.node_id else ZERO_UUID,
                (endpoint,),
            )
            for node_id, endpoint in config.voters.items()
        }
        return Quorum(
            identity=identity,
            voters=voters,
            log=directory.logs[METADATA_PARTITION],
            config=config.quorum,
            env=QuorumEnv(disk, self._effects, Prng(self._prng.next_u64()), self._trace),
            bootstrap=config.bootstrap_servers,
        )

    def _make_controller_side(self) -> ControllerSide | None:
        if not self.config.is_controller:
            return None
        return ControllerSide(
            self.config,
            cluster_id=self._directory.cluster_id,
            log=self._metadata_log,
            detector=self._detector,
            prng=Prng(self._prng.next_u64()),
            trace=self._trace,
        )

    def _make_broker_side(self) -> BrokerSide | None:
        if not self.config.is_broker:
            return None
        previous = self._directory.clean_shutdown or CleanShutdown()
        lifecycle = BrokerLifecycle(
            config=self.config,
            cluster_id=self._directory.cluster_id,
            directory_id=self._directory.directory_id,
            incarnation_id=previous.incarnation_id or Uuid(self._prng.uuid()),
            previous_broker_epoch=previous.broker_epoch,
            trace=self._trace,
        )
        return BrokerSide(self.broker, lifecycle, self._replica_link, self._trace)

    # Verbs ---------------------------------------------------------------------------------

    def receive(self, event: Input, now: Instant) -> None:
        """Takes one input; never raises for a bad peer or a bad disk."""
        if self._exited:
            return
        try:
            self._receive(event, now)
        except (StorageError, LogDamaged) as error:
            self._on_storage_error(error)

    def _receive(self, event: Input, now: Instant) -> None:
        if self._closing is not None:
            self._on_input_while_closing(event)
            return
        self._metadata_log.at(now, self.broker.wall_ms(now))
        match event:
            case Received(connection_id, data):
                self._on_received(connection_id, data, now)
            case Opened(connection_id, listener, peer_host):
                self._connections.on_opened(connection_id, listener, peer_host)
            case Connected(connection_id):
                self._peers.on_connected(connection_id)
            case Closed(connection_id, reason):
                self._on_closed(connection_id, reason, now)
            case Flushed(subject):
                self._on_flushed(subject, now)
            case FlushFailed(subject, error):
                self._on_flush_failed(subject, error, now)
            case WallClock(offset_ms):
                self._set_wall_offset(offset_ms)
            case StopRequested():
                self._stop_requested = True
                if self._broker_side is not None:
                    self._broker_side.lifecycle.begin_shutdown(now)
        if self._peers.has_outputs:
            self._drain_peers(now)

    def wake(self, now: Instant) -> None:
        """Ends a tick: due timers, then everything flows until nothing moves."""
        if self._exited or self._closing is not None:
            return
        try:
            self._wake(now)
        except (StorageError, LogDamaged) as error:
            self._on_storage_error(error)

    def _wake(self, now: Instant) -> None:
        self._metadata_log.at(now, self.broker.wall_ms(now))
        self._woken_at = now
        self._connections.close_idle(now)
        if self._connections.has_turns:
            self._serve_left_over(now)
        self._peers.wake(now)
        self._detector.wake(now)
        self._control.wake(now)
        for round_number in range(MAX_ROUNDS + 1):
            assert round_number < MAX_ROUNDS, "outputs keep producing outputs"
            if not self._flow(now):
                break
        if self._broker_side is not None:
            self._broker_side.answer_questions(now)
        self._snapshots.wake(now)
        self._maybe_leave(now)
        self._peers.flush()
        self._connections.flush()

    def deadline(self) -> Instant | None:
        """The earliest instant at which `wake` has something to do."""
        if self._exited or self._closing is not None:
            return None
        return earliest(
            self._quorum.deadline(),
            self._snapshots.deadline(),
            None if self._controller_side is None else self._controller_side.deadline(),
            None if self._broker_side is None else self._broker_side.deadline(),
            self._leave_at,
            self._control.deadline(),
            self._peers.deadline(),
            self._detector.deadline(),
            self._woken_at if self._connections.has_turns else None,
            self._connections.idle_deadline(),
        )

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in the order in which they must be carried out."""
        return self._effects.take()

    def check(self) -> None:
        """Asserts every invariant of every room; a node that has ended has none."""
        if self._exited:
            return
        self._connections.check()
        self._peers.check()
        self._detector.check()
        self._quorum.check()
        if self._controller_side is not None:
            self._controller_side.controller.check()
        self._replicas.check()
        assert self.broker.image.offset <= self._quorum.high_watermark, "MetadataFollowsLog"

    def _set_wall_offset(self, offset_ms: int) -> None:
        self.broker.wall_offset_ms = offset_ms
        self._quorum.wall_offset_ms = offset_ms
        self._replicas.wall_offset_ms = offset_ms

    # Inputs --------------------------------------------------------------------------------

    def _on_received(
        self, connection_id: int, data: bytes | bytearray | memoryview, now: Instant
    ) -> None:
        if connection_id < 0:
            self._peers.on_received(connection_id, data)
            return
        connection = self._connections.get(connection_id)
        if connection is None:
            return
        try:
            frames = connection.frames.feed(data)
        except MalformedFrame as fault:
            subject = f"connection {connection_id}"
            self._trace.warn(
                subject, "on_received", "closed", fault.message, peer=connection.peer_host
            )
            self._connections.drop(connection)
            return
        if frames:
            self._connections.touch(connection, now)
        handled = 0
        if not connection.backlog:
            handled = self._serve(connection, frames[:MAX_REQUESTS_PER_TURN], now)
        if handled < len(frames):
            self._connections.put_off(connection, frames[handled:])
        if connection.broker_id is not None:
            self._detector.on_reached(connection.broker_id)

    def _serve(self, connection: Connection, frames: Sequence[Buffer], now: Instant) -> int:
        """Handles requests as long as the connection has room; returns how many."""
        handled = 0
        for frame in frames:
            if not connection.has_room:
                break
            self._router.on_frame(connection, memoryview(frame), now)
            handled += 1
        return handled

    def _serve_left_over(self, now: Instant) -> None:
        """A turn for connections that sent more than one turn takes."""
        for connection in self._connections.take_turns():
            turn = list(islice(connection.backlog, MAX_REQUESTS_PER_TURN))
            self._connections.end_turn(connection, self._serve(connection, turn, now))

    def _on_closed(self, connection_id: int, reason: CloseReason, now: Instant) -> None:
        if connection_id < 0:
            self._peers.on_closed(connection_id, reason)
            return
        connection = self._connections.on_closed(connection_id)
        if connection is not None and connection.broker_id not in (None, self.config.node_id):
            assert connection.broker_id is not None
            self._detector.on_connection_lost(connection.broker_id, reason, now)

    def _on_flushed(self, subject: object, now: Instant) -> None:
        match subject:
            case LogFlush() if subject.topic_partition != METADATA_PARTITION:
                self._replicas.on_flushed(subject, now)
            case TruncationsAnnounced() | LogStartsSaved() | RenamesForgotten():
                self._replicas.on_checkpointed(subject, now)
            case _:
                if isinstance(subject, LogFlush):
                    self._directory.logs[METADATA_PARTITION].on_flushed(subject)
                self._quorum.on_flushed(subject, now)

    def _on_flush_failed(self, subject: object, error: str, now: Instant) -> None:
        if isinstance(subject, LogFlush) and subject.topic_partition != METADATA_PARTITION:
            self._replicas.on_flush_failed(subject, error, now)
            return
        self._trace.event(MetadataFlushFailed(reason=error, what=str(subject)))
        self._exit(
            1,
            f"metadata could not be made durable: {error}; hint: free space or repair the disk, "
            "then start the node again",
        )

    def _on_storage_error(self, error: StorageError | LogDamaged) -> None:
        # Rooms keep the failures of their own files to themselves; what comes up to here hit the
        # metadata log or the directory as a whole, in the middle of a step. Only an end is safe.
        self._trace.event(DirectoryFailed(reason=str(error)))
        self._exit(
            1,
            f"the log directory failed: {error}; hint: free space or repair the disk, then start "
            "the node again",
        )

    def _drain_peers(self, now: Instant) -> None:
        # At once, not at the end of the tick: response frames are views of the driver's buffer.
        for output in self._peers.take_outputs():
            match output:
                case Answered(peer_id, purpose, token, frame):
                    self._on_answered(peer_id, purpose, token, frame, now)
                case Failed(peer_id, purpose, token, _):
                    self._on_failed(peer_id, purpose, token, now)
                case PeerReached(peer_id) if peer_id >= 0:
                    self._detector.on_reached(peer_id)
                case PeerLost(peer_id, reason) if peer_id >= 0:
                    self._detector.on_connection_lost(peer_id, reason, now)
                case PeerReached() | PeerLost():
                    pass  # A bootstrap server: an address, nobody knows whose.

    def _on_answered(
        self, peer_id: int, purpose: Purpose, token: object, frame: memoryview | bytes, now: Instant
    ) -> None:
        try:
            match purpose:
                case Purpose.QUORUM_FETCH | Purpose.QUORUM_RPC:
                    self._quorum_link.on_answered(peer_id, token, frame, now)
                case Purpose.REPLICA_FETCH:
                    self._replica_link.on_answered(token, frame, now)
                case _:
                    self._control.on_answered(token, frame, now)
        except MalformedFrame as fault:
            self._trace.event(AnswerIgnored(peer_id=peer_id, reason=fault.message))
            self._on_failed(peer_id, purpose, token, now)

    def _on_failed(self, peer_id: int, purpose: Purpose, token: object, now: Instant) -> None:
        match purpose:
            case Purpose.QUORUM_FETCH | Purpose.QUORUM_RPC:
                self._quorum_link.on_failed(peer_id, token, now)
            case Purpose.REPLICA_FETCH:
                self._replica_link.on_failed(token, now)
            case _:
                self._control.on_failed(token, now)

    # Flow ----------------------------------------------------------------------------------

    def _flow(self, now: Instant) -> bool:
        """One round through all rooms; returns whether anything moved."""
        self._quorum.wake(now)
        moved = False
        if self._quorum.turn_count != self._quorum_turns_seen:
            self._quorum_turns_seen = self._quorum.turn_count
            moved = self._quorum_link.flow(now)
            moved |= self._tell_leadership(now)
            moved |= self._flow_committed(now)
        if self._controller_side is not None:
            moved |= self._controller_side.flow(self._router, now)
            self._register_controller(self._controller_side, now)
        if self._broker_side is not None:
            moved |= self._broker_side.flow(now)
            if self._broker_side.failure is not None:
                self._exit(1, self._broker_side.failure)
                return False
        if self._control.has_outcomes:
            moved |= self._flow_outcomes(now)
        if not self._detector.is_calm or self.broker.unreachable:
            moved |= self._flow_detector(now)
        if self._peers.has_outputs:
            self._drain_peers(now)
            moved = True
        return moved

    def _tell_leadership(self, now: Instant) -> bool:
        leader_id, epoch = self._quorum.leader_id, self._quorum.epoch
        if (leader_id, epoch) == self._told_leader:
            return False
        endpoint = self._quorum.endpoint_of(leader_id)
        if endpoint is None:
            # A leader of whom only the own disk speaks, and that the voters do not name any more:
            # as good as none until somebody says where it is reached.
            leader_id = NO_LEADER
            if (leader_id, epoch) == self._told_leader:
                return False
        elif leader_id != self.config.node_id:
            self._quorum_link.set_address(leader_id, endpoint)
        self._told_leader = (leader_id, epoch)
        self._control.leader_id = leader_id
        if self._controller_side is not None:
            self._controller_side.on_leader_change(self._quorum, now)
        if self._broker_side is not None and leader_id >= 0:
            self._broker_side.lifecycle.on_controller_changed(now)
        return True

    def _flow_committed(self, now: Instant) -> bool:
        if METADATA_PARTITION in self._directory.remembered and not self._quorum.must_catch_up:
            self._directory.forget_former_end(METADATA_PARTITION)
        committed = self._quorum.take_committed()
        if not committed:
            return False
        news = with_images(committed)
        controller = self._controller_side
        became_active = controller is not None and controller.on_committed(news, now)
        image = self.broker.image = self._feed.publish(news, now)
        self._snapshots.on_committed(committed, image, now)
        self._replica_link.set_addresses(image)
        if self._broker_side is not None:
            self._broker_side.on_image(image)
        if controller is not None:
            controller.registration.on_image(image)
            if became_active:
                controller.on_became_active(image, now)
        return True

    def _register_controller(self, side: ControllerSide, now: Instant) -> None:
        call = side.registration.next_call(now)
        if call is not None:
            self._control.call(call, side.registration, now)

    def _flow_outcomes(self, now: Instant) -> bool:
        outcomes = self._control.take_outcomes()
        for outcome in outcomes:
            if isinstance(outcome, CallEnded):
                side = self._controller_side
                if side is not None and outcome.token is side.registration:
                    side.registration.on_response(outcome.response, now)
                else:
                    assert self._broker_side is not None, f"a call of nobody: {outcome}"
                    self._broker_side.on_call_ended(outcome, now)
            else:
                self._on_forward_decided(outcome, now)
        return bool(outcomes)

    def _on_forward_decided(self, outcome: ForwardDecided, now: Instant) -> None:
        forward, response = outcome.forward, outcome.response
        pending = forward.pending
        if not pending.connection.open:
            return
        version = pending.header.api_version
        if response is None and pending.header.api_key is not ApiKey.DESCRIBE_QUORUM:
            self._quorum.on_request(voter_codec.request_of(forward.request), forward, now)
        elif response is None:
            entity = k55_describe_quorum.response(self.broker, version, forward.request, now)
            self.broker.answer(pending, entity)
        elif isinstance(response, bytes):
            self._connections.fill(pending, [len(response).to_bytes(4, "big") + response])
        else:
            entity = forward.module.entity_of(self.broker, version, forward.request, response)
            framed = codec.encode_response(pending.header, entity)
            self._connections.fill(pending, [framed])

    def _flow_detector(self, now: Instant) -> bool:
        for node_id in self._detector.take_probes():
            if not self._peers.knows(node_id, Purpose.PROBE):
                endpoint = self._quorum.endpoint_of(node_id)
                if endpoint is None:
                    self._detector.on_reached(node_id)
                    continue
                self._peers.set_address(node_id, Purpose.PROBE, endpoint.host, endpoint.port)
            if self._peers.probe(node_id):
                self._detector.on_reached(node_id)
        in_doubt = self._detector.in_doubt
        for node_id in sorted(in_doubt - self.broker.unreachable):
            if self._trace.measures:
                self._trace.event(PeerLostContact(node_id=node_id))
        self.broker.unreachable = in_doubt
        changes = self._detector.take_changes()
        for node_id, suspected in changes:
            if suspected:
                self._trace.event(PeerSuspected(node_id=node_id))
                self._quorum.on_peer_suspected(node_id, now)
            else:
                self._trace.event(PeerReachedEvent(node_id=node_id))
            if self._controller_side is None:
                continue
            if suspected:
                self._controller_side.controller.on_broker_suspected(node_id, now)
            else:
                self._controller_side.controller.on_broker_reachable(node_id, now)
        return bool(changes)

    # The end -------------------------------------------------------------------------------

    @property
    def _is_stop_due(self) -> bool:
        """Whether a clean stop may end: a broker was let go, a controller just goes."""
        if self._broker_side is not None:
            return self._broker_side.lifecycle.state is BrokerState.GONE
        return self._stop_requested

    @property
    def _broker_epoch(self) -> int:
        return NO_EPOCH if self._broker_side is None else self._broker_side.lifecycle.broker_epoch

    @property
    def _leave_at(self) -> Instant:
        if not self._is_stop_due:
            return NEVER
        return Instant(0) if self._goodbye_by == NEVER else self._goodbye_by

    def _maybe_leave(self, now: Instant) -> None:
        if not self._is_stop_due or self._exited:
            return
        if self._goodbye_by == NEVER:
            self._goodbye_by = Instant(now + GOODBYE_LIMIT_MS)
            self._quorum.resign(now)
            self._quorum_link.flow(now)
        if self._quorum.is_resigning and now < self._goodbye_by:
            return
        self._peers.flush()
        self._connections.flush()
        marker = CleanShutdown()
        if self._broker_side is not None:
            marker = self._broker_side.lifecycle.last_words(self._directory.clean_shutdown)
        self._closing = self._directory.close_cleanly(marker)

    def _on_input_while_closing(self, event: Input) -> None:
        match event:
            case Flushed(subject) if subject == self._closing:
                self._trace.event(NodeStopped(broker_epoch=self._broker_epoch))
                failure = "" if self._broker_side is None else self._broker_side.lifecycle.failure
                self._exit(1 if failure else 0, failure)
            case FlushFailed(_, error):
                self._exit(1, f"the stop is not clean, the next start recovers: {error}")
            case _:
                pass

    def _exit(self, code: int, message: str) -> None:
        self._effects.emit(Exit(code, message))
        self._exited = True
