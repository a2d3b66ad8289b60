"""ValidIsrAndElr (I21): ISR and ELR are disjoint sets of replicas, the leader is in the ISR, and
who is being removed or added is a replica."""

from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.sim.checkers.base import Violation


class ValidIsrAndElr:
    """Looks at each partition that changed."""

    name = "ValidIsrAndElr"

    def __init__(self) -> None:
        # By identity: an unchanged partition is the same object in the next image.
        self._seen: dict[int, PartitionImage] = {}

    def on_newest(self, image: MetadataImage) -> None:
        """Goes through all partitions."""
        seen: dict[int, PartitionImage] = {}
        for topic in image.topics_by_id.values():
            for number, partition in topic.partitions.items():
                seen[id(partition)] = partition
                if id(partition) not in self._seen and not _is_valid(partition):
                    raise Violation(self.name, f"{topic.name}-{number}: {partition}")
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
