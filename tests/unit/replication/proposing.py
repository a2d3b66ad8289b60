"""Two brokers, of which the first leads and is about to propose the second."""

from tidelog.metadata.image import PartitionImage
from tidelog.model import TopicPartition
from tidelog.replication.isr import Pending
from tidelog.replication.messages import AlterPartitionProposal
from tidelog.replication.partition import Partition
from tidelog.sim.replicas.cluster import Cluster


def image(leader: int, epoch: int, partition_epoch: int, isr: tuple[int, ...]) -> PartitionImage:
    """Metadata of a partition on brokers 1 and 2."""
    return PartitionImage((1, 2), isr, leader, epoch, partition_epoch)


def before_a_proposal() -> Cluster:
    """Broker 1 leads alone in the ISR, broker 2 is about to be proposed; no answer comes."""
    cluster = Cluster((1, 2))
    cluster.feed.create_topic("orders", (1, 2))
    cluster.run(10)
    cluster.controller = "silent"
    cluster.feed.change("orders", isr=(1,))
    return cluster


def hosted(cluster: Cluster, node: int = 1) -> Partition:
    """The replica of a broker."""
    return cluster.brokers[node].replicas._env.hosted.partitions[TopicPartition("orders", 0)]


def proposed(cluster: Cluster) -> tuple[Partition, AlterPartitionProposal]:
    """With the proposal in flight."""
    cluster.run(150)
    partition = hosted(cluster)
    assert partition.leadership is not None
    state = partition.leadership.isr_state
    assert isinstance(state, Pending)
    return partition, state.proposal
