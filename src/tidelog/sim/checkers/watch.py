"""Which checkers watch a run of whole nodes, and when: only where there is something to look at.

Most events of a node move nothing that a checker cares about. What each leader looked like last is
remembered per process, so that a look costs a comparison.
"""

from collections.abc import Sequence

from tidelog.metadata.image import MetadataImage
from tidelog.replication.partition import Partition
from tidelog.sim.checkers import leaders, log_starts, metadata, readings, replicas
from tidelog.sim.checkers.base import Checker, Evidence
from tidelog.sim.checkers.image_is_fold_of_log import ImageIsFoldOfLog
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.oracle import partition_id

_State = tuple[int, int, tuple[int, ...], int]
"""Epoch, high watermark, committed ISR and min ISR."""


class Watch:
    """An observer of the world."""

    def __init__(
        self, evidence: Evidence, checkers: Sequence[Checker], *, sweep_every: int
    ) -> None:
        self._evidence = evidence
        # What is wrong in several ways is reported by the first of them.
        self._checkers = checkers
        self._sweep_every = sweep_every
        # By node: the life of its process, and what each of its leaders was like.
        self._seen: dict[int, tuple[int, dict[Partition, _State]]] = {}
        # The last image of each node.
        self._last_image: dict[int, MetadataImage] = {}

    def on_event(self, host: Host) -> None:
        """Looks at what an event of a node changed."""
        node, evidence = host.node, self._evidence
        assert node is not None, f"{host.name} has no process"
        evidence.latest_wall_ms = max(evidence.latest_wall_ms, evidence.world.wall_ms(host))
        life, seen = self._seen.get(host.node_id, (-1, {}))
        if life != host.life:
            seen = {}
            self._seen[host.node_id] = (host.life, seen)
        image = node.broker.image
        if self._last_image.get(host.node_id) is not image:
            self._last_image[host.node_id] = image
            self._on_image(host, image)
        for partition in node.broker.replicas.partitions.values():
            leads = partition.leadership
            if leads is None:
                if seen.pop(partition, None) is not None:
                    # It may have committed in the turn that ended its leadership (733938959).
                    evidence.oracle.on_leader(host, partition_id(partition), partition.log)
                continue
            state = (leads.leader_epoch, partition.log.high_watermark, leads.isr, leads.min_isr)
            if seen.get(partition) == state:
                continue
            seen[partition] = state
            pid = partition_id(partition)
            for checker in self._checkers:
                checker.on_leader(evidence, host, pid, partition)
            evidence.oracle.on_leader(host, pid, partition.log)
        if evidence.world.event_count % self._sweep_every == 0:
            self.sweep()

    def _on_image(self, host: Host, image: MetadataImage) -> None:
        if image.offset > self._evidence.newest_image.offset:
            self._evidence.newest_image = image
            for checker in self._checkers:
                checker.on_newest(image)
        for checker in self._checkers:
            checker.on_image(host, image)

    def sweep(self) -> None:
        """Looks at everything."""
        for checker in self._checkers:
            checker.sweep(self._evidence)

    def at_end(self) -> None:
        """Looks at everything once more, when all faults are over."""
        self.sweep()
        for checker in self._checkers:
            checker.at_end(self._evidence)


def checkers() -> list[Checker]:
    """Those of a run of whole nodes; what breaks in several ways is reported by the first."""
    return [
        leaders.LeaderCompleteness(),
        leaders.OneLeaderPerEpoch(),
        leaders.HighWatermarkBounds(),
        leaders.MinIsrGuard(),
        metadata.EpochsRise(),
        metadata.FencedNeverInSync(),
        metadata.ValidIsrAndElr(),
        replicas.CandidateCompleteness(),
        replicas.AcknowledgedIsCommitted(),
        replicas.TrueHighWatermarkMonotonic(),
        replicas.LogMatching(),
        replicas.CommittedNeverTruncated(),
        replicas.LateReplicasWait(),
        replicas.MaximalIsrSuperset(),
        replicas.OffsetsInOrder(),
        replicas.OneQuorumLeaderPerEpoch(),
        replicas.NoFalseDamage(),
        replicas.NoFalseLoss(),
        log_starts.LogStartIsLawful(),
        replicas.ReplicasEqual(),
        replicas.EpochCacheMatchesBatches(),
        readings.NothingLost(),
        readings.RepeatableRead(),
        readings.NoDuplicates(),
        readings.ProducerOrder(),
        readings.HistoryIsALog(),
        ImageIsFoldOfLog(),
    ]
