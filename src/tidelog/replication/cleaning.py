"""The node's cleaner: which replica is compacted next, in which slices, and how fast.

One log at a time, the one with the largest dirty share first, and before all others one with a
record that is overdue. Each replica of a partition is cleaned by its own node, whenever that is;
their bytes differ then, and what they say does not.

Every `log.cleaner.backoff.ms` all replicas are looked at; while there is something to do, again as
soon as a round is over. A round goes on for `CLEANING_WORK_PER_TURN` each turn, which is a few
milliseconds, and no faster than `log.cleaner.io.max.bytes.per.second`
([decision 0037](../../../docs/decisions/0037-the-cleaner-works-in-slices-of-the-turn.md)).

| what goes wrong | what happens |
| --- | --- |
| the disk is full, or fails, in mid-segment | the round is given up; tried again later |
| a sync or a rename fails | the replica goes offline, as with any write |
| the old segment is damaged | the replica is out of service and is repaired |
| records cannot be read | the replica is not cleaned any more by this process |

Source: Kafka's `LogCleaner`, `LogCleanerManager`.
"""

from typing import Final

from tidelog.env.instant import Instant, earliest
from tidelog.errors import CorruptBatch, LogDamaged, StorageError
from tidelog.limits import CLEANING_PAUSE_MS, CLEANING_WORK_PER_TURN
from tidelog.log.cleaning.choosing import Cleanable, cleanable_part
from tidelog.log.cleaning.offset_map import OffsetMap
from tidelog.log.cleaning.round import CleaningRound
from tidelog.log.cleaning.swap import CleanedFlush
from tidelog.log.deleted_files import DeletedSegment
from tidelog.log.state import UNCUT
from tidelog.replication.events.roles import CleaningEnded, CleaningStopped
from tidelog.replication.partition import Partition
from tidelog.replication.shared import Env, Recurring
from tidelog.replication.sweep import Sweep

_RETRY_MS: Final = 60_000


class LogCleaner:
    """Compacts the hosted logs, one at a time."""

    __slots__ = (
        "_at",
        "_began_at",
        "_best",
        "_env",
        "_now",
        "_number",
        "_partition",
        "_round",
        "_search",
        "_skipped",
        "checks",
    )

    def __init__(self, env: Env) -> None:
        self._env = env
        # When replicas are looked at, unless a round is under way.
        self.checks = Recurring(env.config.cleaner_backoff_ms)
        self._search = Sweep()
        # The replica that is most worth it, of those looked at in this search.
        self._best: tuple[Partition, Cleanable] | None = None
        # The round under way and its replica.
        self._round: CleaningRound | None = None
        self._partition: Partition | None = None
        # Numbers the rounds, when this one began, and when it goes on; `None`: not by itself.
        self._number = 0
        self._began_at: Instant = Instant(0)
        self._at: Instant | None = None
        # The time of the present call.
        self._now: Instant = Instant(0)
        # Replicas that are not cleaned before then; never where that is `None`.
        self._skipped: dict[Partition, Instant | None] = {}

    def deadline(self) -> Instant | None:
        """The next instant at which `work` has something to do."""
        return earliest(self.checks.due_at, self._at, self._search.next_at)

    def work(self, now: Instant, wall_ms: int) -> None:
        """One slice of whatever is due."""
        self._now = now
        if self.checks.due(now) is not None and self._search.next_at is None:
            if self._partition is not None and not self._is_in_service(self._partition):
                # A disk that has failed answers no flush.
                self._abandon()
            if self._round is None:
                self._begin_search()
        if self._search.next_at is not None:
            self._env.trace.steps.begin("a search for dirty logs")
            self._look(wall_ms)
        if self._at is not None and now >= self._at:
            self._env.trace.steps.begin("cleaning")
            self._go_on()

    def on_flushed(self, subject: CleanedFlush, now: Instant) -> None:
        """A file of the round under way is durable."""
        self._now = now
        partition, cleaning = self._partition, self._round
        if partition is None or cleaning is None or subject.number != self._number:
            return
        if not self._is_in_service(partition):
            self._abandon()
            return
        try:
            cleaning.on_flushed(subject)
        except StorageError as error:
            self._abandon()
            self._env.changed.failed.append((partition, error))
            return
        self._at = None if cleaning.waits else now

    def on_flush_failed(self, subject: CleanedFlush, error: str) -> None:
        """What was not durable yet is taken to be lost, in this log as in any."""
        partition = self._partition
        if partition is not None and subject.number == self._number:
            self._abandon()
            failure = StorageError(partition.log.path, f"flush failed: {error}")
            self._env.changed.failed.append((partition, failure))

    # Choosing -------------------------------------------------------------------------------

    def _begin_search(self) -> None:
        if not self._env.config.cleaner_enable:
            return
        hosted = self._env.hosted.partitions
        self._skipped = {
            partition: until
            for partition, until in self._skipped.items()
            if hosted.get(partition.topic_partition) is partition
            and (until is None or until > self._now)
        }
        self._best = None
        self._search.begin(hosted.values(), self._now)

    def _look(self, wall_ms: int) -> None:
        for partition in self._search.take(self._now):
            if partition in self._skipped or not self._may_clean(partition):
                continue
            part = cleanable_part(partition.log, wall_ms)
            if part is not None and (self._best is None or _worth(part) > _worth(self._best[1])):
                self._best = partition, part
        if self._search.next_at is None and self._best is not None:
            partition, _ = self._best
            self._best = None
            part = cleanable_part(partition.log, wall_ms)
            if part is not None and self._may_clean(partition):
                self._begin(partition, part, wall_ms)

    def _may_clean(self, partition: Partition) -> bool:
        """Whether a round may begin. While a replica moves, a tombstone could go before its copy
        has it; and the end that a cut has announced must be there when it is made."""
        return (
            "compact" in partition.log.config.cleanup_policy
            and partition.log.announced_end == UNCUT
            and partition.topic_partition not in self._env.hosted.moving
            and self._is_in_service(partition)
        )

    def _is_in_service(self, partition: Partition) -> bool:
        hosted = self._env.hosted.partitions.get(partition.topic_partition)
        return hosted is partition and partition.offline is None and partition.log.failure is None

    def _begin(self, partition: Partition, part: Cleanable, wall_ms: int) -> None:
        config, log = self._env.config, partition.log
        self._number += 1
        self._partition, self._began_at, self._at = partition, self._now, self._now
        try:
            self._round = CleaningRound(
                log,
                part,
                OffsetMap(config.cleaner_dedupe_buffer_bytes, config.cleaner_load_factor),
                number=self._number,
                wall_ms=wall_ms,
                buffer_bytes=config.cleaner_io_buffer_bytes,
                put_aside=self._put_aside,
            )
        except StorageError as error:
            self._stop(partition, error)
            return
        # Durable before anything of the round is, since disk effects keep their order: a start that
        # does not know of the cleaner takes its gaps for damage.
        self._env.directories.checkpoint_cleaned()

    def _put_aside(self, base_offset: int) -> None:
        assert self._partition is not None, "no log is being cleaned"
        log = self._partition.log
        due_at = Instant(self._now + log.config.file_delete_delay_ms)
        segment = DeletedSegment(log.topic_partition, base_offset, due_at)
        self._env.directories.add_deleted(segment)

    # A round --------------------------------------------------------------------------------

    def _go_on(self) -> None:
        partition, cleaning = self._partition, self._round
        assert partition is not None and cleaning is not None, "no round is under way"
        if not self._is_in_service(partition):
            self._abandon()
            return
        try:
            cleaning.step(CLEANING_WORK_PER_TURN)
        except LogDamaged as error:
            self._forget()
            self._env.changed.failed.append((partition, _given_up(cleaning) or error))
            return
        except (StorageError, CorruptBatch) as error:
            self._stop(partition, error)
            return
        if cleaning.is_over:
            self._end(partition, cleaning)
        else:
            self._at = None if cleaning.waits else self._next_slice(cleaning)

    def _next_slice(self, cleaning: CleaningRound) -> Instant:
        """After a pause, or when what was read and written is within the rate."""
        least_ms = cleaning.moved_bytes * 1000 / self._env.config.cleaner_io_max_bytes_per_second
        return max(Instant(self._now + CLEANING_PAUSE_MS), Instant(self._began_at + int(least_ms)))

    def _end(self, partition: Partition, cleaning: CleaningRound) -> None:
        log = partition.log
        self._env.trace.event(
            CleaningEnded(
                partition=log.topic_partition,
                cleaned_to=log.cleaned_to,
                bytes=cleaning.moved_bytes,
                ms=self._now - self._began_at,
            )
        )
        self._env.directories.checkpoint_cleaned()
        if cleaning.got_nowhere:
            # The next round would be the same at once, and so would all that follow.
            self._skipped[partition] = Instant(self._now + self._env.config.cleaner_backoff_ms)
        self._forget()
        self._begin_search()

    def _stop(self, partition: Partition, error: StorageError | CorruptBatch) -> None:
        retry_at = Instant(self._now + _RETRY_MS) if isinstance(error, StorageError) else None
        self._skipped[partition] = retry_at
        self._env.trace.event(
            CleaningStopped(partition=partition.topic_partition, reason=str(error))
        )
        failure = None if self._round is None else _given_up(self._round)
        self._forget()
        if failure is not None:
            self._env.changed.failed.append((partition, failure))
        self._begin_search()

    def _abandon(self) -> None:
        """The replica is not here any more, or not as it was."""
        if self._round is not None:
            self._round.abandon()
        self._forget()

    def _forget(self) -> None:
        self._round = self._partition = self._at = None


def _given_up(cleaning: CleaningRound) -> StorageError | None:
    """Ends a round; returns the error of a disk that does not even take its files away."""
    try:
        cleaning.give_up()
    except StorageError as error:
        return error
    return None


def _worth(part: Cleanable) -> tuple[bool, float]:
    return part.is_overdue, part.ratio
