"""What this tick's inputs have moved, for the end of the tick to look at."""

from tidelog.replication.partition import Partition


class Moved:
    """Partitions in the order in which they moved first; shared by all parts of the room."""

    __slots__ = ("_partitions", "_unflushed")

    def __init__(self) -> None:
        # Whose log end, high watermark, ISR, role or config may have changed.
        self._partitions: dict[Partition, None] = {}
        # Those of them whose log may have grown or whose flush was answered.
        self._unflushed: dict[Partition, None] = {}

    def mark(self, partition: Partition, *, log_changed: bool = True) -> None:
        """Something about a partition may have changed."""
        self._partitions[partition] = None
        if log_changed:
            self._unflushed[partition] = None

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def forget(self, partition: Partition) -> None:
        """The replica is out of service."""
        self._partitions.pop(partition, None)
        self._unflushed.pop(partition, None)

    def take(self) -> dict[Partition, None]:
        """All that moved since the last call."""
        partitions = self._partitions
        self._partitions = {}
        return partitions

    def take_unflushed(self) -> dict[Partition, None]:
        """All that may need a flush since the last call."""
        unflushed = self._unflushed
        self._unflushed = {}
        return unflushed
