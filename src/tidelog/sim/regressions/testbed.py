"""What a regression scenario runs on: replicas, a quorum, a world of whole nodes, or a bare disk.

A scenario takes a `Testbed`, makes what it needs there, and states what must hold. The testbed
keeps what the report needs: the trace, virtual time, the number of events.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.config import LogConfig, NodeConfig, QuorumConfig, ReplicationConfig
from tidelog.env.effects import EffectQueue, Flush, Replace
from tidelog.env.event import Event
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, Trace, TraceLine
from tidelog.log.directory import LogDirectory
from tidelog.log.identity import format_directory
from tidelog.log.values import LogFlush
from tidelog.model import Uuid
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.engine.world import World
from tidelog.sim.quorum.cluster import QuorumCluster
from tidelog.sim.quorum.options import QUICK, Composition, Conditions
from tidelog.sim.replicas.cluster import CONFIG
from tidelog.sim.replicas.watched import WatchedCluster
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


class Testbed:
    """Makes what a scenario runs on, and keeps it for the report."""

    def __init__(self, seed: int, *, trace_level: Level = Level.INFO) -> None:
        self.seed = seed
        self.prng = Prng(seed)
        self._trace_level = trace_level
        # Everything that was made, in order.
        self._made: list[WatchedCluster | World | QuorumCluster | BareDirectory] = []

    # Making ---------------------------------------------------------------------------------

    def replicas(
        self, *nodes: int, controlled: bool = False, config: ReplicationConfig = CONFIG
    ) -> WatchedCluster:
        """Brokers' replicas, with metadata from the scenario or from the real controller."""
        cluster = WatchedCluster(nodes, seed=self.seed, controlled=controlled, config=config)
        self._made.append(cluster)
        return cluster

    def topic(
        self,
        *nodes: int,
        controlled: bool = False,
        config: ReplicationConfig = CONFIG,
        **topic_configs: str,
    ) -> WatchedCluster:
        """Brokers with a replica each of the topic `orders`; the first one leads."""
        cluster = self.replicas(*nodes, controlled=controlled, config=config)
        cluster.topic(*nodes, **topic_configs)
        return cluster

    def quorum(
        self,
        voters: int,
        *,
        config: QuorumConfig = QUICK,
        snapshot_every: int = 0,
        segment_bytes: int = 1 << 14,
    ) -> QuorumCluster:
        """A metadata quorum alone."""
        cluster = QuorumCluster(
            Prng(self.prng.next_u64()),
            composition=Composition(
                voters, snapshot_every=snapshot_every, segment_bytes=segment_bytes
            ),
            config=config,
            conditions=Conditions(),
            trace_level=self._trace_level,
        )
        self._made.append(cluster)
        return cluster

    def world(self, *, tweak: Callable[[NodeConfig], NodeConfig] | None = None) -> World:
        """Three whole nodes on a simulated network."""
        world = World(self.prng.next_u64(), tweak=tweak, trace_level=self._trace_level)
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

    # Report ---------------------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        """The trace of all that was made."""
        return [line for cluster in self._made for line in cluster.lines]

    @property
    def event_count(self) -> int:
        """Events of all nodes."""
        return sum(getattr(cluster, "event_count", 1) for cluster in self._made)

    @property
    def virtual_ms(self) -> int:
        """The time that passed."""
        return sum(getattr(cluster, "now", 0) for cluster in self._made)

    @property
    def acknowledged(self) -> int:
        """Records that were acknowledged with acks=all, where the cluster counts them."""
        return sum(len(getattr(cluster, "acknowledged", ())) for cluster in self._made)

    @property
    def trace_hash(self) -> str:
        """128 bits of the trace."""
        text = "\n".join(self.lines)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


Case = Callable[[Testbed], None]
"""A regression scenario. Raises an `AssertionError` when something breaks."""
