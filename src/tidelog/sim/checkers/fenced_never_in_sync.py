"""FencedNeverInSync (I15): a broker that is fenced or shuts down is in no ISR and leads nothing."""

from tidelog.metadata.image import MetadataImage
from tidelog.sim.report.violation import Violation


class FencedNeverInSync:
    """Looks at each new metadata."""

    name = "FencedNeverInSync"

    def on_newest(self, image: MetadataImage) -> None:
        """Goes through all partitions."""
        out = {node_id for node_id, broker in image.brokers.items() if not broker.active}
        if not out:
            return
        for topic in image.topics_by_id.values():
            for number, partition in topic.partitions.items():
                if partition.leader in out or not out.isdisjoint(partition.isr):
                    raise Violation(
                        self.name, f"{topic.name}-{number}: {partition}, out are {sorted(out)}"
                    )
