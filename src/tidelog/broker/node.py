"""One node, broker or controller or both, in one sans-IO object.

`Node` owns no protocol of its own. It makes the components and drives them; siblings do not see
each other, so each way between two of them has a module here:

- `composition.py` opens the log directory and makes what takes more than a constructor call;
- `turns.py` gives the requests of accepted connections to the router, and `peer_answers.py` gives
  the answers of other nodes to the components that asked;
- `quorum_follower.py` and `metadata_loader.py` carry the quorum's leader and committed batches to
  the controller (which keeps the truth) and to the replicas (which follow it);
- `detector_link.py` and `call_outcomes.py` carry suspicions and the controller's decisions;
- `broker_side.py` is what only a broker does, `controller_side.py` what only a controller does;
  `process.roles` says which of them a node has. On a node without the broker the replicas are
  there and stay empty, because no partition is ever placed on it;
- `stopping.py` is the end.

A *tick* is what a driver does once per turn of its loop: any number of `receive`, then one `wake`.
`receive` handles requests; `wake` completes what waits. It runs due timers and drives all
components (`component.py`) in rounds until none of them moves anything (at most `MAX_ROUNDS`
rounds, more is a bug), then flushes one `Send` per connection. So all appends of one tick complete
parked fetches and acks once.
"""

from collections.abc import Iterator
from typing import Final

from tidelog.broker.broker_side import BrokerSide
from tidelog.broker.call_outcomes import CallOutcomes
from tidelog.broker.component import Component
from tidelog.broker.composition import open_parts
from tidelog.broker.controller_side import ControllerFlow
from tidelog.broker.detector_link import DetectorLink
from tidelog.broker.metadata_feed import MetadataFeed
from tidelog.broker.metadata_loader import ImageFollower, MetadataLoader
from tidelog.broker.metadata_snapshots import MetadataSnapshots
from tidelog.broker.peer_answers import PeerAnswers
from tidelog.broker.quorum_follower import QuorumFollower
from tidelog.broker.quorum_link import QuorumLink
from tidelog.broker.replica_link import ReplicaLink
from tidelog.broker.router import Router
from tidelog.broker.stopping import Stopping
from tidelog.broker.turns import Turns
from tidelog.config import NodeConfig
from tidelog.env.disk import Disk
from tidelog.env.effects import (
    Closed,
    Connected,
    Effect,
    Flushed,
    FlushFailed,
    Input,
    Opened,
    Received,
    StopRequested,
    WallClock,
)
from tidelog.env.instant import Instant, earliest
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, Trace, TraceSink
from tidelog.errors import LogDamaged, StorageError
from tidelog.log.partition_directories import RenamesForgotten
from tidelog.log.values import LogFlush
from tidelog.model import METADATA_PARTITION
from tidelog.replication.messages import LogStartsSaved, TruncationsAnnounced

MAX_ROUNDS: Final = 1000
"""Rounds of one tick. Outputs that produce outputs for longer are a loop between components."""


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
        trace = Trace(trace_sink, trace_level, measures=config.events.enable)
        self._parts = parts = open_parts(config, disk, Prng(seed), trace, wall_ms)
        # What the handlers see.
        self.broker = parts.broker
        # All logs, that of the metadata included.
        self._directory = parts.directory
        self._quorum = parts.quorum
        # Stay empty on a node that is only a controller.
        self._replicas = parts.replicas
        # Accepted connections, and those that this node makes.
        self._connections = parts.connections
        self._peers = parts.peers
        # Snapshots of the metadata that was published.
        self._snapshots = MetadataSnapshots(self._quorum, config.quorum, now)
        self._router = Router(self.broker, trace)
        self._turns = Turns(
            self._connections, self._router, parts.detector, trace, node_id=config.node_id, now=now
        )
        self._quorum_link = QuorumLink(config, self._quorum, peers=self._peers, router=self._router)
        self._replica_link = ReplicaLink(config, self._replicas, self._peers)
        self._stopping = Stopping(
            parts.effects,
            self._directory,
            self._quorum,
            self._quorum_link,
            lifecycle=parts.lifecycle,
            trace=trace,
        )
        # None on a node that is only a controller.
        self._broker_side = None
        if parts.lifecycle is not None:
            self._broker_side = BrokerSide(
                self.broker,
                parts.lifecycle,
                self._replica_link,
                fail=self._stopping.fail,
                trace=trace,
            )
        self._peer_answers = PeerAnswers(
            self._peers,
            parts.detector,
            quorum_link=self._quorum_link,
            replica_link=self._replica_link,
            control=parts.control,
            trace=trace,
        )
        # In the order in which each round drives them.
        self._components = tuple(self._make_components(trace))
        self._set_wall_offset(wall_ms - now)
        if METADATA_PARTITION in self._directory.remembered:
            self._quorum.distrust_log()
        self._quorum.start(now)

    def _make_components(self, trace: Trace) -> Iterator[Component]:
        """All components, in their order. A coordinator is one more."""
        parts = self._parts
        yield self._make_quorum_follower()
        if parts.controller_side is not None:
            yield ControllerFlow(parts.controller_side, self._router)
        if self._broker_side is not None:
            yield self._broker_side
        yield CallOutcomes(
            parts.control,
            controller_side=parts.controller_side,
            broker_side=self._broker_side,
            answer_forward=self._router.on_forward_outcome,
        )
        yield DetectorLink(parts.detector, self._peers, self.broker, self._quorum, trace)
        yield self._peer_answers

    def _make_quorum_follower(self) -> QuorumFollower:
        parts = self._parts
        followers: list[ImageFollower] = [self._replica_link]
        if self._broker_side is not None:
            followers.append(self._broker_side)
        loader = MetadataLoader(
            self._quorum,
            self._directory,
            self.broker,
            feed=MetadataFeed(self.config, self._replicas),
            snapshots=self._snapshots,
            controller_side=parts.controller_side,
            followers=followers,
        )
        return QuorumFollower(
            self._quorum,
            self._quorum_link,
            loader,
            node_id=self.config.node_id,
            control=parts.control,
            controller_side=parts.controller_side,
            lifecycle=parts.lifecycle,
        )

    # Verbs ---------------------------------------------------------------------------------

    def receive(self, event: Input, now: Instant) -> None:
        """Takes one input; never raises for a bad peer or a bad disk."""
        if self._stopping.is_over:
            return
        if self._stopping.is_closing:
            self._stopping.on_input(event)
            return
        try:
            self._receive(event, now)
        except (StorageError, LogDamaged) as error:
            self._stopping.on_storage_error(error)

    def _receive(self, event: Input, now: Instant) -> None:
        self._parts.metadata_log.at(now, self.broker.wall_ms(now))
        match event:
            case Received(connection_id, data):
                # This node makes those with negative numbers, the driver accepts the others.
                if connection_id < 0:
                    self._peers.on_received(connection_id, data)
                else:
                    self._turns.on_received(connection_id, data, now)
            case Opened(connection_id, listener, peer_host):
                self._connections.on_opened(connection_id, listener, peer_host)
            case Connected(connection_id):
                self._peers.on_connected(connection_id)
            case Closed(connection_id, reason):
                if connection_id < 0:
                    self._peers.on_closed(connection_id, reason)
                else:
                    self._turns.on_closed(connection_id, reason, now)
            case Flushed(subject):
                self._on_flushed(subject, now)
            case FlushFailed(subject, error):
                self._on_flush_failed(subject, error, now)
            case WallClock(offset_ms):
                self._set_wall_offset(offset_ms)
            case StopRequested():
                self._stopping.begin(now)
        self._peer_answers.flow(now)

    def wake(self, now: Instant) -> None:
        """Ends a tick: due timers, then all components until nothing moves."""
        if self._stopping.is_over or self._stopping.is_closing:
            return
        try:
            self._wake(now)
        except (StorageError, LogDamaged) as error:
            self._stopping.on_storage_error(error)

    def _wake(self, now: Instant) -> None:
        self._parts.metadata_log.at(now, self.broker.wall_ms(now))
        self._turns.wake(now)
        self._peers.wake(now)
        self._parts.detector.wake(now)
        self._parts.control.wake(now)
        for round_number in range(MAX_ROUNDS + 1):
            assert round_number < MAX_ROUNDS, "outputs keep producing outputs"
            if not self._flow(now):
                break
        if self._broker_side is not None:
            self._broker_side.answer_held(now)
        self._snapshots.wake(now)
        may_close = self._stopping.may_close(now)
        self._peers.flush()
        self._connections.flush()
        if may_close:
            self._stopping.close()

    def _flow(self, now: Instant) -> bool:
        """One round through all components; returns whether anything moved."""
        moved = False
        for component in self._components:
            moved |= component.flow(now)
            if self._stopping.is_over:
                return False
        return moved

    def deadline(self) -> Instant | None:
        """The earliest instant at which `wake` has something to do."""
        if self._stopping.is_over or self._stopping.is_closing:
            return None
        return earliest(
            self._turns.deadline(),
            self._snapshots.deadline(),
            self._stopping.deadline(),
            *[component.deadline() for component in self._components],
        )

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in the order in which they must be carried out."""
        return self._parts.effects.take()

    def check(self) -> None:
        """Asserts every invariant of every component; a node that has ended has none."""
        if self._stopping.is_over:
            return
        self._connections.check()
        self._replicas.check()
        for component in self._components:
            component.check()

    # Inputs --------------------------------------------------------------------------------

    def _set_wall_offset(self, offset_ms: int) -> None:
        self.broker.wall_offset_ms = offset_ms
        self._quorum.wall_offset_ms = offset_ms
        self._replicas.wall_offset_ms = offset_ms

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
        else:
            self._stopping.on_flush_failed(subject, error)
