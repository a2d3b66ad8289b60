"""One seed beyond the promises (P6): more is lost at once than P3 covers, and nothing in silence.

Records are flushed lazily, and machines lose power as often and as many at once as the seed likes;
no budget holds it back. Then acknowledged records may be gone, but each loss must be reported
(`LossIsReported`): every acknowledged record is there, or its partition has no leader and waits for
a replica that may have it, or the controller reported that the unclean election gave up records.
What is there is the same everywhere (`SurvivorsEqual`). In half of the seeds a partition does not
wait: `unclean.leader.election.enable` is true, for the topics or everywhere.

The checkers of `runs/cluster.py` do not apply: they demand that nothing is lost. Only producers
with acks=all that never repeat a batch work here: a log without its end has lost the sequences.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.sim.checkers.loss_is_reported import LossIsReported, values_of
from tidelog.sim.evidence.history import History, Key
from tidelog.sim.faults.budget import Budget, newest_image
from tidelog.sim.faults.nemesis import Nemesis
from tidelog.sim.quorum.membership import VoterOracle
from tidelog.sim.report.outcome import Outcome
from tidelog.sim.report.violation import Violation
from tidelog.sim.runs.cluster import world_of
from tidelog.sim.scenarios.families import data_loss_swarm
from tidelog.sim.scenarios.swarm import stream
from tidelog.sim.workloads.cluster_view import key_of
from tidelog.sim.workloads.workload import Workload

SETTLE_LIMIT_MS: Final = 60_000
QUIET_MS: Final = 3_000


class NoBudget(Budget):
    """Everything may happen to everybody at any time, but for disks that are emptied."""

    def may_end_uncleanly(self, node_id: int) -> bool:
        """Always."""
        return True

    def may_lose_data(self, node_id: int) -> bool:
        """Always."""
        return True

    def may_lose_everything(self, node_id: int) -> bool:
        """Never: a voter that forgets its votes is beyond what any quorum can notice."""
        return False


class DataLossRun:
    """One seed's world, producers and faults."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.swarm = data_loss_swarm(seed)
        self.world = world_of(seed, self.swarm)
        self.history = History()
        # Called with every line of the trace.
        self.listeners = self.world.listeners
        budget = NoBudget(self.world, group_commit=False)
        self.nemesis = Nemesis(self.world, self.swarm, stream(seed, "faults"), budget)
        self.workload = Workload(self.world, self.history, self.swarm, seed, VoterOracle())
        self._reports = LossIsReported()
        self.world.driver.observers.append(self._reports.on_event)
        self.world.watchers.append(self._reports.on_decision)
        # Acknowledged records that are gone, each reported.
        self.lost = 0

    def run(self) -> Outcome:
        """Runs the seed to its end, good or bad."""
        outcome = Outcome(self.seed)
        with outcome.judged():
            self._run_phases()
        outcome.events = self.world.event_count
        outcome.virtual_ms = self.world.now
        outcome.acknowledged = self.history.acknowledged_count
        outcome.faults = self.nemesis.counts
        outcome.fired = self.nemesis.fired
        outcome.marks = tuple(sorted(self.world.marks.names))
        outcome.trace_hash = self.world.trace_hash
        if self.lost:
            outcome.fired["loss-reported"] = self.lost
        return outcome

    def _run_phases(self) -> None:
        world = self.world
        world.start_all()
        self.workload.start()
        self.nemesis.start()
        world.run_for(self.swarm.fault_phase_ms)
        world.note("world heals")
        self.nemesis.heal()
        self.workload.stop()
        end = world.now + SETTLE_LIMIT_MS
        while not self._is_settled():
            if world.now >= end:
                raise Violation("Liveness", f"not settled within {SETTLE_LIMIT_MS} ms")
            world.run_for(50)
        world.run_for(QUIET_MS)
        while not self._is_level() and world.now < end:
            # What producers had queued up may still come in.
            world.run_for(50)
        image = newest_image(world)
        assert image is not None, "no node has metadata"
        self._judge(image)

    def _is_settled(self) -> bool:
        """All brokers know the newest metadata; partitions have a full ISR or wait for a leader."""
        image = newest_image(self.world)
        hosts = self.world.hosts
        if image is None or any(host.node is None or host.stopping for host in hosts.values()):
            return False
        return (
            all(image.is_active(node_id) for node_id in hosts)
            and all(node.broker.image.offset == image.offset for node in self.world.nodes)
            and all(
                partition.leader < 0 or len(partition.isr) == len(partition.replicas)
                for topic in image.topics_by_name.values()
                for partition in topic.partitions.values()
            )
        )

    def _is_level(self) -> bool:
        """All replicas of a led partition end at the same offset, and know it to be committed."""
        ends: dict[tuple[object, int], set[tuple[int, int]]] = {}
        for node in self.world.nodes:
            for replica in node.broker.replicas.partitions.values():
                if replica.leader_id >= 0:
                    key = (replica.topic_id, replica.topic_partition.partition)
                    end = (replica.log.log_end_offset, replica.log.high_watermark)
                    ends.setdefault(key, set()).add(end)
        return all(len(found) == 1 for found in ends.values())

    def _judge(self, image: MetadataImage) -> None:
        partitions = {
            key_of(name, topic.topic_id, number): (f"{name}-{number}", partition)
            for name, topic in image.topics_by_name.items()
            for number, partition in topic.partitions.items()
        }
        there = {
            key: self._values(key, partition)
            for key, (_, partition) in partitions.items()
            if partition.leader >= 0
        }
        for key, acknowledged in self.history.acknowledged.items():
            subject, partition = partitions[key]
            missing = sorted(set(acknowledged) - set(there.get(key, ())))
            if not missing:
                continue
            self.lost += len(missing)
            self._reports.judge(subject, partition, missing)

    def _values(self, key: Key, partition: PartitionImage) -> Mapping[str, int]:
        """The values of a partition; the same on all its replicas."""
        found: dict[int, dict[str, int]] = {}
        for node_id in partition.replicas:
            node = self.world.hosts[node_id].node
            assert node is not None, f"host{node_id} is down at the end"
            for (topic, number), replica in node.broker.replicas.partitions.items():
                if key_of(topic, replica.topic_id, number) == key:
                    log = replica.log
                    found[node_id] = values_of(log, log.log_start_offset, log.high_watermark)
        first = found[partition.leader]
        for node_id, values in found.items():
            if values != first:
                text = f"{partition.leader} has {len(first)} values and {node_id} {len(values)}"
                raise Violation("SurvivorsEqual", f"{key}: {text}, or others")
        return first
