"""Three whole nodes with one topic `t` of one partition, as a few scenarios need them."""

from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.metadata.image import PartitionImage
from tidelog.sim.engine.client import Disconnected, SimClient
from tidelog.sim.engine.world import World
from tidelog.sim.replicas.reading import written_in


class SmallCluster:
    """What a client and an operator see of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def begin(self) -> None:
        """Starts all nodes and creates the topic."""
        world = self._world
        world.start_all()
        world.run_until(lambda: self._active_count() == len(world.hosts), 20_000)
        code = SimClient(world, 1).create_topic("t")
        assert code == ErrorCode.NONE, f"Setup: no topic, {code}"
        world.run_until(lambda: len(self._known()) == len(world.hosts), 20_000)
        world.run_for(500)

    @property
    def partition(self) -> PartitionImage:
        """The newest metadata that any running node has."""
        return max(self._known(), key=lambda partition: partition.partition_epoch)

    @property
    def leader(self) -> int:
        """The leader by the newest metadata, -1 for none."""
        return self.partition.leader

    def read_all(self, count: int) -> list[bytes]:
        """The values that a consumer reads from offset 0 on, at most so many; it asks again, of
        the leader of that moment, when it is put off. What cannot be decoded ends it."""
        values: list[bytes] = []
        for _ in range(300):
            if len(values) >= count:
                break
            try:
                values += self._read(len(values))
            except CorruptBatch as damage:
                return [*values, str(damage).encode()]
            except Disconnected:
                pass
            self._world.run_for(100)
        return values

    def _read(self, offset: int) -> list[bytes]:
        leader = self.leader
        if leader < 0 or self._world.hosts[leader].node is None:
            return []
        answer = SimClient(self._world, leader).fetch("t", 0, offset).partitions[0]
        if answer.error_code is not ErrorCode.NONE:
            return []
        return [record.value or b"" for record in written_in(answer) if record.offset >= offset]

    def log_files(self) -> dict[int, bytes]:
        """All bytes of the partition's segments, by node."""
        return {
            node_id: b"".join(
                host.disk.read_file(f"t-0/{name}") or b""
                for name in host.disk.list_dir("t-0")
                if name.endswith(".log")
            )
            for node_id, host in self._world.hosts.items()
        }

    def _known(self) -> list[PartitionImage]:
        return [
            topic.partitions[0]
            for host in self._world.hosts.values()
            if host.node is not None
            and (topic := host.node.broker.image.topics_by_name.get("t")) is not None
        ]

    def _active_count(self) -> int:
        nodes = [host.node for host in self._world.hosts.values() if host.node is not None]
        return min(
            sum(broker.active for broker in node.broker.image.brokers.values()) for node in nodes
        )
