"""What a regression scenario runs on: replicas, a quorum, a world of whole nodes, or a bare disk.

A scenario takes a `Testbed`, makes what it needs there, and states what must hold. The testbed
keeps what the report needs: the trace, virtual time, the number of events.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidelog.config import LogConfig, NodeConfig, QuorumConfig, ReplicationConfig
from tidelog.env.effects import EffectQueue, Flush, Replace
from tidelog.env.event import Event
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, Trace, TraceLine
from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.log.directory import LogDirectory
from tidelog.log.identity import format_directory
from tidelog.log.values import LogFlush
from tidelog.metadata.image import PartitionImage
from tidelog.model import Uuid
from tidelog.sim.engine.client import Disconnected, SimClient
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.engine.work import FREE, HARDWARE
from tidelog.sim.engine.world import World
from tidelog.sim.quorum.cluster import QuorumCluster
from tidelog.sim.quorum.options import QUICK, Composition, Conditions
from tidelog.sim.replicas.cluster import CONFIG, NO_PRODUCER_ID, Producer
from tidelog.sim.replicas.controlled import ControlledFeed
from tidelog.sim.replicas.reading import written_in
from tidelog.sim.replicas.watched import TOPIC, WatchedCluster
from tidelog.sim.report.outcome import Outcome
from tidelog.sim.report.violation import Violation


@dataclass(eq=False)
class BareDirectory:
    """One log directory on a simulated disk, without a node."""

    disk: SimDisk
    # The trace of the logs.
    lines: list[str] = field(default_factory=list)
    # What the directory asked its driver for.
    effects: EffectQueue = field(default_factory=EffectQueue)

    def emit(self, event: Event | TraceLine) -> None:
        """Takes one event of the trace."""
        self.lines.append(event.text())

    def open(self, config: LogConfig) -> LogDirectory:
        """Loads the directory, as a process that starts does."""
        self.effects = EffectQueue()
        return LogDirectory.open(
            self.disk,
            effects=self.effects,
            trace=Trace(self),
            default_config=config,
            wall_ms=1_000_000,
        )

    def carry_out(self, directory: LogDirectory) -> None:
        """Does what was asked for, in order."""
        for effect in self.effects.take():
            if isinstance(effect, Flush):
                self.disk.sync(effect.file)
                if isinstance(effect.subject, LogFlush):
                    directory.logs[effect.subject.topic_partition].on_flushed(effect.subject)
            elif isinstance(effect, Replace):
                self.disk.replace(effect.path, effect.data)


class Scene(WatchedCluster):
    """Brokers with replicas of `orders`, and the steps of a scenario on them.

    Let `then_ms` pass after a step. What the scenario leaves behind is healed and judged at its
    end (`finish`), unless it says `is_beyond_help`.
    """

    # Whether a broker is out of service for good.
    is_beyond_help = False

    @property
    def controlled(self) -> ControlledFeed:
        """The real controller."""
        assert isinstance(self.feed, ControlledFeed), "the real controller decides"
        return self.feed

    @property
    def newest(self) -> PartitionImage:
        """The partition by the newest metadata."""
        return self.feed.partition(TOPIC)

    def send(
        self,
        node: int,
        *values: str,
        acks: int = -1,
        producer: Producer = NO_PRODUCER_ID,
        key: bytes | None = None,
        then_ms: int = 0,
    ) -> str:
        """Sends one batch; returns the name of the request."""
        name = super().send(node, *values, acks=acks, producer=producer, key=key)
        self._pass(then_ms)
        return name

    def elect(self, leader: int, *isr: int, then_ms: int = 0) -> None:
        """The metadata names a leader with this ISR, by default with itself alone."""
        self.feed.change(TOPIC, leader=leader, isr=isr or (leader,))
        self._pass(then_ms)

    def set_isr(self, *isr: int, then_ms: int = 0) -> None:
        """The metadata has another ISR."""
        self.feed.change(TOPIC, isr=isr)
        self._pass(then_ms)

    def start(self, node: int, *, unfence: bool = True, then_ms: int = 0) -> None:
        """Starts a process, registers it, and lets it see the metadata."""
        super().start(node, unfence=unfence)
        self._pass(then_ms)

    def part(self, *nodes: int, then_ms: int = 0) -> None:
        """No two of these brokers receive anything of each other."""
        self.cut |= {(one, other) for one in nodes for other in nodes if one != other}
        self._pass(then_ms)

    def reunite(self, *, then_ms: int = 0) -> None:
        """All links work again."""
        self.cut.clear()
        self._pass(then_ms)

    def release(self, sender: int, receiver: int, *, then_ms: int = 0) -> None:
        """Delivers what was kept back on a link, and keeps nothing back any more."""
        super().release(sender, receiver)
        self._pass(then_ms)

    def silence(self, *nodes: int, then_ms: int = 0) -> None:
        """The heartbeats of these brokers, and of no others, do not reach the controller."""
        self.silent = set(nodes)
        self._pass(then_ms)

    def _pass(self, for_ms: int) -> None:
        if for_ms:
            self.run(for_ms)

    def must_hold(self, node: int, *values: str, name: str = "Setup") -> None:
        """Raises `Violation` unless a replica's log has just these values."""
        held = self.values(node)
        if held != list(values):
            raise Violation(name, f"b{node} has {held}")


class SmallCluster:
    """Whole nodes with one topic `t` of one partition, as a client and an operator see them."""

    def __init__(self, world: World) -> None:
        """Starts all nodes and creates the topic."""
        self._world = world
        world.start_all()
        world.run_until(lambda: self._active_count() == len(world.hosts), 20_000)
        code = SimClient(world, 1).create_topic("t")
        assert code == ErrorCode.NONE, f"Setup: no topic, {code}"
        world.run_until(lambda: len(self._known()) == len(world.hosts), 20_000)
        world.run_for(500)

    @property
    def partition(self) -> PartitionImage:
        """The newest metadata that any running node has."""
        return max(self._known(), key=lambda partition: partition.partition_epoch)

    @property
    def leader(self) -> int:
        """The leader by the newest metadata, -1 for none."""
        return self.partition.leader

    def read_all(self, count: int) -> list[bytes]:
        """The values that a consumer reads from offset 0 on, at most so many; it asks again, of
        the leader of that moment, when it is put off. What cannot be decoded ends it."""
        values: list[bytes] = []
        for _ in range(300):
            if len(values) >= count:
                break
            try:
                values += self._read(len(values))
            except CorruptBatch as damage:
                return [*values, str(damage).encode()]
            except Disconnected:
                pass
            self._world.run_for(100)
        return values

    def _read(self, offset: int) -> list[bytes]:
        leader = self.leader
        if leader < 0 or self._world.hosts[leader].node is None:
            return []
        answer = SimClient(self._world, leader).fetch("t", 0, offset).partitions[0]
        if answer.error_code is not ErrorCode.NONE:
            return []
        return [record.value or b"" for record in written_in(answer) if record.offset >= offset]

    def knows_everywhere(self, topic: str) -> bool:
        """Whether every node runs and has a topic in its metadata."""
        return all(
            host.node is not None and topic in host.node.broker.image.topics_by_name
            for host in self._world.hosts.values()
        )

    def log_files(self) -> dict[int, bytes]:
        """All bytes of the partition's segments, by node."""
        return {
            node_id: b"".join(
                host.disk.read_file(f"t-0/{name}") or b""
                for name in host.disk.list_dir("t-0")
                if name.endswith(".log")
            )
            for node_id, host in self._world.hosts.items()
        }

    def _known(self) -> list[PartitionImage]:
        return [
            topic.partitions[0]
            for host in self._world.hosts.values()
            if host.node is not None
            and (topic := host.node.broker.image.topics_by_name.get("t")) is not None
        ]

    def _active_count(self) -> int:
        nodes = [host.node for host in self._world.hosts.values() if host.node is not None]
        return min(
            sum(broker.active for broker in node.broker.image.brokers.values()) for node in nodes
        )


class Testbed:
    """Makes what a scenario runs on, and keeps it for the report."""

    def __init__(self, seed: int, *, trace_level: Level = Level.INFO) -> None:
        self.seed = seed
        self.prng = Prng(seed)
        self._trace_level = trace_level
        # Everything that was made, in order.
        self._made: list[Scene | World | QuorumCluster | BareDirectory] = []

    # Making ---------------------------------------------------------------------------------

    def replicas(
        self, *nodes: int, controlled: bool = False, config: ReplicationConfig = CONFIG
    ) -> Scene:
        """Brokers' replicas, with metadata from the scenario or from the real controller."""
        cluster = Scene(nodes, seed=self.seed, controlled=controlled, config=config)
        self._made.append(cluster)
        return cluster

    def topic(
        self,
        *nodes: int,
        controlled: bool = False,
        config: ReplicationConfig = CONFIG,
        first: str = "",
        **topic_configs: str,
    ) -> Scene:
        """Brokers with a replica each of the topic `orders`, where broker 1 leads; with a `first`
        record, all know that it is committed."""
        cluster = self.replicas(*nodes, controlled=controlled, config=config)
        cluster.topic(*nodes, **topic_configs)
        if first:
            cluster.send(1, first, then_ms=150)
        return cluster

    def quorum(
        self, *, config: QuorumConfig = QUICK, snapshot_every: int = 0, segment_bytes: int = 1 << 14
    ) -> QuorumCluster:
        """A metadata quorum alone, of three voters."""
        cluster = QuorumCluster(
            Prng(self.prng.next_u64()),
            composition=Composition(3, snapshot_every=snapshot_every, segment_bytes=segment_bytes),
            config=config,
            conditions=Conditions(),
            trace_level=self._trace_level,
        )
        self._made.append(cluster)
        return cluster

    def world(
        self,
        *,
        tweak: Callable[[NodeConfig], NodeConfig] | None = None,
        settings: Mapping[str, str] | None = None,
        hardware: str = FREE,
    ) -> World:
        """Three whole nodes on a simulated network."""
        level = self._trace_level if hardware == FREE else min(self._trace_level, Level.INFO)
        world = World(self.prng.next_u64(), settings=settings, tweak=tweak, trace_level=level)
        world.set_hardware(HARDWARE[hardware])
        self._made.append(world)
        return world

    def disk(self) -> BareDirectory:
        """A formatted disk."""
        disk = SimDisk("disk")
        format_directory(
            disk, cluster_id="cluster", node_id=1, directory_id=Uuid(bytes(15) + b"\1")
        )
        cluster = BareDirectory(disk)
        self._made.append(cluster)
        return cluster

    # Judging --------------------------------------------------------------------------------

    def must(self, holds: bool, name: str, text: str) -> None:
        """Raises `Violation` unless the property holds."""
        if not holds:
            raise Violation(name, text)

    def finish(self) -> None:
        """The end of a scenario: all replicas that can be healed are, and are judged."""
        for made in self._made:
            if isinstance(made, Scene) and not made.is_beyond_help:
                made.finish()

    # Report ---------------------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        """The trace of all that was made."""
        return [line for cluster in self._made for line in cluster.lines]

    def report(self, outcome: Outcome) -> None:
        """What all that was made has come to: events, time, acknowledged records, and 128 bits of
        the trace."""

        def total(name: str, otherwise: int) -> int:
            return sum(getattr(made, name, otherwise) for made in self._made)

        outcome.events = total("event_count", 1)
        outcome.virtual_ms = total("now", 0)
        outcome.acknowledged = sum(len(getattr(made, "acknowledged", ())) for made in self._made)
        text = "\n".join(self.lines)
        outcome.trace_hash = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


Case = Callable[[Testbed], None]
"""A regression scenario. Raises an `AssertionError` when something breaks."""
