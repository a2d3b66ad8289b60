"""Rounds of cleaning in any order with all else: every key has its last value behind each start.

Method: a generator draws appends, transactions, flushes, cuts of what is not committed, rolls,
later log starts, parts of rounds, effects that are carried out or not yet, checkpoints, and deaths
of the process and of the machine at any write. A model has all that was ever appended.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.unit.log.cleaning.bench import CleaningBench, Found, committed_records, draw_value
from tests.unit.log.cleaning.test_swap import CrashingDisk
from tests.unit.log.harness import PARTITION, TOPIC_ID
from tidelog.env.effects import Effect
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import StorageError
from tidelog.log.deleted_files import DeletedSegment
from tidelog.log.state import UNCUT
from tidelog.model import NO_OFFSET, ZERO_TOPIC_ID

_TRANSACTIONAL: Final = (3, 4)
_CHECKPOINTS: Final = ("recovery_points", "log_start_offsets", "high_watermarks", "cleaned")


class Appended(NamedTuple):
    """A batch that was appended, or a marker, which has no records."""

    base_offset: int
    end: int
    epoch: int
    producer: int
    last_sequence: int
    commits: bool | None
    records: list[Found]


@dataclass
class Model:
    """What a log would have without a cleaner."""

    batches: list[Appended] = field(default_factory=list)
    gone: dict[tuple[int, int], Appended] = field(default_factory=dict)
    """What was cut, by base offset and epoch; a power cut may undo that."""

    def cut(self, end: int) -> None:
        for batch in self.batches:
            if batch.end > end:
                self.gone[batch.base_offset, batch.epoch] = batch
        self.batches = [batch for batch in self.batches if batch.end <= end]

    def find(self, found: set[tuple[int, int]]) -> None:
        """A start has found these batches, by base offset and epoch."""
        back = sorted(self.gone[each] for each in found & self.gone.keys())
        if back:
            self.cut(back[0].base_offset)
            self.batches += back
            for batch in back:
                self.gone.pop((batch.base_offset, batch.epoch), None)

    def open_transactions(self) -> dict[int, list[Appended]]:
        """The batches of each, by producer."""
        return self._decided()[1]

    def _decided(self) -> tuple[list[Found], dict[int, list[Appended]]]:
        shown: list[Found] = []
        open_: dict[int, list[Appended]] = {}
        for batch in self.batches:
            if batch.commits is not None:
                ended = open_.pop(batch.producer, [])
                shown += [each for one in ended if batch.commits for each in one.records]
            elif batch.producer in _TRANSACTIONAL:
                open_.setdefault(batch.producer, []).append(batch)
            else:
                shown += batch.records
        return sorted(shown, key=lambda record: record[0]), open_

    def shown(self, start: int, end: int) -> list[Found]:
        """What readers of committed data get where the last stable offset is `end`."""
        return [record for record in self._decided()[0] if start <= record[0] < end]

    def last_sequences(self, start: int) -> dict[int, int]:
        """Of the producers whose last batch begins there or above."""
        last = {one.producer: one for one in self.batches if one.commits is None}
        return {
            key: one.last_sequence for key, one in last.items() if one.base_offset >= start >= 0
        }


class RandomRounds(CleaningBench):
    """A leader whose log is cleaned, and what becomes of it otherwise."""

    def __init__(self, seed: int) -> None:
        self.prng = Prng(seed)
        self.crashing = CrashingDisk()
        self.model = Model()
        self.queue: list[Effect] = []
        self.now = Instant(0)
        # The highest log start that there was: what is below may be back.
        self.highest_start = 0
        policy = self.prng.choice(("compact", "compact,delete"))
        size = self.prng.choice((300, 700, 2000))
        super().__init__(self.crashing, cleanup_policy=policy, segment_bytes=size)

    # Effects

    def carry_out(self, most: int = 1 << 30) -> None:
        """The next effects."""
        self.queue += self.effects.take()
        while self.queue and most > 0:
            most -= 1
            self.carry_out_one(self.queue.pop(0))
            self.queue += self.effects.take()

    # Steps

    def step(self) -> None:
        often = (self.append, self.append, self.append, self.some_effects, self.some_of_a_round)
        seldom = (self.end_one, self.flush, self.commit, self.seal, self.save, self.wait)
        rare = (self.cut_some, self.begin_later, self.take_out, self.clear, self.arm, self.restart)
        acts = (*often * 4, *seldom * 3, *rare)
        try:
            acts[self.prng.below(len(acts))]()
            self.log.check()
        except StorageError:
            if not self.crashing.failing:
                raise
            self.die()

    def append(self) -> None:
        prng = self.prng
        pairs = [
            (b"key-%d" % prng.below(6) * prng.choice((1, 1, 8)), draw_value(prng))
            for _ in range(prng.between(1, 3))
        ]
        producer = prng.choice((-1, -1, 1, 2, 3, 4))
        txn = int(producer in _TRANSACTIONAL)
        before = self.log.log_end_offset
        records = [(before + index, key, value) for index, (key, value) in enumerate(pairs)]
        end, sequence = before + len(pairs), self.sequences.get(producer, 0) + len(pairs) - 1
        # First: it may be in the log although the process dies.
        self.model.batches.append(
            Appended(before, end, self.epoch, producer, sequence, None, records)
        )
        self.put(*pairs, producer=producer, txn=txn, codec=prng.choice((0, 0, 1)))

    def end_one(self) -> None:
        ongoing = list(self.model.open_transactions())
        if ongoing:
            self.end_of(self.prng.choice(ongoing))

    def end_of(self, producer: int) -> None:
        commits, before = self.prng.chance(1, 2), self.log.log_end_offset
        self.model.batches.append(
            Appended(before, before + 1, self.epoch, producer, -1, commits, [])
        )
        self.end(producer, commit=commits)

    def some_effects(self) -> None:
        self.carry_out(self.prng.choice((1, 3, 1000)))

    def some_of_a_round(self) -> None:
        if self.round is None or self.round.is_over:
            self.begin(self.prng.choice((2, 10, 1000)), self.put_aside)
            return
        self.round.step(self.prng.choice((7, 100, 10_000)))
        if self.round.is_over:
            self.directory.checkpoint_cleaned()

    def put_aside(self, base_offset: int) -> None:
        due = Instant(self.now + self.prng.choice((0, 50)))
        self.directory.deleted_files.add(DeletedSegment(PARTITION, base_offset, due))

    def flush(self) -> None:
        self.log.request_flush()

    def commit(self) -> None:
        ends = [one.end for one in self.model.batches if one.end > self.log.high_watermark]
        if ends:
            self.log.update_high_watermark(self.prng.choice(ends))

    def seal(self) -> None:
        if self.log.segments.active.size_bytes and not self.log.ledger.cut_is_pending:
            self.roll()

    def save(self) -> None:
        getattr(self.directory, f"checkpoint_{self.prng.choice(_CHECKPOINTS)}")()

    def wait(self) -> None:
        self.wall_ms += self.prng.choice((1, 400, 2000))
        self.now = Instant(self.now + 30)

    def cut_some(self) -> None:
        """As a follower cuts: the checkpoints first."""
        log = self.log
        ends = [one.end for one in self.model.batches if one.end >= log.high_watermark]
        if not ends:
            return
        log.announced_end = log.end_below(self.prng.choice(ends))
        self.directory.checkpoint_recovery_points()
        while log.announced_end < log.recovery_point and (self.queue or len(self.effects)):
            self.carry_out(1)
        self.carry_out()
        log.truncate_to(log.announced_end)
        log.announced_end = UNCUT
        self.epoch += 1
        self.learn()

    def learn(self) -> None:
        """The log ends there; what was above is not."""
        self.model.cut(self.log.log_end_offset)
        known = self.log.producers.by_id.items()
        self.sequences = {key: entry.last_sequence + 1 for key, entry in known}

    def begin_later(self) -> None:
        log = self.log
        if "delete" in self.config.cleanup_policy:
            start = self.prng.between(log.log_start_offset, log.high_watermark)
            log.maybe_raise_log_start_offset(start)
            self.highest_start = max(self.highest_start, start)

    def take_out(self) -> None:
        """As retention does, once the log start is durable."""
        if self.log.cleaning is None:
            start = self.log.log_start_offset
            self.directory.checkpoint_log_start_offsets()
            self.carry_out()
            if self.log.cleaning is None:
                for base_offset in self.log.set_segments_aside(start, 100):
                    self.put_aside(base_offset)

    def clear(self) -> None:
        self.directory.deleted_files.clear(self.now, 100)

    def arm(self) -> None:
        """The machine dies soon."""
        self.crashing.left = self.prng.below(30)

    def restart(self) -> None:
        if self.prng.chance(1, 3):
            self.carry_out()
            self.stop()
            self.begin_process(self.log.log_end_offset)
        else:
            self.die()

    def die(self) -> None:
        self.crashing.failing = self.crashing.left = None
        power_cut = self.prng.chance(1, 2)
        log = self.log
        end = min(log.recovery_point if power_cut else log.log_end_offset, log.announced_end)
        if power_cut:
            self.disk.crash(self.prng)
        self.begin_process(end)

    def begin_process(self, owed_end: int) -> None:
        """A start; the log has at least what it owes."""
        self.crashing.left = None
        self.effects.take()
        self.queue.clear()
        self.round = None
        self.directory = self._open()
        assert not self.directory.damaged
        if PARTITION not in self.directory.logs:
            self.directory.create(PARTITION, TOPIC_ID, self.config)
        log = self.log
        if log.topic_id == ZERO_TOPIC_ID:
            log.assign_topic_id(TOPIC_ID)
        log.reconfigure(self.config)
        self.epoch += 1
        assert log.log_end_offset >= owed_end
        batches = [batch.header for segment in log.segments for batch in segment.batches.scan()]
        self.model.find({(header.base_offset, header.leader_epoch) for header in batches})
        self.learn()
        self.check()

    def check(self) -> None:
        """The log says the same as the model."""
        log = self.log
        log.verify()
        assert log.log_end_offset == max([0, *(one.end for one in self.model.batches)])
        log.update_high_watermark(log.log_end_offset)
        open_ = self.model.open_transactions()
        begun = {
            key: one.txn_first_offset
            for key, one in log.producers.by_id.items()
            if one.txn_first_offset != NO_OFFSET
        }
        start = max(self.highest_start, log.log_start_offset)
        if not log.log_start_offset:
            assert begun == {key: batches[0].base_offset for key, batches in open_.items()}
        known = {key: one.last_sequence for key, one in log.producers.by_id.items()}
        for producer, sequence in self.model.last_sequences(start).items():
            assert producer < 0 or known.get(producer) == sequence
        before = self.model.shown(start, log.last_stable_offset)
        after = [record for record in committed_records(log) if record[0] >= start]
        assert set(after) <= set(before)
        last = {key: (offset, key, value) for offset, key, value in after}
        for offset, key, value in before:
            if all(one[1] != key or one[0] <= offset for one in before):
                is_gone = value is None and key not in last
                assert is_gone or last.get(key) == (offset, key, value)
