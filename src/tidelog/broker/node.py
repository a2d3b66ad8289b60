"""One node, broker or controller or both, in one sans-IO object.

`Node` owns no protocol of its own. It makes the components and drives them; siblings do not see
each other, so each way between two of them has a module here:

- `composition.py` makes the parts; `opening.py` opens the log directories first;
- `links.py` has the ways to other nodes;
- `turns.py` gives the requests of accepted connections to the router, and `peer_answers.py` gives
  the answers of other nodes to the components that asked;
- `quorum_follower.py` carries the quorum's leader and committed batches to the controller (which
  keeps the truth) and to the replicas (which follow it);
- `detector_link.py` and `call_outcomes.py` carry suspicions and the controller's decisions;
- `broker_side.py` is what only a broker does, `controller_side.py` what only a controller does;
  `process.roles` says which of them a node has. On a node without the broker the replicas are
  there and stay empty, because no partition is ever placed on it;
- `stopping.py` is the end.

A *tick* is what a driver does once per turn of its loop: any number of `receive`, then one `wake`.
`receive` handles requests; `wake` completes what waits. It runs due timers and drives all
components (`Component`) in rounds until none of them moves anything (at most `MAX_ROUNDS`
rounds, more is a bug), then flushes one `Send` per connection. So all appends of one tick complete
parked fetches and acks once.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from tidelog.broker.broker_side import BrokerSide
from tidelog.broker.call_outcomes import CallOutcomes
from tidelog.broker.composition import open_parts
from tidelog.broker.connections import Connection
from tidelog.broker.controller_side import ControllerSide
from tidelog.broker.detector_link import DetectorLink
from tidelog.broker.events import CertificateUnnamed
from tidelog.broker.key_stores import HeldAlteration
from tidelog.broker.links import make_links
from tidelog.broker.metadata_feed import MetadataFeed
from tidelog.broker.metadata_snapshots import MetadataSnapshots
from tidelog.broker.peer_answers import PeerAnswers
from tidelog.broker.quorum_follower import ImageFollower, QuorumFollower
from tidelog.broker.router import Router
from tidelog.broker.stopping import Stopping
from tidelog.broker.turns import Turns
from tidelog.config import NodeConfig
from tidelog.env import effects
from tidelog.env.disk import Disk, OfflineDisk
from tidelog.env.instant import Instant, earliest
from tidelog.env.steps import ClientFigures
from tidelog.env.trace import Level, Trace, TraceSink
from tidelog.errors import LogDamaged, StorageError
from tidelog.log.cleaning.swap import CleanedFlush
from tidelog.log.values import LogFlush, LogsRecovered
from tidelog.model import METADATA_PARTITION, TopicPartition
from tidelog.replication.moves import MoveFlush
from tidelog.replication.replicas import Checkpointed
from tidelog.security.principal_mapping import PrincipalRules

MAX_ROUNDS: Final = 1000
"""Rounds of one tick. Outputs that produce outputs for longer are a loop between components."""


class Component(Protocol):
    """A part of the node with timers of its own and outputs for other parts."""

    def flow(self, now: Instant) -> bool:
        """One round: handles due timers, then carries outputs to their receivers. Returns whether
        there were any; if so, all components have another round in this tick."""

    def deadline(self) -> Instant | None:
        """The earliest instant at which a timer is due."""

    def check(self) -> None:
        """Asserts its invariants."""


class Node:
    """A broker, a controller, or both; see the module's text. Verbs: `receive`, `wake`, `deadline`,
    `take_effects`, `check` (`ARCHITECTURE.md`)."""

    def __init__(
        self,
        config: NodeConfig,
        disks: Sequence[Disk | OfflineDisk],
        seed: int,
        trace_sink: TraceSink,
        *,
        now: Instant,
        wall_ms: int,
        trace_level: Level = Level.INFO,
    ) -> None:
        """Opens the log directories and the metadata log, which is on the first disk; the other
        logs follow in the turns.

        Raises `UsageError` for a directory that is not this node's, `StorageError` for a first disk
        that is bad.
        """
        self.config = config
        trace = Trace(trace_sink, trace_level, measures=config.events.enable)
        self._trace = trace
        # By the listeners whose clients are known by their certificates; not those with a login.
        self._principal_rules = {
            listener: PrincipalRules(tls.principal_mapping_rules)
            for listener, tls in config.tls.items()
            if not config.security_protocols[listener].uses_sasl
        }
        # What it is doing: for a driver that measures how long that takes.
        self.steps = trace.steps
        self._parts = parts = open_parts(config, disks, seed, trace, wall_ms)
        # What the handlers see.
        self.broker = parts.broker
        # All logs, that of the metadata included.
        self._directories = parts.broker.directories
        self._quorum = self.broker.quorum
        # Stay empty on a node that is only a controller.
        self._replicas = self.broker.replicas
        # Accepted connections, and those that this node makes.
        self._connections = self.broker.connections
        self._peers = parts.peers
        # Snapshots of the metadata that was published.
        self._snapshots = MetadataSnapshots(self._quorum, config.quorum, self.steps, now)
        self._router = router = Router(self.broker, trace)
        self._turns = self._make_turns(router, now)
        # The ways to other nodes.
        self._links = make_links(config, parts, router)
        self._stopping = self._make_stopping(trace)
        self._broker_side = self._make_broker_side()
        # None on a node that is only a broker.
        self._controller_side = self._make_controller_side(router)
        self._peer_answers = self._make_peer_answers()
        # In the order in which each round drives them.
        self._components = tuple(self._make_components(router))
        self._set_wall_offset(wall_ms - now)
        if METADATA_PARTITION in self._directories.metadata.remembered:
            self._quorum.distrust_log()
        self._quorum.start(now)

    @property
    def client_figures(self) -> ClientFigures:
        """What it counts of its clients."""
        logins = self.broker.logins
        return ClientFigures(self.broker.throttling.pauses, logins.succeeded, logins.failed)

    @property
    def under_replicated(self) -> int:
        """How many partitions it leads whose ISR is smaller than their replicas."""
        count = 0
        for one in self._replicas.partitions.values():
            leadership = one.leadership
            if leadership is not None and len(leadership.isr) < len(one.replicas):
                count += 1
        return count

    def _make_peer_answers(self) -> PeerAnswers:
        return PeerAnswers(
            node_id=self.config.node_id,
            peers=self._peers,
            detector=self._parts.detector,
            links=self._links,
            control=self.broker.control,
            trace=self._trace,
        )

    def _make_turns(self, router: Router, now: Instant) -> Turns:
        return Turns(
            self._connections,
            router,
            self._parts.detector,
            self._trace,
            work=self._replicas.work,
            node_id=self.config.node_id,
            now=now,
        )

    def _make_stopping(self, trace: Trace) -> Stopping:
        return Stopping(
            effects=self._parts.effects,
            directories=self._directories,
            replicas=self._replicas,
            quorum=self._quorum,
            quorum_link=self._links.quorum,
            snapshots=self._snapshots,
            lifecycle=self._parts.lifecycle,
            trace=trace,
        )

    def _make_broker_side(self) -> BrokerSide | None:
        """None on a node that is only a controller."""
        if self._parts.lifecycle is None:
            return None
        return BrokerSide(
            broker=self.broker,
            directories=self._directories,
            lifecycle=self._parts.lifecycle,
            replica_link=self._links.replicas,
            transaction_checks=self._links.transaction_checks,
            fail=self._stopping.fail,
        )

    def _make_controller_side(self, router: Router) -> ControllerSide | None:
        """None on a node that is only a broker."""
        if self.broker.controller is None or self._parts.registration is None:
            return None
        return ControllerSide(
            controller=self.broker.controller,
            registration=self._parts.registration,
            detector=self._parts.detector,
            router=router,
        )

    def _make_components(self, router: Router) -> Iterator[Component]:
        """All components, in their order."""
        parts, broker, broker_side = self._parts, self.broker, self._broker_side
        controller_side = self._controller_side
        followers: list[ImageFollower] = [
            broker.authorization,
            broker.throttling,
            self._links.replicas,
            self._links.transaction_checks,
            parts.credentials,
            broker.key_stores,
        ]
        if broker_side is not None:
            followers += [broker.groups, broker.transactions, broker.shares, self._links.markers]
            followers += [broker.share_states, broker.sharing, broker_side.lifecycle]
        self._quorum_follower = QuorumFollower(
            broker=broker,
            quorum_link=self._links.quorum,
            directory=self._directories.metadata,
            feed=MetadataFeed(self.config, self._replicas, broker.trace),
            snapshots=self._snapshots,
            controller_side=controller_side,
            lifecycle=parts.lifecycle,
            followers=followers,
        )
        yield self._quorum_follower
        if controller_side is not None:
            yield controller_side
        if broker_side is not None:
            yield broker_side
            yield broker.groups
            yield broker.transactions
            yield broker.shares
            yield broker.share_states
            yield self._links.markers
            yield self._links.transaction_checks
            yield broker.sharing
        yield CallOutcomes(
            control=broker.control,
            controller_side=controller_side,
            broker_side=broker_side,
            answer_forward=router.on_forward_outcome,
        )
        yield broker.logins
        yield DetectorLink(detector=parts.detector, peers=self._peers, broker=broker)
        yield self._peer_answers

    # Verbs ---------------------------------------------------------------------------------

    def receive(self, event: effects.Input, now: Instant) -> None:
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

    def _receive(self, event: effects.Input, now: Instant) -> None:
        self._parts.metadata_log.at(now, self.broker.wall_ms(now))
        match event:
            case effects.Received(connection_id, data):
                # This node makes those with negative numbers, the driver accepts the others.
                if connection_id < 0:
                    self._peers.on_received(connection_id, data)
                else:
                    self._turns.on_received(connection_id, data, now)
            case effects.Opened(connection_id, listener, peer_host, certificate):
                connection = self._connections.on_opened(connection_id, listener, peer_host, now)
                self.broker.logins.on_opened(connection, now)
                self.broker.throttling.on_opened(connection, now)
                if certificate is not None and listener in self._principal_rules:
                    self._name(connection, self._principal_rules[listener], certificate)
            case effects.Connected(connection_id):
                self._peers.on_connected(connection_id)
            case effects.Closed(connection_id, reason):
                if connection_id < 0:
                    self._peers.on_closed(connection_id, reason)
                else:
                    self._turns.on_closed(connection_id, reason, now)
            case effects.Stalled(connection_id, stalled):
                self._connections.on_stalled(connection_id, stalled)
            case effects.Flushed(subject):
                self._on_flushed(subject, now)
            case effects.FlushFailed(subject, error, disk):
                self._on_flush_failed(subject, error, disk, now)
            case effects.WallClock(offset_ms):
                self._set_wall_offset(offset_ms)
            case effects.KeysFetched(url, document):
                self._parts.keys.on_fetched(url, document)
            case effects.TokenFetched(listener, token):
                self._parts.own_logins[listener].token = token
            case effects.StoresChecked(HeldAlteration() as held, refusal):
                self._router.on_stores_checked(held, refusal, now)
            case effects.Computed() as computed:
                connection_id = self.broker.inspections.on_computed(computed, now)
                self.broker.throttling.on_spent({connection_id: computed.spent_ns}, now)
            case effects.Spent(times_ns):
                self.broker.throttling.on_spent(times_ns, now)
            case effects.StopRequested():
                self._stopping.begin(now)
        self._peer_answers.flow(now)

    def _name(self, connection: Connection, rules: PrincipalRules, certificate: bytes) -> None:
        """Gives a connection the principal of its certificate, or closes it if there is none."""
        principal = rules.principal_of(certificate)
        if principal is None:
            self._trace.event(
                CertificateUnnamed(
                    connection_id=connection.connection_id, peer=connection.peer_host
                )
            )
            self._connections.drop(connection)
        else:
            connection.principal = principal

    def wake(self, now: Instant) -> None:
        """Ends a tick: due timers, then all components until nothing moves."""
        if self._stopping.is_over:
            return
        try:
            if self._stopping.is_closing:
                self._stopping.save_logs()
            else:
                self._wake(now)
        except (StorageError, LogDamaged) as error:
            self._stopping.on_storage_error(error)

    def has_opened(self, partition: TopicPartition, directory_number: int = 0) -> bool:
        """Whether the start has opened a log in this directory, or found it damaged. True of every
        log once it has ended; never true of a directory that is offline."""
        directory = self._directories.online.get(directory_number)
        if directory is None:
            return False
        return directory.is_loaded or partition in directory.logs or partition in directory.damaged

    def _wake(self, now: Instant) -> None:
        self._parts.metadata_log.at(now, self.broker.wall_ms(now))
        self._turns.wake(now)
        for connection_id in self._connections.take_ended():
            self.broker.sharing.on_connection_closed(connection_id, now)
            self.broker.groups.on_connection_closed(connection_id, now)
        if self._directories.has_logs_to_load:
            self.steps.begin("logs load")
            self._directories.load(self.config.replication.metadata_work_per_turn)
            self.steps.begin("tick")
        self.broker.long_answers.wake(now)
        self._peers.wake(now)
        self._parts.detector.wake(now)
        self.broker.control.wake(now)
        self._quorum_follower.begin_tick()
        if self._controller_side is not None:
            self._controller_side.wake(now)
        self.broker.groups.wake(now)
        self.broker.transactions.wake(now)
        self.broker.shares.wake(now)
        self._links.markers.wake(now)
        self._replicas.work.on_tick(now)
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
        if self._stopping.is_over:
            return None
        if self._stopping.is_closing:
            return self._stopping.deadline()
        return earliest(
            Instant(0)
            if self._directories.has_logs_to_load or self._connections.has_ended
            else None,
            self._turns.deadline(),
            self.broker.long_answers.deadline(),
            self._snapshots.deadline(),
            self._stopping.deadline(),
            *[component.deadline() for component in self._components],
        )

    def take_effects(self) -> list[effects.Effect]:
        """The effects since the last call, in the order in which they must be carried out."""
        return self._parts.effects.take()

    def check(self) -> None:
        """Asserts every invariant of every component; a node that has ended has none."""
        if self._stopping.is_over:
            return
        self._connections.check()
        self.broker.long_answers.check()
        self.broker.inspections.check()
        self._replicas.check()
        for component in self._components:
            component.check()

    # Inputs --------------------------------------------------------------------------------

    def _set_wall_offset(self, offset_ms: int) -> None:
        self.broker.wall_offset_ms = offset_ms
        self.broker.logins.wall_offset_ms = offset_ms
        self._quorum.wall_offset_ms = offset_ms
        self._replicas.wall_offset_ms = offset_ms
        self._replicas.transactions.wall_offset_ms = offset_ms
        self.broker.groups.wall_offset_ms = offset_ms
        self.broker.transactions.wall_offset_ms = offset_ms
        self.broker.shares.wall_offset_ms = offset_ms
        self.broker.sharing.held.wall_offset_ms = offset_ms
        if self.broker.controller is not None:
            self.broker.controller.wall_offset_ms = offset_ms

    def _on_flushed(self, subject: object, now: Instant) -> None:
        match subject:
            case LogFlush() if subject.topic_partition != METADATA_PARTITION:
                self._replicas.on_flushed(subject, now)
            case CleanedFlush() | MoveFlush():
                self._replicas.on_flushed(subject, now)
            case LogsRecovered():
                self._directories.on_logs_recovered(subject)
            case _ if isinstance(subject, Checkpointed):
                self._replicas.on_checkpointed(subject, now)
            case _:
                if isinstance(subject, LogFlush):
                    self._directories.logs[METADATA_PARTITION].on_flushed(subject)
                self._quorum.on_flushed(subject, now)

    def _on_flush_failed(self, subject: object, error: str, disk: int, now: Instant) -> None:
        if disk:
            self._replicas.on_directory_failed(disk, f"flush failed: {error}")
        elif isinstance(subject, CleanedFlush) or (
            isinstance(subject, LogFlush) and subject.topic_partition != METADATA_PARTITION
        ):
            self._replicas.on_flush_failed(subject, error, now)
        else:
            self._stopping.on_flush_failed(subject, error)
