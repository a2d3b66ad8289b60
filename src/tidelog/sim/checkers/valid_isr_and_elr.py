"""ValidIsrAndElr (I21): ISR and ELR are disjoint sets of replicas; the leader is in the ISR, and a
partition has no leader only if its ISR is empty; what is being removed or added is a replica."""

from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.model import NO_LEADER, TopicId
from tidelog.sim.report.violation import Violation


class ValidIsrAndElr:
    """Looks at each partition that changed."""

    name = "ValidIsrAndElr"

    def __init__(self) -> None:
        # The partitions that were looked at last, and found valid.
        self._seen: dict[tuple[TopicId, int], PartitionImage] = {}

    def on_newest(self, image: MetadataImage) -> None:
        """Goes through all partitions."""
        seen: dict[tuple[TopicId, int], PartitionImage] = {}
        for topic_id, topic in image.topics_by_id.items():
            for number, partition in topic.partitions.items():
                key = (topic_id, number)
                if self._seen.get(key) is not partition and not _is_valid(partition):
                    raise Violation(self.name, f"{topic.name}-{number}: {partition}")
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
