"""The leader epoch cache: which leadership term wrote which offsets of this log.

An entry (epoch, start offset) says that records from `start_offset` on, up to the next entry, were
written under that epoch. Comparing two replicas' entries finds where their logs diverge, which is
how a follower knows what to cut off (KIP-101); truncating to the high watermark instead would lose
committed records when a follower that learned the watermark late is elected.

A new leader assigns (its epoch, log end offset) before it writes anything, so that it can answer
for its own epoch. Appends feed the cache from batch headers, recovery rebuilds it from them.

Invariants
- Both columns strictly increase.
- `leader-epoch-checkpoint` is written by `Replace` effects. Effects of one disk keep their order,
  so the file lags behind but never mixes states.
- EpochsBeforeClaim: the first file is durable before the recovery point claims a record. Up to then
  the log is one segment, and a start that recovers it finds the epochs in its batches. So a log
  that was never flushed has no file, and the first records of a thousand new partitions cost no
  fsync. A clean stop and a recovery write it with the indexes.
- The file and the entries differ only in what starts at the log end or above it: a start drops
  that anyway, in Kafka too. So a leadership without records writes no file, and an election of a
  thousand idle partitions costs no fsync. The first append writes it.

Source: KIP-101, KIP-279; Kafka's `LeaderEpochFileCache`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise

from tidelog.env.disk import Disk, File
from tidelog.env.effects import EffectQueue, Replace
from tidelog.log.checkpoint import encode_epochs
from tidelog.model import NO_EPOCH, UNDEFINED_EPOCH_END, EpochEndOffset


class LeaderEpochCache:
    """Ordered (epoch, start offset) entries of one log."""

    __slots__ = ("_effects", "_epochs", "_starts", "is_new", "path", "saved_epoch")

    def __init__(
        self,
        path: str,
        effects: EffectQueue | None,
        entries: Iterable[tuple[int, int]] = (),
        *,
        is_new: bool = False,
    ) -> None:
        # Where the checkpoint file goes; moves with the directory of the log.
        self.path = path
        # `None` while the log is loaded: see `end_loading`.
        self._effects = effects
        # Whether there is no file yet, and none is needed: `save_first` and `write_first` make it.
        self.is_new = is_new
        pairs = list(entries)
        # Epochs, strictly increasing.
        self._epochs: list[int] = [epoch for epoch, _ in pairs]
        # Start offset of each epoch, inclusive, strictly increasing.
        self._starts: list[int] = [start for _, start in pairs]
        # The newest epoch when the file has all entries, or need not have them yet; else -1. A
        # batch of any other epoch has to be noted before the next one: see `assign`.
        self.saved_epoch = self.latest_epoch

    @property
    def latest_epoch(self) -> int:
        """The newest epoch; -1 in an empty cache."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    @property
    def entries(self) -> list[tuple[int, int]]:
        """A copy of all (epoch, start offset)."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, leader_epoch: int, start_offset: int) -> bool:
        """Notes that a batch at `start_offset` is of `leader_epoch`; returns whether anything
        changed. To be called unless that is the `saved_epoch`. Entries that contradict it (a later
        epoch, or the same or a later start) are dropped."""
        changed = self.begin(leader_epoch, start_offset)
        if leader_epoch != self.saved_epoch:
            self._write()
        return changed

    def begin(self, leader_epoch: int, start_offset: int) -> bool:
        """As `assign`, before there is a batch: a leadership begins at the log end."""
        assert leader_epoch >= 0, f"epoch {leader_epoch} at {start_offset}"
        assert start_offset >= 0, f"epoch {leader_epoch} at {start_offset}"
        epochs, starts = self._epochs, self._starts
        if epochs and leader_epoch == epochs[-1] and start_offset >= starts[-1]:
            return False
        keep = min(bisect_right(epochs, leader_epoch), bisect_left(starts, start_offset))
        del epochs[keep:], starts[keep:]
        if not epochs or epochs[-1] != leader_epoch:
            epochs.append(leader_epoch)
            starts.append(start_offset)
        self.saved_epoch = NO_EPOCH
        return True

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The largest epoch at or below the given one and where it ends (exclusive). Undefined for
        no epoch, for one newer than all known, and in an empty cache. For an epoch older than all
        known: that epoch, and the start of the first known one."""
        if leader_epoch == NO_EPOCH or not self._epochs or leader_epoch > self._epochs[-1]:
            return UNDEFINED_EPOCH_END
        if leader_epoch == self._epochs[-1]:
            return EpochEndOffset(leader_epoch, log_end_offset)
        above = bisect_right(self._epochs, leader_epoch)
        if above == 0:
            return EpochEndOffset(leader_epoch, self._starts[0])
        return EpochEndOffset(self._epochs[above - 1], self._starts[above])

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`; -1 when it is older than the cache."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else NO_EPOCH

    def take_over(self, other: "LeaderEpochCache", log_end_offset: int) -> None:
        """Becomes that of a log of which this one has all records below `log_end_offset`. Records
        alone do not show where an epoch begins: of a cleaned log the first ones may be gone."""
        count = bisect_left(other._starts, log_end_offset)
        epochs, starts = other._epochs[:count], other._starts[:count]
        if (epochs, starts) != (self._epochs, self._starts):
            self._epochs, self._starts = epochs, starts
            self._write()

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drops entries that start at or above `end_offset`, the log's end; returns whether there
        were any."""
        keep = bisect_left(self._starts, end_offset)
        if keep == len(self._starts):
            return False
        del self._epochs[keep:], self._starts[keep:]
        self.saved_epoch = NO_EPOCH
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Makes the entry that covers `start_offset` begin there and drops all before it."""
        covering = bisect_right(self._starts, start_offset) - 1
        if covering < 0 or (self._starts[covering] == start_offset and covering == 0):
            return False
        self._starts[covering] = start_offset
        del self._epochs[:covering], self._starts[:covering]
        self._write()
        return True

    def clear(self) -> None:
        """Drops all entries."""
        self._epochs.clear()
        self._starts.clear()
        self._write()

    def check(self, log_end_offset: int) -> None:
        """Asserts the order of both columns, and that nothing starts above the log end."""
        start = self._starts[-1] if self._starts else -1
        assert start <= log_end_offset, f"{self.path}: epoch starts above {log_end_offset}"
        for column in (self._epochs, self._starts):
            ascends = all(one < next_one for one, next_one in pairwise(column))
            assert ascends, f"epoch cache {self.entries}"

    def end_loading(
        self, effects: EffectQueue, saved: list[tuple[int, int]] | None, log_end_offset: int
    ) -> None:
        """From now on changes are written; what loading has changed is written at once, unless the
        next start would do the same with the file. It has `saved`; `None` for a bad one."""
        self._effects = effects
        entries = self.entries
        if saved is None or entries != [each for each in saved if each[1] < log_end_offset]:
            self._write()
        else:
            self.saved_epoch = self.latest_epoch if entries == saved else NO_EPOCH

    def save_first(self) -> None:
        """Has the first file written, before the flush that is asked for next."""
        self.is_new = False
        self._write()

    def write_first(self, disk: Disk) -> File:
        """Writes the first file at once, not durable; returns it open. For a log that takes no
        records before its files are durable."""
        self.is_new = False
        self.saved_epoch = self.latest_epoch
        file = disk.open(self.path, create=True)
        file.truncate(0)
        file.append((encode_epochs(self.entries),))
        return file

    def _write(self) -> None:
        self.saved_epoch = self.latest_epoch
        if self._effects is not None and not self.is_new:
            self._effects.emit(Replace(self.path, encode_epochs(self.entries)))
