"""One seed of the cluster tier: faults and work, then healing, then judgement.

Phases
1. The cluster starts and clients begin; the nemesis strikes for `fault_phase_ms`.
2. Everything heals. Within `HEAL_LIMIT_MS` all brokers must be unfenced, every partition led with
   a full ISR, every send resolved (`Liveness`, V5).
3. A probe is acknowledged on every partition within `PROBE_LIMIT_MS` and what the disks need for
   it; a new consumer reads everything from the beginning.
4. The end checkers judge.

An `AssertionError` anywhere, of a node, a client or a checker, is a failure of the seed; its text
begins with the name of the property, or describes the broken assertion.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tidelog.broker.node import Node
from tidelog.env.trace import Level
from tidelog.records.compression import Codec
from tidelog.sim.checkers.base import Checker, Evidence
from tidelog.sim.checkers.devices import CommittedIsDurable, DisksAreSound, RecoveredFromImage
from tidelog.sim.checkers.metadata import OneChangeAtATime
from tidelog.sim.checkers.readings import RestartLosesNothing
from tidelog.sim.checkers.throttles import ThrottledOnTheWhole
from tidelog.sim.checkers.turns import BoundedTurn, TimeGoesOn
from tidelog.sim.checkers.watch import Watch, checkers
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.secured import secure
from tidelog.sim.engine.work import FREE, HARDWARE
from tidelog.sim.engine.world import World
from tidelog.sim.evidence.history import History, Key, Polled
from tidelog.sim.evidence.oracle import Oracle, partition_id
from tidelog.sim.evidence.unavailability import unavailable_ms
from tidelog.sim.faults.budget import Budget, is_back, newest_image
from tidelog.sim.faults.nemesis import Nemesis
from tidelog.sim.report.outcome import Outcome
from tidelog.sim.report.violation import Violation
from tidelog.sim.scenarios.swarm import Swarm, draw, stream
from tidelog.sim.workloads.cluster_view import ClusterView
from tidelog.sim.workloads.consumer import Consumer, ReadOptions
from tidelog.sim.workloads.producer import Acks, Producer
from tidelog.sim.workloads.workload import Workload

HEAL_LIMIT_MS: Final = 60_000
PROBE_LIMIT_MS: Final = 10_000
# With group commit, on a disk that does one thing after the other, of a first record: the leader's
# epochs, topic id and log, the recovery points, and the follower's epochs, topic id and log.
FLUSHES_PER_PROBE: Final = 7
# Of all partitions of a node that are being cleaned, one after the other: so many, and more where
# there are many segments.
FLUSHES_OF_CLEANERS: Final = 1000
FLUSHES_PER_CLEANED_SEGMENT: Final = 5
READ_LIMIT_MS: Final = 20_000
CHECK_EVERY: Final = 7
SWEEP_EVERY: Final = 100
MIN_ISR: Final = 2


def world_of(seed: int, swarm: Swarm, trace_level: Level = Level.INFO) -> World:
    """The machines of a run, none of them started."""
    world = World(
        stream(seed, "world").next_u64(),
        nodes=swarm.nodes,
        controllers=swarm.controllers,
        voters_in_log=swarm.voters_in_log,
        settings=swarm.settings(),
        tweak=swarm.tweak,
        trace_level=trace_level,
    )
    world.set_hardware(HARDWARE[swarm.hardware])
    for host in world.hosts.values():
        host.flush_ms = swarm.flush_range_ms
    if swarm.secured:
        secure(world, stream(seed, "logins").next_u64())
    return world


class ClusterRun:
    """One seed's world, clients, faults and checkers."""

    def __init__(
        self, seed: int, swarm: Swarm | None = None, *, trace_level: Level = Level.INFO
    ) -> None:
        self.seed = seed
        self.swarm = draw(seed) if swarm is None else swarm
        self.world = world_of(seed, self.swarm, trace_level)
        self.world.driver.check_every = CHECK_EVERY
        self.world.network.split_percent = self.swarm.split_percent
        self.history = History()
        self.oracle = Oracle()
        self.evidence = Evidence(self.world, self.oracle, self.history)
        self.nemesis = Nemesis(
            self.world,
            self.swarm,
            stream(seed, "faults"),
            Budget(self.world, group_commit=self.swarm.group_commit),
            device_prng=stream(seed, "disks"),
            aimed_prng=stream(seed, "aims"),
        )
        self._restarts = stream(seed, "restart")
        self._recovered = RecoveredFromImage()
        for host in self.world.hosts.values():
            for disk in host.disks:
                disk.on_crash = self._recovered.before_power_cut
        self.world.starters.append(self._recovered.after_opening)
        self._voters = OneChangeAtATime()
        self.workload = Workload(self.world, self.history, self.swarm, seed, self._voters.oracle)
        self.outcome = Outcome(seed)
        # Called with every line of the trace.
        self.listeners = self.world.listeners
        self._watch = Watch(
            self.evidence, [*checkers(), *self._disk_checkers()], sweep_every=SWEEP_EVERY
        )
        self.world.driver.observers.append(self._look)
        TimeGoesOn(self.world)
        ThrottledOnTheWhole(self.world)
        if self.swarm.hardware != FREE:
            BoundedTurn(self.world)
        if self.swarm.voters_in_log:
            self.world.driver.observers.append(self._voters.on_event)

    def run(self) -> Outcome:
        """Runs the seed to its end, good or bad."""
        with self.outcome.judged():
            self._run_phases()
        self.outcome.events = self.world.event_count
        self.outcome.virtual_ms = self.world.now
        self.outcome.acknowledged = self.history.acknowledged_count
        self.outcome.faults = self.nemesis.counts
        # What the disks made of the faults is counted there.
        by_disks = [disk.fired for host in self.world.hosts.values() for disk in host.disks]
        self.outcome.fired = sum(by_disks, start=self.nemesis.fired)
        self.outcome.marks = tuple(sorted({*self.world.marks.names, *self._voters.oracle.marks}))
        self.outcome.election_ms = tuple(self.world.elections.durations_ms)
        self.outcome.unavailable_ms = unavailable_ms(self.history)
        self.outcome.trace_hash = self.world.trace_hash
        return self.outcome

    def _run_phases(self) -> None:
        world = self.world
        world.start_all()
        self.workload.start()
        self.nemesis.start()
        world.run_for(self.swarm.fault_phase_ms)
        world.note("world heals")
        healed_at = world.now
        self.nemesis.heal()
        self.workload.stop()
        self._until(
            "Liveness", self._is_healthy, HEAL_LIMIT_MS + self._backlog_ms, self._complaints
        )
        self.outcome.healed_ms = world.now - healed_at
        self._probe()
        # A follower that waits on a half-open stream was in sync before the last records came.
        # Segments that were sealed faster than a slow disk takes them come to their end, file by
        # file, and cleaners that are at work when the last write is in.
        limit_ms = HEAL_LIMIT_MS + self._backlog_ms + self._cleaning_ms
        self._until("Liveness", self._is_level, limit_ms, self._what_is_not_level)
        self.workload.judge()
        self.evidence.final = self._read_all("final")
        self.evidence.final_at = world.now
        if self.swarm.restart_at_end:
            self._restart_all()
            self.evidence.after_restart = self._read_all("again")
        self._watch.at_end()

    # Disks ---------------------------------------------------------------------------------

    def _disk_checkers(self) -> list[Checker]:
        """What looks at the devices every so often, and at the end."""
        at_end = [DisksAreSound(), RestartLosesNothing()] if self.swarm.restart_at_end else []
        if not self.swarm.group_commit or self.swarm.damages:
            # What was durable may be damaged on one device at a time.
            return at_end
        # An operator may turn the min ISR down to one.
        alone = self.swarm.nodes == 1 or self.swarm.operator_gap_ms
        return [CommittedIsDurable(1 if alone else MIN_ISR), *at_end]

    def _look(self, host: Host) -> None:
        # The reads of checkers are none of the node's: no fault strikes them.
        with host.observed():
            self._recovered.after_opening(host)
            self._watch.on_event(host)

    def _restart_all(self) -> None:
        """Everything at once, or one node at a time where a file may be damaged that is not read
        yet (P4); as hard as the promise allows."""
        nodes = list(self.world.hosts)
        for together in [[one] for one in nodes] if self.swarm.damaged_files else [nodes]:
            torn = self._restarts.chance(1, 2)
            for node_id in together:
                if self.swarm.group_commit:
                    self.world.power_cut(node_id, torn=torn)
                elif self.world.hosts[node_id].node is not None:
                    self.world.kill(node_id)
            for node_id in together:
                self.world.start(node_id)
            self._until("Liveness", self._is_healthy, HEAL_LIMIT_MS, self._complaints)

    # Healing -------------------------------------------------------------------------------

    @property
    def _backlog_ms(self) -> int:
        """How long the disks have work already, one file after the other: a follower of a topic
        that has just begun to flush each record waits behind all of it. Half as much again for the
        metadata's lane, which goes first."""
        longest = max(len(host.disk_queue) for host in self.world.hosts.values())
        return longest * self.swarm.flush_range_ms[1] * 3 // 2

    @property
    def _cleaning_ms(self) -> int:
        """How long cleaners may be at work, beside the metadata's lane."""
        longest = max(map(_count_cleaned_segments, self.world.nodes), default=0)
        flushes = FLUSHES_OF_CLEANERS + FLUSHES_PER_CLEANED_SEGMENT * longest
        return flushes * self.swarm.flush_range_ms[1] * 3 // 2

    def _until(
        self,
        name: str,
        condition: Callable[[], bool],
        limit_ms: int,
        complaints: Callable[[], Sequence[str]],
    ) -> None:
        """Runs until the condition holds; looks every 20 ms of virtual time."""
        world = self.world
        end = world.now + limit_ms
        while not condition():
            if world.now >= end:
                raise Violation(name, f"not within {limit_ms} ms: {'; '.join(complaints())}")
            world.run_for(20)

    def _is_healthy(self) -> bool:
        return not self._complaints()

    def _complaints(self) -> list[str]:
        for host in self.world.hosts.values():
            if host.node is None:
                return [f"{host.name} is down"]
            if host.stopping:
                return [f"{host.name} is stopping"]
        images = [node.broker.image for node in self.world.nodes]
        image = newest_image(self.world)
        assert image is not None, "no node has metadata"
        complaints = [
            f"node {node_id} is not back"
            for node_id, host in self.world.hosts.items()
            if not is_back(host, image)
        ]
        for topic in image.topics_by_name.values():
            for number, partition in topic.partitions.items():
                if partition.leader < 0 or len(partition.isr) < len(partition.replicas):
                    complaints.append(
                        f"{topic.name}-{number} leader {partition.leader} isr {partition.isr}"
                    )
                if partition.adding_replicas or partition.removing_replicas:
                    complaints.append(f"{topic.name}-{number} is being reassigned")
        if any(one.offset != image.offset for one in images):
            complaints.append(f"images at {[one.offset for one in images]}")
        if not self.workload.is_drained:
            complaints += self.workload.stuck or ["changes of topics are under way"]
        return complaints

    # Probe and final reads ------------------------------------------------------------------------

    def _probe(self) -> None:
        view = ClusterView(self.world, "probe", stream(self.seed, "probe"), 4_000)
        probe = Producer(view, self.history, view.prng, Acks.IDEMPOTENT, codec=Codec.NONE)
        image = newest_image(self.world)
        assert image is not None, "no node has metadata"
        count = sum(len(topic.partitions) for topic in image.topics_by_name.values())
        flush_ms = self.swarm.flush_range_ms[1] * 3 // 2
        asked: list[bool] = []

        def send() -> None:
            asked.append(True)
            for key in view.places:
                probe.send(key, 1)

        def waiting() -> list[Key]:
            # A topic may still go: its deletion was asked for while the disks were slow.
            return [key for key, lane in probe.lanes.items() if lane.batches and key in view.places]

        view.refresh(send)
        self._until(
            "ProducesAfterHealing",
            lambda: bool(asked) and not waiting(),
            PROBE_LIMIT_MS + self._backlog_ms + flush_ms * FLUSHES_PER_PROBE * count,
            lambda: [f"{len(waiting())} partitions do not acknowledge"],
        )

    def _read_all(self, name: str) -> dict[Key, tuple[Polled, ...]]:
        view = ClusterView(self.world, name, stream(self.seed, name), 4_000)
        history = History()
        reader = Consumer(view, history, view.prng, ReadOptions())
        reader.start()

        def has_all() -> bool:
            if not view.known:
                return False
            ends = {str(pid): log.end_offset for pid, log in self.oracle.logs.items()}
            # A record without a waiting producer may come late: it must be in this reading as well.
            return self._is_level() and all(
                reader.positions.get(key, 0) >= ends.get(str(key), 0) for key in view.places
            )

        # A cleaner may have begun since the replicas were level, and is waited for as it was then.
        limit_ms = READ_LIMIT_MS + self._backlog_ms + self._cleaning_ms
        self._until("ReadsAfterHealing", has_all, limit_ms, lambda: [f"read to {reader.positions}"])
        reader.stop()
        found = {key: [polled for op in history.ops for polled in op.polled.get(key, ())]
                 for key in view.places}  # fmt: skip
        return {key: tuple(values) for key, values in found.items()}

    def _is_level(self) -> bool:
        """Whether all is well and on disk, and all replicas end where the true log does."""
        hosts = self.world.hosts.values()
        return (
            all(map(self._is_settled, hosts))
            and self._is_healthy()
            and all(
                partition.log.log_end_offset == self.oracle.logs[pid].end_offset
                for node in self.world.nodes
                for partition in node.broker.replicas.partitions.values()
                if (pid := partition_id(partition)) in self.oracle.logs
            )
        )

    def _what_is_not_level(self) -> list[str]:
        hosts = self.world.hosts.values()
        busy = [f"{host.name} is not settled" for host in hosts if not self._is_settled(host)]
        return [*self._complaints(), *busy] or ["replicas end before the true log"]

    @staticmethod
    def _is_settled(host: Host) -> bool:
        """Whether all is committed, and on disk as far as it was asked for."""
        return (
            host.node is not None
            and host.disk_idle
            and all(
                partition.log.high_watermark == partition.log.log_end_offset
                for partition in host.node.broker.replicas.partitions.values()
            )
        )


def _count_cleaned_segments(node: Node) -> int:
    """The segments that cleaners of a node may work on."""
    logs = (partition.log for partition in node.broker.replicas.partitions.values())
    return sum(len(log.segments) for log in logs if "compact" in log.config.cleanup_policy)
