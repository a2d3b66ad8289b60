"""A replicated log in memory: a test double of what the quorum gives to a coordinator.

It assigns offsets, refuses appends without leadership, commits when the test says so, joins
several appends into one committed batch when asked, and loses its uncommitted tail, or a part of
it, with the leadership, as a quorum does.
"""

from collections.abc import Sequence

from tidelog.kraft.messages import CommittedBatch, NotLeader


class MemoryLog:
    """One log and one replica of it."""

    def __init__(self) -> None:
        # Batches by rising offset, committed first.
        self._batches: list[CommittedBatch] = []
        # How many of them are committed and handed out.
        self._committed = 0
        # The epoch in which this node leads; `None` when it does not.
        self.epoch: int | None = None

    @property
    def end_offset(self) -> int:
        """The next offset."""
        return self._batches[-1].last_offset + 1 if self._batches else 0

    @property
    def records(self) -> list[bytes]:
        """The values of all records, control records left out."""
        return [value for batch in self._batches if not batch.is_control for value in batch.records]

    @property
    def batch_sizes(self) -> list[int]:
        """Records per batch, control batches left out."""
        return [len(batch.records) for batch in self._batches if not batch.is_control]

    def append(self, records: Sequence[bytes]) -> int:
        """Appends as leader."""
        if self.epoch is None:
            raise NotLeader("not leading")
        assert records, "an empty batch"
        return self._add(list(records), self.epoch, is_control=False)

    def lead(self, epoch: int) -> int:
        """Becomes leader; returns where the epoch starts: its control batch."""
        start = self.end_offset
        self.epoch = epoch
        self._add([b"leader change"], epoch, is_control=True)
        return start

    def follow(self, records: Sequence[bytes], epoch: int) -> None:
        """Takes a batch of another leader."""
        self.epoch = None
        self._add(list(records), epoch, is_control=False)

    def add_control(self) -> None:
        """A control batch in the midst of this node's leadership."""
        assert self.epoch is not None
        self._add([b"voters"], self.epoch, is_control=True)

    def commit(self, batches: int | None = None, *, join: bool = False) -> list[CommittedBatch]:
        """Commits the next batches, by default all; `join` makes one of them."""
        end = len(self._batches) if batches is None else self._committed + batches
        taken = self._batches[self._committed : end]
        if join and len(taken) > 1:
            taken = [_joined(taken)]
            self._batches[self._committed : end] = taken
            end = self._committed + 1
        self._committed = end
        return taken

    def lose(self, keep: int = 0) -> None:
        """Loses leadership and all uncommitted batches but the first `keep`."""
        self.epoch = None
        del self._batches[self._committed + keep :]

    def _add(self, records: list[bytes], epoch: int, *, is_control: bool) -> int:
        base = self.end_offset
        last = base + len(records) - 1
        self._batches.append(CommittedBatch(base, last, epoch, 0, records, is_control))
        return last


def _joined(batches: list[CommittedBatch]) -> CommittedBatch:
    assert not any(batch.is_control for batch in batches), "control batches stand alone"
    records = [value for batch in batches for value in batch.records]
    first, last = batches[0], batches[-1]
    return CommittedBatch(
        first.base_offset, last.last_offset, first.epoch, first.append_time_ms, records, False
    )
