"""ValidIsrAndElr (I21): ISR and ELR are disjoint sets of replicas, the leader is in the ISR, and
who is being removed or added is a replica."""

from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.model import TopicId
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
    isr, elr = partition.isr, partition.eligible_leaders
    replicas = set(partition.replicas)
    return (
        len(set(isr)) == len(isr)
        and not set(isr) & set(elr)
        and replicas >= {*isr, *elr, *partition.adding_replicas, *partition.removing_replicas}
        and (partition.leader == -1 or partition.leader in isr)
        and (partition.leader == -1 or bool(isr))
    )
