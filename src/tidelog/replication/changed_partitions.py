"""The partitions that this tick's inputs have changed, for the end of the tick to look at."""

from collections.abc import Iterable

from tidelog.replication.partition import Partition


class ChangedPartitions:
    """Partitions in the order of their first change; shared by all parts of the package."""

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

    def mark_uncommitted(self, partitions: Iterable[Partition]) -> None:
        """Those that this node leads and that wait for followers are to be looked at again."""
        for partition in partitions:
            log = partition.log
            waits = log.high_watermark < log.log_end_offset or partition.deletions
            if partition.leadership is not None and waits:
                self.mark(partition, log_changed=False)

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def forget(self, partition: Partition) -> None:
        """The replica is out of service."""
        self._partitions.pop(partition, None)
        self._unflushed.pop(partition, None)

    def take(self) -> dict[Partition, None]:
        """All that changed since the last call."""
        partitions = self._partitions
        self._partitions = {}
        return partitions

    def take_unflushed(self) -> dict[Partition, None]:
        """All that may need a flush since the last call."""
        unflushed = self._unflushed
        self._unflushed = {}
        return unflushed
