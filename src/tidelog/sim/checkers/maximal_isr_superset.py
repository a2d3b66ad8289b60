"""MaximalIsrSuperset (I6): a leader waits for everybody whom the controller may elect.

The maximal ISR of a leader that is not stale contains the ISR and the ELR of the newest committed
metadata. (A leader of an older epoch commits nothing that counts: nobody fetches from it.)
"""

from tidelog.sim.checkers.base import Evidence, Violation
from tidelog.sim.oracle import partition_id


class MaximalIsrSuperset:
    """Compares leaders with the newest metadata."""

    name = "MaximalIsrSuperset"

    def sweep(self, evidence: Evidence) -> None:
        """Looks at all leaders."""
        image = evidence.newest_image
        for host in evidence.world.hosts.values():
            if host.node is None:
                continue
            for partition in host.node.broker.replicas.partitions.values():
                leadership = partition.leadership
                if leadership is None:
                    continue
                topic = image.topics_by_id.get(partition.topic_id)
                newest = (
                    topic.partitions.get(partition.topic_partition.partition) if topic else None
                )
                if newest is None or newest.leader != host.node_id:
                    continue
                if newest.leader_epoch != partition.leader_epoch:
                    continue
                missing = [one for one in newest.isr if one not in leadership.maximal_isr]
                if missing:
                    raise Violation(
                        self.name,
                        f"{host.name} leads {partition_id(partition)} in epoch "
                        f"{partition.leader_epoch} and waits for {leadership.maximal_isr}, "
                        f"in sync are {newest.isr}",
                    )
