"""What the metadata may say: looked at where it is newer than all before, committed or not."""

from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from tidelog.model import NO_LEADER, TopicId
from tidelog.sim.checkers.base import Checker
from tidelog.sim.engine.host import Host
from tidelog.sim.quorum.membership import VoterOracle


class EpochsRise(Checker):
    """I9, I19: leader, partition and broker epochs never fall, and no two brokers share one."""

    def __init__(self) -> None:
        self._last: MetadataImage = EMPTY_IMAGE

    def on_newest(self, image: MetadataImage) -> None:
        last, self._last = self._last, image
        for topic_id, topic in image.topics_by_id.items():
            before = last.topics_by_id.get(topic_id)
            if before is None or before is topic:
                continue
            for number, old in before.partitions.items():
                new = topic.partitions[number]
                if (
                    new is not old
                    and new != old
                    and (
                        new.leader_epoch < old.leader_epoch
                        or new.partition_epoch <= old.partition_epoch
                        or (new.leader != old.leader and new.leader_epoch == old.leader_epoch)
                    )
                ):
                    self.reject(f"{topic.name}-{number}: {old} became {new}")
        epochs: dict[int, int] = {}
        for node_id, broker in image.brokers.items():
            epoch, known = broker.broker_epoch, last.brokers.get(node_id)
            other = epochs.setdefault(epoch, node_id)
            if other != node_id or (known and known.broker_epoch > epoch):
                self.reject(f"broker {node_id} has epoch {epoch}, {known}, {other}")


class FencedNeverInSync(Checker):
    """I15: a broker that is fenced or shuts down is in no ISR and leads nothing."""

    def on_newest(self, image: MetadataImage) -> None:
        out = {node_id for node_id, broker in image.brokers.items() if not broker.active}
        if not out:
            return
        for topic in image.topics_by_id.values():
            for number, partition in topic.partitions.items():
                if partition.leader in out or not out.isdisjoint(partition.isr):
                    self.reject(f"{topic.name}-{number}: {partition}, out are {sorted(out)}")


class ValidIsrAndElr(Checker):
    """I21: ISR and ELR are disjoint sets of replicas; the leader is in the ISR, and a partition has
    no leader only if its ISR is empty; what is being removed or added is a replica."""

    def __init__(self) -> None:
        # The partitions that were looked at last, and found valid.
        self._seen: dict[tuple[TopicId, int], PartitionImage] = {}

    def on_newest(self, image: MetadataImage) -> None:
        seen: dict[tuple[TopicId, int], PartitionImage] = {}
        for topic_id, topic in image.topics_by_id.items():
            for number, partition in topic.partitions.items():
                key = (topic_id, number)
                if self._seen.get(key) is not partition and not _is_valid(partition):
                    self.reject(f"{topic.name}-{number}: {partition}")
                seen[key] = partition
        self._seen = seen


def _is_valid(partition: PartitionImage) -> bool:
    candidates = (*partition.isr, *partition.eligible_leaders)
    replicas = set(partition.replicas)
    return (
        len(replicas) == len(partition.replicas)
        and len(set(candidates)) == len(candidates)
        and replicas.issuperset(candidates)
        and replicas >= {*partition.adding_replicas, *partition.removing_replicas}
        and (partition.leader in partition.isr if partition.isr else partition.leader == NO_LEADER)
    )


class OneChangeAtATime:
    """I20 on whole nodes: voter sets that follow each other differ in one voter, committed or not.

    The oracle of the quorum tier looks at every node after each of its events, because a set that
    was followed by another is forgotten as soon as both are committed.
    """

    def __init__(self) -> None:
        # Every committed set.
        self.oracle = VoterOracle()
        # Exclusive end of all metadata that any node ever knew to be committed.
        self._committed_end = 0

    def on_event(self, host: Host) -> None:
        """Looks at what a node obeys now."""
        assert host.node is not None, f"{host.name} has no process"
        quorum = host.node.broker.quorum
        self._committed_end = max(self._committed_end, quorum.high_watermark)
        self.oracle.check_sets(host.node_id, quorum, self._committed_end)
