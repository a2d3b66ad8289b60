"""A cluster in one process and in virtual time.

Every node runs on its own simulated disk. The `Driver` feeds the nodes and carries out their
effects, the `Network` carries their bytes; the world starts and ends processes.

How a process can end
- `kill`: SIGKILL between two events; `disk.fuse`: SIGKILL at a chosen write. The page cache
  survives, the kernel closes the streams.
- `power_cut`: what was not flushed is lost, and no peer is notified.
- `stop`: SIGTERM. `Exit` effects: the node gives up by itself; `host.exit_code` says so.
- a disk that fails while the process starts.
"""

from collections.abc import Callable, Mapping
from typing import Final

from tidelog.broker.node import Node
from tidelog.config import NodeConfig
from tidelog.env.effects import StopRequested, WallClock
from tidelog.env.event import Event
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, TraceLine
from tidelog.errors import StorageError, UsageError
from tidelog.kraft.messages import Voter
from tidelog.kraft.voters import write_first_voters
from tidelog.log.identity import read_identity
from tidelog.log.validation import NOTHING
from tidelog.replication.events.roles import FollowingBegan, LeadershipBegan, ReplicaDropped
from tidelog.sim.engine.client_machine import CLIENT, ClientMachine
from tidelog.sim.engine.disk import ProcessKilled
from tidelog.sim.engine.driver import Driver
from tidelog.sim.engine.formation import WALL_START_MS, Formation, more_disks, new_disk
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.network import Network
from tidelog.sim.engine.timeline import NodeTrace, Simulation
from tidelog.sim.engine.work import Hardware
from tidelog.sim.report.elections import Elections
from tidelog.sim.report.marks import MarksHit

ROLE_CHANGES: Final = (LeadershipBegan, FollowingBegan, ReplicaDropped)
"""By these events a driver sees that a replica changed its role."""


class World(Simulation):
    """Hosts, streams, clients, and all that happens between them."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        controllers: int = 0,
        voters_in_log: bool = False,
        settings: Mapping[str, str] | None = None,
        tweak: Callable[[NodeConfig], NodeConfig] | None = None,
        trace_level: Level = Level.INFO,
    ) -> None:
        """`nodes`, `controllers` and `voters_in_log` are those of a `Formation`; `tweak` changes
        the configuration of each node once more."""
        self.prng = Prng(seed)
        super().__init__(self.prng)
        # Rare states that were reached.
        self.marks = MarksHit()
        # How long partitions had no leader.
        self.elections = Elections()
        # Whether nodes' events are looked at only, and not written down.
        self.silent = False
        # Called with a host when its node was made, before its first input.
        self.starters: list[Callable[[Host], None]] = []
        self._trace_level = trace_level
        self.network = Network(self, Prng(self.prng.next_u64()))
        self.driver = Driver(self, self.network, self.prng, lambda host: self.kill(host.node_id))
        self.clients = ClientMachine(self, self.network)
        self.network.machines[CLIENT] = self.clients
        self.hosts: dict[int, Host] = {}
        self._by_name: dict[str, Host] = {}
        # Whether voters come and go (`kraft.version` 1).
        self.voters_in_log = voters_in_log
        formation = Formation(nodes, controllers, voters_in_log)
        for node_id in formation.node_ids:
            config = formation.config_of(node_id, settings or {})
            disk = new_disk(node_id, self.prng)
            host = Host(
                f"host{node_id}",
                config if tweak is None else tweak(config),
                disk,
                self.driver.deliver,
            )
            host.more_disks = more_disks(host.config, self.prng)
            self.hosts[node_id] = self.network.machines[host.name] = host
            self._by_name[host.name] = host
        if voters_in_log:
            first = self.as_voters
            for node_id in first:
                write_first_voters(self.hosts[node_id].disk, first, WALL_START_MS)

    def emit(self, host: str, event: Event | TraceLine) -> None:
        """Appends a line of a node's trace, and looks for a mark and a new leader."""
        self.marks.note(event)
        self.elections.note(event, host, self.now)
        if isinstance(event, ROLE_CHANGES):
            self.driver.on_role_change(self._by_name[host])
        for watch in self.watchers:
            watch(host, event)
        if not self.silent:
            self.note(f"{host} {event.text()}")

    @property
    def nodes(self) -> list[Node]:
        """The processes that run."""
        return [host.node for host in self.hosts.values() if host.node is not None]

    @property
    def as_voters(self) -> dict[int, Voter]:
        """Every controller as the voter that it is or would be."""
        voters = {}
        for node_id, host in self.hosts.items():
            if host.config.is_controller:
                with host.disk.observed():
                    directory_id = read_identity(host.disk).directory_id
                endpoints = host.config.advertised_controller_listeners
                voters[node_id] = Voter(node_id, directory_id, endpoints)
        return voters

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> bool:
        """Runs until the condition holds, and to the end of the turns in which it came to hold, so
        that every checker has seen them.

        Raises `TimeoutError` with the last trace lines when it does not hold in time.
        """
        if not super().run_until(condition, limit_ms):
            tail = "\n".join(self.lines[-40:])
            raise TimeoutError(f"not reached within {limit_ms} ms\n{tail}")
        while any(host.tick_at == self.now for host in self.hosts.values()):
            self._run_first()
        return True

    # Processes -----------------------------------------------------------------------------

    def start(self, node_id: int) -> bool:
        """Starts the process of a host on its disk; False when the disk does not let it."""
        host = self.hosts[node_id]
        assert host.node is None, f"{host.name} runs already"
        host.life += 1
        host.exit_code = None
        host.paused = False
        host.waiting = []
        if not host.powered:
            host.powered = True
            self.network.power_up(host.name)
        try:
            host.node = Node(
                host.config,
                host.disks,
                self.prng.next_u64(),
                NodeTrace(host.name, self.emit),
                now=host.local(self.now),
                wall_ms=self.wall_ms(host),
                trace_level=self._trace_level,
            )
        except ProcessKilled:
            self._end_process(host)
            return False
        except (StorageError, UsageError) as error:
            host.exit_code, host.exit_message = 1, str(error)
            self._end_process(host)
            return False
        if node_id % 2:
            # Small batches take the way of large ones here, which no workload sends.
            host.node.broker.inspections.at_once = NOTHING
        for observe in self.starters:
            observe(host)
        self.driver.on_started(host)
        return True

    def start_all(self) -> None:
        """Starts every host that is down."""
        for node_id, host in self.hosts.items():
            if host.node is None:
                self.start(node_id)

    def _end_process(self, host: Host) -> None:
        self.elections.process_ended(host.name, self.now)
        host.node = None
        host.stopping = False
        host.life += 1
        host.tick_at = host.timer_at = -1
        host.paused = False
        host.waiting = []
        host.connecting.clear()
        host.metadata_queue.clear()
        host.disk_queue.clear()
        host.flushing = None
        if host.loop is not None:
            host.loop.end_life()

    def kill(self, node_id: int, *, reset: bool = False) -> None:
        """SIGKILL: the process is gone, its kernel closes its streams, the page cache stays.
        With `reset` what is under way is lost, perhaps in the middle of a frame."""
        host = self.hosts[node_id]
        self._end_process(host)
        ends, host.ends = host.ends, {}
        for end in ends.values():
            if reset:
                self.network.reset(end)
            else:
                self.network.close(end)

    def power_cut(self, node_id: int, *, torn: bool = True) -> None:
        """The machine loses power: no stream is closed, and what was not flushed is lost, with
        `torn` only in part."""
        host = self.hosts[node_id]
        self._end_process(host)
        host.ends = {}
        host.powered = False
        for disk in host.disks:
            disk.crash(self.prng if torn else None)

    def stop(self, node_id: int) -> None:
        """SIGTERM."""
        self.hosts[node_id].stopping = self.hosts[node_id].node is not None
        self.driver.deliver(self.hosts[node_id], self.hosts[node_id].life, StopRequested())

    def pause(self, node_id: int) -> None:
        """SIGSTOP: the kernel goes on accepting and acknowledging, the process does not run."""
        self.hosts[node_id].paused = True

    def resume(self, node_id: int) -> None:
        """SIGCONT."""
        host = self.hosts[node_id]
        if not host.paused:
            return
        host.paused = False
        self.driver.resume(host)

    def wall_ms(self, host: Host) -> int:
        """What the wall clock of a machine shows."""
        return WALL_START_MS + host.local(self.now) + host.wall_offset_ms

    def set_wall_offset(self, node_id: int, offset_ms: int) -> None:
        """The wall clock of a machine jumps."""
        host = self.hosts[node_id]
        host.wall_offset_ms = offset_ms
        self.driver.deliver(host, host.life, WallClock(WALL_START_MS + offset_ms))

    def set_clock_rate(self, node_id: int, rate: int) -> None:
        """The clock of a machine goes `rate` ms while the world's goes 1000."""
        host = self.hosts[node_id]
        host.set_clock_rate(rate, self.now)
        if host.node is not None:
            host.timer_at = -1
            self.driver.queue_tick(host)

    def set_hardware(self, hardware: Hardware | None) -> None:
        """What work costs on all machines, none of them started; `None`, as at first: nothing."""
        # Changes of role are counted by their events.
        assert hardware is None or self._trace_level <= Level.INFO, "the trace leaves out too much"
        for host in self.hosts.values():
            host.set_hardware(hardware)
            if hardware is not None and hardware.flush_ms is not None:
                host.flush_ms = hardware.flush_ms

    def wipe(self, node_id: int) -> None:
        """The disks of a dead machine are replaced by empty ones, formatted for the same node."""
        host = self.hosts[node_id]
        assert host.node is None, f"{host.name} runs"
        first = new_disk(node_id, self.prng)
        host.set_disks((first, *more_disks(host.config, self.prng)))

    # Links ---------------------------------------------------------------------------------

    def cut(self, sender_id: int, receiver_id: int) -> None:
        """From now on nothing that `sender_id` sends reaches `receiver_id`."""
        self.network.cut(self.hosts[sender_id].name, self.hosts[receiver_id].name)

    def heal(self) -> None:
        """Ends all cuts; what was kept back arrives, in order."""
        for cut in sorted(self.network.cuts):
            self.network.heal(*cut)
