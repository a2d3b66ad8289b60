"""MaximalIsrSuperset (I6): a leader waits for everybody who may be elected while it commits.

The maximal ISR of a leader in the newest epoch contains the ISR of the newest committed metadata;
and its ELR too, while the leader may commit. Below the min ISR it may not, and waits for no replica
in the ELR: they have all that was ever committed, and nothing is added (KIP-966). Once its ISR
suffices again the controller has forgotten the ELR, in the record that made it so.

A leader that is ahead of the newest metadata, by an answer, is held to the ISR alone. (A leader of
an older epoch commits nothing that counts: no replica fetches from it.)
"""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.evidence.oracle import partition_id
from tidelog.sim.report.violation import Violation


class MaximalIsrSuperset:
    """Compares leaders with the newest metadata."""

    name = "MaximalIsrSuperset"

    def sweep(self, evidence: Evidence) -> None:
        """Looks at all leaders."""
        image = evidence.newest_image
        for host, partition in evidence.replicas():
            leadership = partition.leadership
            if leadership is None:
                continue
            topic = image.topics_by_id.get(partition.topic_id)
            newest = topic.partitions.get(partition.topic_partition.partition) if topic else None
            if newest is None or newest.leader != host.node_id:
                continue
            if newest.leader_epoch != partition.leader_epoch:
                continue
            wanted = newest.isr
            may_commit = len(leadership.isr) >= leadership.min_isr
            if may_commit and newest.partition_epoch >= partition.partition_epoch:
                wanted += newest.eligible_leaders
            missing = [one for one in wanted if one not in leadership.maximal_isr]
            if missing:
                raise Violation(
                    self.name,
                    f"{host.name} leads {partition_id(partition)} in epoch "
                    f"{partition.leader_epoch} and waits for {leadership.maximal_isr}, "
                    f"in sync are {newest.isr}, eligible {newest.eligible_leaders}",
                )
