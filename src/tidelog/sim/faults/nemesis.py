"""Who makes things go wrong: strikes by chance, aims by name, and starts dead processes again.

A strike draws a kind among the seed's kinds and a victim: a node by chance, the controller, or the
leader or a follower of some partition. Whatever lasts is undone after a drawn time. Nothing here
waits: strikes, ends and restarts are actions in the world's queue.

Dead processes are started again by a supervisor that looks at all hosts now and then. A process
that ended by itself with an error though its disk was fine is a bug (`NoSpontaneousExit`).
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from tidelog.env.prng import Prng
from tidelog.sim.faults.budget import Budget, newest_image
from tidelog.sim.faults.kinds import FaultKind
from tidelog.sim.host import Host
from tidelog.sim.swarm import Swarm
from tidelog.sim.world import CLIENT, World

SUPERVISOR_MS: Final = 50
CLOCK_JUMP_MS: Final = 1_800_000


class SpontaneousExit(AssertionError):
    """A process gave up without a reason."""


class Nemesis:
    """The faults of one run."""

    def __init__(self, world: World, swarm: Swarm, prng: Prng, budget: Budget) -> None:
        # How often each kind struck.
        self.counts: Counter[str] = Counter()
        self._world = world
        self._swarm = swarm
        self._prng = prng
        self._budget = budget
        self._stopped = False
        # When a dead process is started again, by node.
        self._restart_at: dict[int, int] = {}
        # Nodes whose disk was made to fail since their last good start.
        self._bad_disks: dict[int, None] = {}
        # Ends of lasting faults that have not come yet, in order of the strikes.
        self._ends: dict[int, Callable[[], None]] = {}
        self._strike_count = 0
        self._strikes: dict[FaultKind, Callable[[], bool]] = {
            FaultKind.KILL: lambda: self._kill(self._victim(), reset=False),
            FaultKind.KILL_RESET: lambda: self._kill(self._victim(), reset=True),
            FaultKind.KILL_IN_WRITE: self._kill_in_write,
            FaultKind.KILL_ALL: self._kill_all,
            FaultKind.RESTART_STORM: self._restart_storm,
            FaultKind.CLEAN_STOP: self._clean_stop,
            FaultKind.PAUSE: self._pause,
            FaultKind.POWER_CUT: lambda: self._cut_power(self._victim()),
            FaultKind.POWER_CUT_ALL: self._cut_power_everywhere,
            FaultKind.CUT_ONE_WAY: lambda: self._cut(both=False),
            FaultKind.CUT: lambda: self._cut(both=True),
            FaultKind.ISOLATE: self._isolate,
            FaultKind.CUT_CLIENTS: self._cut_clients,
            FaultKind.FLAP: self._flap,
            FaultKind.SLOW_LINK: self._slow_link,
            FaultKind.SLOW_DISK: self._slow_disk,
            FaultKind.DISK_FULL: self._fill_disk,
            FaultKind.DISK_ERROR: self._break_disk,
            FaultKind.FLUSH_ERROR: self._fail_flush,
            FaultKind.CLOCK_JUMP: self._jump,
        }

    def start(self) -> None:
        """Begins to strike and to supervise."""
        self._schedule_strike()
        self._supervise()

    def heal(self) -> None:
        """Ends every fault; dead processes start again at once."""
        self._stopped = True
        while self._ends:
            self._ends.pop(next(iter(self._ends)))()
        self._restart_at.clear()
        for host in self._world.hosts.values():
            host.disk.fuse = None
            if host.node is None:
                self._restart(host)

    # Supervising ---------------------------------------------------------------------------

    def _supervise(self) -> None:
        now = self._world.now
        for node_id, host in self._world.hosts.items():
            if host.node is not None:
                self._restart_at.pop(node_id, None)
                continue
            self._judge_exit(host)
            if node_id not in self._restart_at:
                self._restart_at[node_id] = now + self._length()
            elif self._restart_at[node_id] <= now:
                del self._restart_at[node_id]
                self._restart(host)
        pause = SUPERVISOR_MS if not self._stopped else SUPERVISOR_MS * 20
        self._world.at(pause, self._supervise)

    def _judge_exit(self, host: Host) -> None:
        if host.exit_code in (None, 0):
            return
        message, host.exit_code = host.exit_message, None
        host_name = host.name
        self._world.note(f"world {host_name}: exited ({message})")
        if host.node_id in self._bad_disks:
            if host.disk.loses_on_exit:
                host.disk.crash(self._prng)
            return
        raise SpontaneousExit(f"NoSpontaneousExit: {host_name} exited: {message}")

    def _restart(self, host: Host) -> None:
        if host.disk.loses_on_exit:
            host.disk.crash(self._prng)
            host.disk.loses_on_exit = False
        started = self._world.start(host.node_id)
        self._world.note(f"world {host.name}: {'started' if started else 'did not start'}")
        if started and host.disk.is_well:
            self._bad_disks.pop(host.node_id, None)

    # Striking ------------------------------------------------------------------------------

    def _schedule_strike(self) -> None:
        gap = self._prng.between(1, self._swarm.fault_gap_ms * 2)
        self._world.at(gap, self._strike)

    def _strike(self) -> None:
        if self._stopped:
            return
        kind = self._prng.choice(self._swarm.faults)
        if self._strikes[kind]():
            self.counts[kind.value] += 1
        self._schedule_strike()

    def _length(self) -> int:
        return self._prng.between(1, self._swarm.fault_length_ms)

    def _lasting(self, name: str, end: Callable[[], None]) -> None:
        """Notes a fault that lasts, and ends it after a while."""
        self._strike_count += 1
        number = self._strike_count
        self._ends[number] = end
        length = self._length()
        self._world.note(f"world {name} for {length} ms")

        def finish() -> None:
            if self._ends.pop(number, None) is not None:
                self._world.note(f"world end of {name}")
                end()

        self._world.at(length, finish)

    def _victim(self) -> Host:
        """A node by chance, or one with a role."""
        hosts = self._world.hosts
        image = newest_image(self._world)
        aim = self._prng.below(4)
        if aim == 0:
            for host in hosts.values():
                if host.node is not None and host.node.broker.quorum.is_leader:
                    return host
        if aim >= 2 and image is not None and image.topics_by_name:
            topic = image.topics_by_name[self._prng.choice(sorted(image.topics_by_name))]
            partition = topic.partitions[self._prng.choice(sorted(topic.partitions))]
            if aim == 2 and partition.leader in hosts:
                return hosts[partition.leader]
            return hosts[self._prng.choice(partition.replicas)]
        return hosts[self._prng.choice(list(hosts))]

    # Processes -----------------------------------------------------------------------------

    def _kill(self, host: Host, *, reset: bool) -> bool:
        if host.node is None or not self._budget.may_end_uncleanly(host.node_id):
            return False
        self._world.note(f"world {host.name}: killed")
        self._budget.note_unclean(host.node_id, lossy=False)
        self._world.kill(host.node_id, reset=reset)
        return True

    def _kill_in_write(self) -> bool:
        host = self._victim()
        if host.node is None or not self._budget.may_end_uncleanly(host.node_id):
            return False
        self._budget.note_unclean(host.node_id, lossy=False)
        host.disk.fuse = self._prng.below(30)
        return True

    def _kill_all(self) -> bool:
        struck = [self._kill(host, reset=False) for host in self._world.hosts.values()]
        return any(struck)

    def _restart_storm(self) -> bool:
        host = self._victim()
        rounds = self._prng.between(2, 6)

        def again(left: int) -> None:
            if self._stopped or left == 0:
                return
            if host.node is None:
                self._restart(host)
            else:
                self._kill(host, reset=False)
            self._world.at(self._prng.between(1, 400), lambda: again(left - 1))

        again(rounds * 2)
        return True

    def _clean_stop(self) -> bool:
        host = self._victim()
        if host.node is None:
            return False
        self._world.note(f"world {host.name}: asked to stop")
        self._world.stop(host.node_id)
        return True

    def _pause(self) -> bool:
        host = self._victim()
        if not host.running:
            return False
        self._world.pause(host.node_id)
        life = host.life

        def resume() -> None:
            if host.life == life:
                self._world.resume(host.node_id)

        self._lasting(f"{host.name}: paused", resume)
        return True

    # Power ---------------------------------------------------------------------------------

    def _cut_power(self, host: Host) -> bool:
        if host.node is None or not self._budget.may_lose_data(host.node_id):
            return False
        self._world.note(f"world {host.name}: power cut")
        self._budget.note_unclean(host.node_id, lossy=True)
        self._world.power_cut(host.node_id, torn=self._prng.chance(2, 3))
        return True

    def _cut_power_everywhere(self) -> bool:
        struck = [self._cut_power(host) for host in self._world.hosts.values()]
        return any(struck)

    # Links ---------------------------------------------------------------------------------

    def _two_names(self) -> tuple[str, str]:
        first = self._victim()
        others = [host for host in self._world.hosts.values() if host is not first]
        names = [first.name, self._prng.choice(others).name]
        self._prng.shuffle(names)
        return names[0], names[1]

    def _cut_links(self, links: list[tuple[str, str]], name: str) -> None:
        network = self._world.network
        fresh = [link for link in links if link not in network.cuts]
        for link in fresh:
            network.cut(*link)

        def mend() -> None:
            for link in fresh:
                network.mend(*link)

        self._lasting(name, mend)

    def _cut(self, *, both: bool) -> bool:
        source, target = self._two_names()
        links = [(source, target), (target, source)] if both else [(source, target)]
        self._cut_links(links, f"{source}: cut {'from' if both else 'towards'} {target}")
        return True

    def _isolate(self) -> bool:
        victim = self._victim().name
        others = [host.name for host in self._world.hosts.values() if host.name != victim]
        links = [(victim, other) for other in others] + [(other, victim) for other in others]
        self._cut_links(links, f"{victim}: isolated")
        return True

    def _cut_clients(self) -> bool:
        victim = self._victim().name
        links = self._prng.choice(
            ([(victim, CLIENT)], [(CLIENT, victim)], [(victim, CLIENT), (CLIENT, victim)])
        )
        self._cut_links(list(links), f"{victim}: cut from clients {len(links)}")
        return True

    def _flap(self) -> bool:
        source, target = self._two_names()
        network = self._world.network
        ended: list[bool] = []

        def turn() -> None:
            if ended:
                return
            for link in ((source, target), (target, source)):
                if link in network.cuts:
                    network.mend(*link)
                else:
                    network.cut(*link)
            self._world.at(self._prng.between(10, 300), turn)

        def end() -> None:
            ended.append(True)
            network.mend(source, target)
            network.mend(target, source)

        turn()
        self._lasting(f"{source}: flapping link to {target}", end)
        return True

    def _slow_link(self) -> bool:
        source, target = self._two_names()
        if self._prng.chance(1, 4):
            target = CLIENT
        delays = self._world.network.delays
        delays[source, target] = (0, self._prng.choice((20, 200, 1_000)))
        self._lasting(
            f"{source}: slow link to {target}", lambda: delays.pop((source, target), None) and None
        )
        return True

    # Disks and clocks ----------------------------------------------------------------------

    def _slow_disk(self) -> bool:
        host = self._victim()
        usual = (0, self._swarm.flush_ms)
        host.flush_ms = (0, self._prng.choice((300, 3_000)))

        def end() -> None:
            host.flush_ms = usual

        self._lasting(f"{host.name}: slow disk", end)
        return True

    def _may_break_disk(self, host: Host) -> bool:
        if not host.disk.is_well or not self._budget.may_end_uncleanly(host.node_id):
            return False
        self._budget.note_unclean(host.node_id, lossy=False)
        self._bad_disks[host.node_id] = None
        return True

    def _fill_disk(self) -> bool:
        host = self._victim()
        if not self._may_break_disk(host):
            return False
        host.disk.capacity_bytes = host.disk.used_bytes + self._prng.below(2_000)

        def end() -> None:
            host.disk.capacity_bytes = None

        self._lasting(f"{host.name}: disk full", end)
        return True

    def _break_disk(self) -> bool:
        host = self._victim()
        if not self._may_break_disk(host):
            return False
        host.disk.failing = "input/output error"

        def end() -> None:
            host.disk.failing = None

        self._lasting(f"{host.name}: disk fails", end)
        return True

    def _fail_flush(self) -> bool:
        host = self._victim()
        if not self._may_break_disk(host):
            return False
        host.disk.failing_syncs = True

        def end() -> None:
            host.disk.failing_syncs = False

        self._lasting(f"{host.name}: flushes fail", end)
        return True

    def _jump(self) -> bool:
        host = self._victim()
        sign = self._prng.choice((-1, 1))
        self._world.set_wall_offset(host.node_id, sign * self._prng.below(CLOCK_JUMP_MS))
        self._lasting(
            f"{host.name}: wall clock off", lambda: self._world.set_wall_offset(host.node_id, 0)
        )
        return True
