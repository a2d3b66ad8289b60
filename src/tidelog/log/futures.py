"""Future logs: copies of logs that move to this directory, until they take the originals' place.

A log moves between the directories of a node as Kafka moves it (KIP-113): the directory it moves to
gets a `<topic>-<partition>.<32 hex>-future`, into which everything is copied. When the copy has
caught up, it is renamed to the partition's plain name and is the replica's log from then on. The
original stays under its plain name until the copy and its name are durable; then it is renamed to
be deleted, like any log. `replication/moves.py` decides when; here is what it takes on the disk.

A copy counts as a log in the checkpoints of its directory. A start opens it like a log, and the
move goes on. A copy that reads as damaged is deleted: the original is whole.

Invariants
- A future log has the plain name of no log beside it, and no directory that was renamed from that
  name: the entries of checkpoints under that name are its own.
- A future log is renamed only when no effect of it is under way: an effect names files by path.

Source: KIP-113, KIP-858; Kafka's `LogManager`.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.config import LogConfig
from tidelog.env.effects import Effect, EffectQueue
from tidelog.errors import LogDamaged
from tidelog.log.checkpoint import LEADER_EPOCH_FILE
from tidelog.log.events import FutureLogDropped
from tidelog.log.loading import make_log, opened
from tidelog.log.log import Log
from tidelog.log.partition_directories import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    RenamedDirectories,
    future_of,
)
from tidelog.log.pieces import Pieces
from tidelog.log.tail_cache import TailBudget, TailCache
from tidelog.log.values import Checkpoints, LogEnv
from tidelog.model import TopicId, TopicPartition

MAX_NAME_BYTES: Final = 255
"""Of a directory, on the file systems that there are."""


class CountedEffects(EffectQueue):
    """The effects of one future log, which are those of its directory."""

    __slots__ = ("_queue", "count")

    def __init__(self, queue: EffectQueue) -> None:
        super().__init__()
        self._queue = queue
        # How many there were so far.
        self.count = 0

    def emit(self, effect: Effect) -> None:
        """Adds one effect."""
        self.count += 1
        self._queue.emit(effect)


class FutureLog(NamedTuple):
    """One copy."""

    log: Log
    effects: CountedEffects

    @property
    def written(self) -> tuple[int, int]:
        """How many effects and cuts of it there were so far."""
        return self.effects.count, self.log.ledger.truncation_count


def name_of(key: TopicPartition, number: int) -> str:
    """The directory of a future log."""
    return f"{key}.{number:032x}{FUTURE_SUFFIX}"


def has_room_for_name(key: TopicPartition) -> bool:
    """Whether a file system takes the name of this partition's future log."""
    return len(name_of(key, 0).encode()) <= MAX_NAME_BYTES


class FutureLogs:
    """The future logs of one log directory, and the logs there whose copies are elsewhere."""

    def __init__(self, env: LogEnv, renamed: RenamedDirectories) -> None:
        self._env = env
        self._renamed = renamed
        # The copies, by partition.
        self.logs: dict[TopicPartition, FutureLog] = {}
        # Logs that a copy in another directory has replaced, with what the checkpoints keep of
        # them; they are closed, and have their plain names until that copy is durable.
        self.replaced: dict[TopicPartition, Checkpoints] = {}
        # Numbers the copies of this process, and voids the flushes of former ones.
        self._number = 0
        # Copies that were damaged and are gone, until another log takes their original's place.
        self.damaged: set[TopicPartition] = set()
        # Copies that a start has found and not opened yet, with the names of their directories.
        self._found: dict[TopicPartition, str] = {}

    # Start -----------------------------------------------------------------------------------

    def find(self, names: list[str]) -> list[TopicPartition]:
        """The partitions whose copies a start finds. Of several copies, and beside a log of the
        same partition, none is any good."""
        for name in names:
            key = future_of(name)
            if key is None:
                continue
            if str(key) in names or key in self._found:
                self._renamed.rename(key, DELETE_SUFFIX, name)
            else:
                self._found[key] = name
        return list(self._found)

    def is_found(self, key: TopicPartition) -> bool:
        """Whether a start has found a copy of this partition."""
        return key in self._found

    def open(
        self,
        key: TopicPartition,
        config: LogConfig,
        checkpoints: Checkpoints,
        clean: bool,
        wall_ms: int,
    ) -> Pieces[None]:
        """Opens a copy that was found."""
        name = self._found.pop(key)
        env, effects = self._surroundings()
        try:
            log = yield from opened(
                env, key, config, checkpoints, clean=clean, wall_ms=wall_ms, path=name
            )
        except LogDamaged as error:
            self._env.trace.event(FutureLogDropped(partition=key, reason=error.message))
            self._renamed.rename(key, DELETE_SUFFIX, name)
            self.damaged.add(key)
        else:
            self._add(key, log, effects)

    # Copies ----------------------------------------------------------------------------------

    def create(self, key: TopicPartition, topic_id: TopicId, config: LogConfig) -> FutureLog:
        """Makes a new empty copy. Raises `StorageError`."""
        assert key not in self.logs, f"{key} is being copied already"
        env, effects = self._surroundings()
        self._number += 1
        while self._env.disk.exists(name_of(key, self._number)):
            self._number += 1
        path = name_of(key, self._number)
        return self._add(key, make_log(env, key, topic_id, config, path=path), effects)

    def _surroundings(self) -> tuple[LogEnv, CountedEffects]:
        effects = CountedEffects(self._env.effects)
        return self._env._replace(effects=effects), effects

    def _add(self, key: TopicPartition, log: Log, effects: CountedEffects) -> FutureLog:
        self._number += 1
        log.ledger.begin_after(self._number)
        log.ledger.is_future = True
        # No reader ever asks it.
        log.tail = TailCache(TailBudget(), 0)
        future = self.logs[key] = FutureLog(log, effects)
        return future

    def drop(self, key: TopicPartition) -> None:
        """Gives a copy up; its files go later. Raises `StorageError`."""
        future = self.logs.pop(key)
        self._number = max(self._number, future.log.ledger.truncation_count)
        future.log.close()
        self._renamed.rename(key, DELETE_SUFFIX, future.log.path)

    def promote(self, key: TopicPartition) -> Log:
        """Gives a copy the plain name of its partition, and returns it. Not durable yet. Raises
        `StorageError`."""
        log, path = self.logs[key].log, str(key)
        self._env.disk.rename(log.path, path)
        del self.logs[key]
        for segment in log.segments:
            segment.move_to(path)
        log.snapshots.directory = path
        log.epochs.path = f"{path}/{LEADER_EPOCH_FILE}"
        log.path = path
        # Of a log without records no other file is there, to make the new name durable with.
        log.identity_is_unsynced = True
        log.env = self._env
        log.ledger.is_future = False
        return log

    # Originals -------------------------------------------------------------------------------

    def keep_replaced(self, key: TopicPartition, log: Log) -> None:
        """The log is closed: its copy is in service."""
        self.replaced[key] = Checkpoints(
            log.claimed_end,
            log.log_start_offset,
            log.saved_high_watermark,
            cleaned_to=log.cleaned_to,
        )

    def drop_replaced(self, key: TopicPartition) -> None:
        """Its copy is durable: its files go later. Raises `StorageError`."""
        del self.replaced[key]
        self._renamed.rename(key, DELETE_SUFFIX)

    # Views -----------------------------------------------------------------------------------

    def is_free(self, key: TopicPartition) -> bool:
        """Whether a copy may be made: nothing here has, or had, the partition's plain name."""
        return not (key in self.logs or key in self.replaced or self._renamed.has(key))

    def cut_count_of(self, key: TopicPartition) -> int:
        """At least how often copies of this log were cut that are here, or were."""
        future = self.logs.get(key)
        return max(self._number, 0 if future is None else future.log.ledger.truncation_count)

    def items(self) -> Iterator[tuple[TopicPartition, Log]]:
        """The copies by partition."""
        return ((key, future.log) for key, future in self.logs.items())

    def check(self) -> None:
        """Asserts the invariants of every copy."""
        for key, future in self.logs.items():
            assert key not in self.replaced, f"{key} moves to where it is"
            assert future.log.ledger.is_future, f"the copy of {key} is in service"
            future.log.check()
