"""EpochsRise (I9, I19): leader, partition and broker epochs never fall, and no two brokers share
one."""

from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.sim.report.violation import Violation


class EpochsRise:
    """Compares each new metadata with the one before."""

    name = "EpochsRise"

    def __init__(self) -> None:
        self._last: MetadataImage = EMPTY_IMAGE

    def on_newest(self, image: MetadataImage) -> None:
        """Looks at what changed."""
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
                    raise Violation(self.name, f"{topic.name}-{number}: {old} became {new}")
        epochs: dict[int, int] = {}
        for node_id, broker in image.brokers.items():
            other = epochs.setdefault(broker.broker_epoch, node_id)
            known = last.brokers.get(node_id)
            if other != node_id or (known and known.broker_epoch > broker.broker_epoch):
                raise Violation(
                    self.name, f"broker {node_id} has epoch {broker.broker_epoch}, {known}, {other}"
                )
