"""One simulated broker: what survives its process, and its replication while that runs."""

from dataclasses import dataclass, field

from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.config import LogConfig, ReplicationConfig
from tidelog.env.effects import EffectQueue, Flush, Replace
from tidelog.env.event import Event
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceLine
from tidelog.log.directories import LogDirectories
from tidelog.log.directory import LogDirectory
from tidelog.log.events import DirectoryLoaded, LogDeleted, LogRestarted, LogTruncated
from tidelog.log.log import Log
from tidelog.model import TopicPartition
from tidelog.replication.replicas import Replicas
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.engine.timeline import NodeTrace


@dataclass
class Broker:
    """One broker: what survives its process, and its process if it runs."""

    node_id: int
    # Outlives every process.
    disk: SimDisk
    # Where the traces of all brokers go.
    lines: list[str]
    # Timers and bounds of replication.
    config: ReplicationConfig
    # What the logs ask of the disk; of the present process.
    effects: EffectQueue = field(default_factory=EffectQueue)
    # Counts its processes.
    incarnation: int = 0
    # Whether a process is there; `directory`, `replicas` and `sessions` are of the last one.
    running: bool = False
    # Whether it reads the metadata log at all.
    sees_metadata: bool = True
    # Has read the metadata log only up to its own registration, exclusive.
    lives_in_the_past: bool = False
    # Exclusive end of the metadata that reaches it.
    metadata_end: int = 2**62
    # Whether its device flushes; what waits for it stands below.
    flushes: bool = True
    waiting_flushes: list[Flush | Replace] = field(default_factory=list)

    def start(self) -> None:
        """A new process on the same disk."""
        self.incarnation += 1
        self.running = True
        self.effects = EffectQueue()
        self.waiting_flushes = []
        trace = Trace(NodeTrace(f"b{self.node_id}", self._note))
        self.directory = LogDirectory.open(
            self.disk,
            effects=self.effects,
            trace=trace,
            default_config=LogConfig(),
            wall_ms=1_000_000,
        )
        self.replicas = Replicas(
            node_id=self.node_id,
            directories=LogDirectories.of_one(self.directory),
            config=self.config,
            trace=trace,
        )
        self.sessions = FetchSessions(Prng(self.node_id * 1000 + self.incarnation))

    def _note(self, name: str, event: Event | TraceLine) -> None:
        # The log's own lines are left to the log's tests.
        if not isinstance(event, (LogTruncated, LogRestarted, LogDeleted, DirectoryLoaded)):
            self.lines.append(f"{name} {event.text()}")

    def log(self, topic: str, partition: int = 0) -> Log:
        """One of its logs."""
        return self.directory.logs[TopicPartition(topic, partition)]
