"""One log whose old records go, whose disk is slow to answer, and whose files may be struck."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from tests.unit.log.harness import DIRECTORY_ID, PARTITION, TOPIC_ID, WALL_MS, LogBench, batch
from tests.unit.replication.surroundings import make_env
from tidelog.config import LogConfig
from tidelog.env.effects import Effect, Flush, Replace
from tidelog.env.instant import Instant
from tidelog.env.memory_disk import Operation
from tidelog.env.prng import Prng
from tidelog.errors import StorageError
from tidelog.log.checkpoint import LOG_START_FILE, decode_offsets
from tidelog.log.file_names import LOG_SUFFIX
from tidelog.log.log import Log
from tidelog.log.pieces import Pieces
from tidelog.log.state import UNCUT
from tidelog.log.values import AppendOrigin, LogFlush
from tidelog.model import ZERO_TOPIC_ID
from tidelog.records.batch import stamp
from tidelog.records.control import EndTxnMarker, build_end_txn_marker
from tidelog.replication.messages import LogStartsSaved
from tidelog.replication.partition import Partition
from tidelog.replication.retention import Retention
from tidelog.sim.engine.disk import SimDisk, Trouble
from tidelog.sim.replicas.reading import Written, records_of

_CRC_COVERS_FROM = 21


class RetentionBench(LogBench):
    """A replica, and what becomes of it in the order that a seed draws."""

    def __init__(self, seed: int) -> None:
        self.prng = Prng(seed)
        self.sim_disk = SimDisk("disk")
        self.now = Instant(0)
        self.epoch = 0
        # Whether offsets may be missing between batches.
        self.has_gaps = self.prng.chance(1, 4)
        # Effects that the disk has not got to, and subjects of which the node has no answer yet.
        self.queue: deque[Effect] = deque()
        self.answers: deque[object] = deque()
        # The highest log start that is on the device.
        self.saved_start = 0
        # By producer: epoch, next sequence, whether a transaction is open.
        self.clients: dict[int, tuple[int, int, bool]] = {}
        config = LogConfig(
            segment_bytes=self.prng.choice((300, 500, 1000)),
            file_delete_delay_ms=self.prng.choice((0, 3)),
            index_interval_bytes=100,
        )
        super().__init__(config, self.sim_disk)
        self.host()

    def host(self) -> None:
        """The log is in service in this process."""
        self.env = make_env(self)
        self.retention = Retention(self.env)
        self.partition = Partition(self.log, self.env)
        self.env.hosted.partitions[PARTITION] = self.partition
        self.log.reconfigure(self.config)
        if self.log.topic_id == ZERO_TOPIC_ID:
            self.log.assign_topic_id(TOPIC_ID)
        self.log.update_high_watermark(self.log.log_end_offset)
        self.begin_term()

    def begin_term(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch, self.log.log_end_offset)

    # Steps ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Something happens; a disk that refuses ends the process."""
        some: tuple[Callable[[], object], ...] = (
            *(self.some_records,) * 8,
            *(self.some_effects,) * 10,
            *(self.some_answers,) * 6,
            *(self.tick,) * 6,
            *(self.flush,) * 2,
            *(self.save_starts,) * 2,
            *(self.begin_later,) * 2,
            *(self.retain,) * 2,
            self.transact,
            self.transact,
            self.save,
            self.cut,
            self.restart_at,
            self.fill_disk,
            self.refuse_deletions,
            self.stop_cleanly,
            self.die,
            self.die,
        )
        chosen = self.prng.choice(some)
        self.note_what_is_there()
        try:
            chosen()
            self.log.check()
            self.directory.check()
        except StorageError:
            self.die(is_torn=True)

    def note_what_is_there(self) -> None:
        log = self.log
        self.known = self.producers
        self.there = log.log_start_offset, log.log_end_offset, log.recovery_point, self.records
        # Where a cut may have been, once it was begun.
        self.cut_at = UNCUT

    def some_records(self) -> None:
        for _ in range(self.prng.between(1, 4)):
            if self.has_gaps and self.prng.chance(1, 2):
                gap = self.prng.below(3)
                data = stamp(
                    batch(self.prng.between(1, 3)), self.log.log_end_offset + gap, self.epoch
                )
                self.log.append_as_follower(data, self.epoch)
            else:
                timestamp = WALL_MS + self.now * 10
                self.log.append_as_leader(
                    batch(self.prng.between(1, 3), timestamp), self.epoch, timestamp
                )
        self.commit()

    def commit(self) -> None:
        log = self.log
        if self.prng.chance(4, 5):
            log.update_high_watermark(self.prng.between(log.high_watermark, log.log_end_offset))

    def transact(self) -> None:
        """A producer writes in a transaction, or ends one."""
        producer_id = self.prng.between(1, 3)
        epoch, sequence, is_open = self.clients.get(producer_id, (0, 0, False))
        if is_open and self.prng.chance(1, 2):
            marker = EndTxnMarker(self.prng.chance(1, 2), 0)
            data = build_end_txn_marker(marker, producer_id, epoch, WALL_MS)
            self.log.append_as_leader(data, self.epoch, WALL_MS, origin=AppendOrigin.COORDINATOR)
            is_open = False
        else:
            count = self.prng.between(1, 3)
            data = batch(
                count,
                producer_id=producer_id,
                producer_epoch=epoch,
                sequence=sequence,
                transactional=True,
            )
            self.log.append_as_leader(data, self.epoch, WALL_MS)
            sequence, is_open = sequence + count, True
        self.clients[producer_id] = (epoch, sequence, is_open)
        self.commit()

    def some_effects(self) -> None:
        """The disk gets to some of what it was asked for."""
        self.carry_out(self.prng.between(1, 8))

    def some_answers(self) -> None:
        self.answer(self.prng.between(1, 8))

    def carry_out(self, most: int = 1 << 30) -> None:
        self.queue.extend(self.effects.take())
        while self.queue and most > 0:
            most -= 1
            effect = self.queue.popleft()
            if isinstance(effect, Flush):
                self.disk.sync(effect.file)
            else:
                assert isinstance(effect, Replace)
                self.disk.replace(effect.path, effect.data)
                if effect.path == LOG_START_FILE:
                    start = decode_offsets(effect.data).get(PARTITION, 0)
                    self.saved_start = max(self.saved_start, start)
            if effect.subject is not None:
                self.answers.append(effect.subject)

    def answer(self, most: int = 1 << 30) -> None:
        while self.answers and most > 0:
            most -= 1
            match self.answers.popleft():
                case LogFlush() as subject:
                    was_durable = self.log.claimed_end > 0
                    self.log.on_flushed(subject)
                    if not was_durable and self.log.claimed_end > 0:
                        self.directory.checkpoint_recovery_points()
                case LogStartsSaved() as subject:
                    self.retention.on_log_starts_saved(subject, self.now)

    def settle_all(self) -> None:
        while self.effects or self.queue or self.answers:
            self.carry_out()
            self.answer()

    def flush(self) -> None:
        self.log.request_flush()

    def tick(self) -> None:
        self.now = Instant(self.now + self.prng.between(1, 4))
        if self.retention.work(self.now, WALL_MS + self.now * 10):
            self.save_starts()
        for _, error in self.env.changed.failed:
            raise error

    def retain(self) -> None:
        """Another configuration."""
        sizes, ages = (-1, 0, 200, 1000, 3000), (-1, 100, 1000)
        self.config = replace(
            self.config,
            retention_bytes=self.prng.choice(sizes),
            retention_ms=self.prng.choice(ages),
        )
        self.log.reconfigure(self.config)
        self.env.changed.reconfigured[self.partition] = None
        self.tick()

    def save_starts(self) -> None:
        starts = self.retention.log_starts_to_save([self.partition])
        subject = LogStartsSaved(DIRECTORY_ID, tuple(starts))
        self.directory.checkpoint_log_start_offsets(subject if starts else None)

    def save(self) -> None:
        self.directory.checkpoint_recovery_points()
        self.save_starts()
        self.directory.checkpoint_high_watermarks()

    def begin_later(self) -> None:
        log = self.log
        if log.high_watermark > log.log_start_offset:
            log.maybe_raise_log_start_offset(
                self.prng.between(log.log_start_offset, log.high_watermark)
            )

    def cut(self) -> None:
        """As a follower cuts: the checkpoints first, also below its log start."""
        log = self.log
        end = self.prng.between(max(0, log.log_start_offset - 2), log.log_end_offset)
        if log.segments.first_base_offset <= end < log.log_end_offset:
            # Followers cut between batches.
            end = log.segments.covering(end)[0].end_below(end)
        log.announced_end = log.end_below(end)
        self.directory.checkpoint_log_start_offsets()
        self.directory.checkpoint_recovery_points()
        self.carry_out()
        before = log.log_start_offset
        self.cut_at = log.announced_end
        self.saved_start = min(self.saved_start, self.cut_at)
        log.truncate_to(log.announced_end)
        log.announced_end = UNCUT
        if log.log_start_offset < before:
            self.directory.checkpoint_log_start_offsets()
            self.carry_out()
        self.saved_start = min(self.saved_start, log.log_start_offset)
        self.forget_clients()
        self.begin_term()

    def restart_at(self) -> None:
        """As a follower that ends below its leader's log start."""
        if not self.prng.chance(1, 3):
            return
        self.log.announced_end = 0
        self.directory.checkpoint_recovery_points()
        self.carry_out()
        # It may begin at 0 until its name is durable, and counts for nothing as long.
        self.cut_at = self.saved_start = 0
        self.log.truncate_fully_and_start_at(self.log.log_end_offset + self.prng.below(4))
        self.log.announced_end = UNCUT
        self.forget_clients()
        self.begin_term()

    def forget_clients(self) -> None:
        """Others write from now on: what these had written may be gone."""
        entries = self.log.producers.by_id
        self.clients = {
            each: (entry.producer_epoch, entry.last_sequence + 1, entry.txn_first_offset >= 0)
            for each, entry in entries.items()
        }

    def fill_disk(self) -> None:
        if self.prng.chance(1, 3):
            self.disk.capacity_bytes = self.disk.used_bytes + self.prng.below(1500)

    def refuse_deletions(self) -> None:
        if self.prng.chance(1, 3):
            trouble = Trouble("refused", frozenset((Operation.DELETE,)), sticky=False)
            self.sim_disk.troubles.append(trouble)

    # Ends of processes ----------------------------------------------------------------------

    @property
    def records(self) -> list[Written]:
        self.log.tail.clear()
        return records_of(self.log)

    def heal(self) -> None:
        self.sim_disk.heal()
        self.disk.capacity_bytes = None

    def stop_cleanly(self) -> None:
        self.heal()
        self.settle_all()
        expected, start, end = self.records, self.log.log_start_offset, self.log.log_end_offset
        producers = self.producers
        self.stop()
        self.queue.clear()
        power_cut = self.prng.chance(1, 2)
        if power_cut:
            self.disk.crash(self.prng)
        self.start()
        assert (self.log.log_start_offset, self.log.log_end_offset) == (start, end)
        assert self.log.recovery_point == end
        assert self.records == expected
        self.know(producers)
        self.host()

    def know(self, producers: dict[int, tuple[int, int, int]]) -> None:
        """A start knows all that was known, and perhaps the batch before a marker too."""
        for producer_id, (epoch, sequence, begun) in producers.items():
            found = self.producers[producer_id]
            assert (found[0], found[2]) == (epoch, begun), f"{producer_id}: {found} {producers}"
            assert sequence in (-1, found[1]), f"{producer_id}: {found} {producers}"

    @property
    def producers(self) -> dict[int, tuple[int, int, int]]:
        by_id = self.log.producers.by_id
        return {
            each: (entry.producer_epoch, entry.last_sequence, entry.txn_first_offset)
            for each, entry in by_id.items()
        }

    def start(self) -> None:
        self.queue.clear()
        self.answers.clear()
        self.effects.take()
        self.directory = self._open()

    def die(self, *, is_torn: bool = False) -> None:
        """The process, or the machine; the disk has done some of what it was asked for. Torn: in
        the middle of a step."""
        self.heal()
        if not is_torn:
            self.note_what_is_there()
        power_cut = self.prng.chance(1, 2)
        self.carry_out(self.prng.choice((0, self.prng.below(10), 1 << 30)))
        start, end, recovery_point, records = self.there
        recovery_point = min(recovery_point, self.cut_at)
        durable_end = recovery_point if power_cut else min(end, self.cut_at)
        owed = [each for each in records if each.offset < durable_end]
        saved = self.saved_start
        self.effects.take()
        self.queue.clear()
        if power_cut and not self.disk.durable_files().get(f"{PARTITION}/partition.metadata"):
            # It may be the log of another topic.
            saved = 0
        if power_cut:
            self.disk.crash(self.prng)
        struck = self.prng.chance(1, 5) and self.strike(min(recovery_point, self.claim), start)
        self.start()
        what = f"{power_cut=} {start=} {end=} {recovery_point=} {saved=} {struck=}"
        if struck:
            self.after_damage(owed, saved)
            return
        assert not self.directory.damaged, f"{what} {self.directory.damaged}"
        if PARTITION not in self.directory.logs:
            assert not owed and not saved, what
            self.directory.create(PARTITION, TOPIC_ID, self.config)
        found = self.log
        what += f" found {found.log_start_offset}..{found.log_end_offset}"
        assert found.log_start_offset >= saved, what
        assert found.log_start_offset <= start or (power_cut and not recovery_point) or is_torn, (
            what
        )
        if not power_cut and not is_torn:
            assert found.log_end_offset == end, what
            self.know(self.known)
        assert found.log_end_offset >= durable_end or not owed, what
        by_offset = {each.offset: each for each in self.records}
        assert [by_offset.get(each.offset) for each in owed] == owed, what
        self.forget_clients()
        self.host()

    @property
    def claim(self) -> int:
        """What the checkpoint on the disk says is durable."""
        data = self.disk.read_file("recovery-point-offset-checkpoint") or b""
        return decode_offsets(data).get(PARTITION, 0)

    def strike(self, durable_end: int, start: int) -> bool:
        """Damages what is durable and not deleted; returns whether anything is."""
        names = (
            [
                name
                for name in self.disk.list_dir(str(PARTITION))
                if name.endswith(LOG_SUFFIX) and int(name[:20]) < durable_end
            ]
            if self.disk.exists(str(PARTITION))
            else []
        )
        bases = sorted(int(name[:20]) for name in names)
        keep = max([base for base in bases if base <= start], default=0)
        names = [name for name in names if int(name[:20]) >= keep]
        if not names:
            return False
        path = f"{PARTITION}/{self.prng.choice(names)}"
        content = self.disk.content(path)
        spans, position = [], 0
        while position + 61 <= len(content.data):
            size = int.from_bytes(content.data[position + 8 : position + 12]) + 12
            last = int.from_bytes(content.data[position : position + 8]) + int.from_bytes(
                content.data[position + 23 : position + 27]
            )
            if size < 61 or last >= durable_end:
                break
            if last >= start:
                spans.append((position, size))
            position += size
        if not spans:
            return False
        position, size = self.prng.choice(spans)
        match self.prng.below(3):
            case 0:
                at = self.prng.between(position + _CRC_COVERS_FROM, position + size - 1)
                self.disk.flip_bit(path, 8 * at + self.prng.below(8))
            case 1:
                # Between two batches of a log with gaps nothing would show it.
                del content.data[self.prng.between(position + 1, position + size - 1) :]
                content.sync()
            case _ if not self.has_gaps:
                self.disk.delete(path)
            case _:
                return False
        return True

    def after_damage(self, owed: list[Written], saved: int) -> None:
        """It is named at the start, or where it is read; then the log is repaired."""
        if PARTITION in self.directory.logs:
            assert not self.directory.is_sound(PARTITION), "damage was cut silently"
        for _ in range(self.prng.below(3)):
            if self.repair(most=self.prng.below(6)):
                break
            self.restart_damaged()
        # A process that finds what another has reported reads all of it when it is repaired.
        while not self.directory.is_sound(PARTITION):
            self.repair()
        log = self.log
        by_offset = {each.offset: each for each in owed}
        wrong = [each for each in self.records if each.offset in by_offset]
        assert [by_offset[each.offset] for each in wrong] == wrong
        log.verify()
        # What was asked for has to be carried out before the replica counts as one again.
        self.carry_out()
        self.answer()
        self.saved_start = min(self.saved_start, log.log_start_offset)
        self.forget_clients()
        self.host()

    def restart_damaged(self) -> None:
        """The process ends, or the machine, in the middle of a repair."""
        self.carry_out(self.prng.below(3))
        if self.prng.chance(1, 2):
            self.disk.crash(self.prng)
        self.start()
        if PARTITION in self.directory.logs:
            assert not self.directory.is_sound(PARTITION), "damage was forgotten"

    def repair(self, most: int = 1 << 30) -> bool:
        """Goes on with it; returns whether that was all."""
        if self.has_gaps:
            self.directory.doubt_all(PARTITION)
        pieces: Pieces[Log] = self.directory.repaired(PARTITION, TOPIC_ID, self.config)
        return any(next(pieces, None) is None for _ in range(most))
