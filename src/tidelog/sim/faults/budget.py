"""The fault budget: what may happen now without leaving the promises P1 to P7.

With group commit on every topic (P2) there is no limit. Without it, records live in page caches:

- any number of kills is fine (P1): a page cache outlives its process;
- at most `min.insync.replicas - 1`, here one, *lossy* restart at a time (P3). A kill counts as
  unclean for the elections too, because a dead process looks like a dead machine. So a
  power cut waits until no node is unclean, and kills wait while one is lossy.

- damage (P4) waits until no other node is damaged or unclean, and until of each partition on the
  disk *another* replica counts as complete, in ISR or ELR. While a node is damaged no other ends
  uncleanly, group commit or not: that would take others out of ISR and ELR until the damaged log
  is the only one that is known to be complete, and the partition rightly waits for an operator
  (P6). A *damaged* node counts as lossy until it is back and a scrub of its disk finds nothing.

A node is *unclean* from its unclean end until its next life is unfenced and back in the ISR of all
its partitions, on a device that is well and has reported no failure to it; it is *lossy* for as
long when it also lost what was not flushed.

Metadata is always flushed (P5) and needs no budget.

No promise covers a *wiped* disk by itself; it is survived when everything that was on it is also
elsewhere, for sure. So a disk is only wiped while all is well, and while one is, nothing else ends
uncleanly, group commit or not. A voter must not forget a vote or a record that it was counted for:
its disk is wiped only while all others follow one leader and have all of its metadata log. Where
the voters stand in the log, a wiped node is not a voter any more, and changes of the set may be on
their way: no voter's disk is wiped there. The quorum tier does that.
"""

from enum import Flag, auto

from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World
from tidelog.sim.evidence.scrub import scrub


def newest_image(world: World) -> MetadataImage | None:
    """The newest committed metadata that any running node has applied."""
    return max(
        (node.broker.image for node in world.nodes), key=lambda image: image.offset, default=None
    )


def is_back(host: Host, image: MetadataImage) -> bool:
    """Whether an image knows this very process, unfenced and in sync everywhere."""
    if not host.config.is_broker:
        return host.node is not None
    node_id = host.node_id
    broker = image.brokers.get(node_id)
    if host.node is None or broker is None or broker.fenced:
        return False
    if broker.broker_epoch != host.node.broker.replicas.broker_epoch:
        return False
    return all(node_id in partition.isr for partition in _hosted(node_id, image))


def _hosted(node_id: int, image: MetadataImage) -> list[PartitionImage]:
    return [
        partition
        for topic in image.topics_by_name.values()
        for partition in topic.partitions.values()
        if node_id in partition.replicas
    ]


def _may_still_end(host: Host) -> bool:
    """Whether what struck a host's disks may end its process yet, or take a directory from it: it
    lasts, or the process has noticed it. Damage ends no process by itself; a scrub shows when it is
    over."""
    return any(
        disk.is_pending or not disk.is_well or (disk.hurt and not disk.damaged)
        for disk in host.disks
    )


class Harm(Flag):
    """What became of a node that ended uncleanly."""

    UNCLEAN = auto()
    LOSSY = auto()
    WIPED = auto()
    DAMAGED = auto()


class Budget:
    """Who is unclean, and how."""

    def __init__(self, world: World, *, group_commit: bool) -> None:
        self._world = world
        self._group_commit = group_commit
        # The nodes that are not back yet, in order.
        self._harm: dict[int, Harm] = {}

    def note(self, node_id: int, harm: Harm = Harm.UNCLEAN) -> None:
        """A process ended uncleanly, or is about to. Who is wiped or damaged is lossy too."""
        if harm & (Harm.WIPED | Harm.DAMAGED):
            harm |= Harm.LOSSY
        self._harm[node_id] = self._harm.get(node_id, Harm.UNCLEAN) | harm

    def _others_have(self, node_id: int, harm: Harm) -> bool:
        return any(found & harm for one, found in self._harm.items() if one != node_id)

    def _settle(self) -> None:
        image = newest_image(self._world)
        if image is None:
            return
        for node_id, harm in list(self._harm.items()):
            host = self._world.hosts[node_id]
            if _may_still_end(host) or not is_back(host, image):
                continue
            # Epochs, too, which no checksum covers (seed 73000151 of an older version).
            if harm & Harm.DAMAGED and scrub(host.disk, settled=True):
                continue
            del self._harm[node_id]
            if harm & Harm.DAMAGED:
                host.disk.damaged = False

    def may_end_uncleanly(self, node_id: int) -> bool:
        """Whether a process may die now, its page cache staying."""
        self._settle()
        lossy = Harm.WIPED | Harm.DAMAGED if self._group_commit else Harm.LOSSY
        return not self._others_have(node_id, lossy)

    def may_lose_data(self, node_id: int) -> bool:
        """Whether a machine may lose now what was not flushed."""
        if not self.may_end_uncleanly(node_id):
            return False
        if self._group_commit:
            return True
        # Where there is one copy, a lazy flush promises nothing.
        brokers = sum(host.config.is_broker for host in self._world.hosts.values())
        return brokers > 1 and not self._others_have(node_id, Harm.UNCLEAN)

    def may_lose_everything(self, node_id: int) -> bool:
        """Whether a disk may be empty from now on."""
        self._settle()
        image = newest_image(self._world)
        hosts = self._world.hosts
        if image is None or len(hosts) < 3 or self._harm:
            return False
        if self._world.voters_in_log and hosts[node_id].config.is_controller:
            return False
        if not all(host.running and is_back(host, image) for host in hosts.values()):
            return False
        quorums = {one: host.node.broker.quorum for one, host in hosts.items() if host.node}
        mine = quorums[node_id]
        return mine.leader_id != node_id and all(
            quorum.leader_id == mine.leader_id >= 0
            and quorum.epoch == mine.epoch
            and quorum.high_watermark >= mine.log_end_offset
            for quorum in quorums.values()
        )

    def may_damage(self, node_id: int) -> bool:
        """Whether bytes on a disk may change now without a word."""
        if not self.may_lose_data(node_id) or self._others_have(node_id, Harm.UNCLEAN):
            return False
        image = newest_image(self._world)
        return image is not None and all(
            {*partition.isr, *partition.eligible_leaders} - {node_id}
            for partition in _hosted(node_id, image)
        )
