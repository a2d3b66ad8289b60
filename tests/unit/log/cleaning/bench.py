"""A compacted log, a round of cleaning on it, and what must be the same behind it."""

from collections.abc import Callable
from dataclasses import replace

from tests.unit.log.harness import WALL_MS, LogBench
from tidelog.config import LogConfig
from tidelog.env.effects import Effect, Flush, Replace
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.log.cleaning.choosing import cleanable_part
from tidelog.log.cleaning.offset_map import OffsetMap
from tidelog.log.cleaning.round import CleaningRound
from tidelog.log.cleaning.swap import CleanedFlush
from tidelog.log.log import Log
from tidelog.log.values import AppendOrigin, LogFlush
from tidelog.records.batch import build_batch, decode_body, iter_headers
from tidelog.records.compression import Codec
from tidelog.records.control import EndTxnMarker, build_end_txn_marker
from tidelog.records.record import Record

CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=200,
    cleanup_policy="compact",
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
)
Found = tuple[int, bytes | None, bytes | None]
"""Offset, key and value of a record."""


class CleaningBench(LogBench):
    """Appends what is drawn, and cleans."""

    def __init__(self, disk: MemoryDisk | None = None, **changes: object) -> None:
        super().__init__(replace(CONFIG, **changes), disk)  # type: ignore[arg-type]
        self.log.reconfigure(self.config)
        self.wall_ms = WALL_MS
        self.epoch = 0
        # Next sequence by producer.
        self.sequences: dict[int, int] = {}
        self.round: CleaningRound | None = None
        self.round_number = 0

    def put(self, *pairs: tuple[bytes | None, bytes | None], producer: int = -1, **how: int) -> int:
        """Appends one batch; of a producer with `txn=1` in a transaction."""
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        data = build_batch(
            [Record(self.wall_ms, key, value) for key, value in pairs],
            codec=Codec(how.get("codec", 0)),
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
            is_transactional=bool(how.get("txn", 0)),
        )
        if producer >= 0:
            self.sequences[producer] = sequence + len(pairs)
        return self.log.append_as_leader(data, self.epoch, self.wall_ms).first_offset

    def end(self, producer: int, *, commit: bool) -> None:
        """Ends a producer's transaction."""
        marker = build_end_txn_marker(EndTxnMarker(commit, 0), producer, 0, self.wall_ms)
        coordinator = AppendOrigin.COORDINATOR
        self.log.append_as_leader(marker, self.epoch, self.wall_ms, origin=coordinator)

    def commit_all(self) -> None:
        """All of the log is committed and durable."""
        self.log.update_high_watermark(self.log.log_end_offset)
        self.log.request_flush()
        self.settle()
        self.directory.checkpoint_recovery_points()
        self.directory.checkpoint_high_watermarks()
        self.settle()

    def begin(self, keys: int = 1000, put_aside: Callable[[int], object] = lambda _: None) -> bool:
        """Begins a round if there is something to clean."""
        part = cleanable_part(self.log, self.wall_ms)
        if part is None:
            return False
        self.round_number += 1
        self.round = CleaningRound(
            self.log,
            part,
            OffsetMap(200 * keys, 1.0),
            number=self.round_number,
            wall_ms=self.wall_ms,
            buffer_bytes=300,
            put_aside=put_aside,
        )
        self.directory.checkpoint_cleaned()
        return True

    def settle(self) -> None:
        """The round learns what is durable, too."""
        for effect in self.effects.take():
            self.carry_out_one(effect)

    def carry_out_one(self, effect: Effect) -> None:
        """What the disk does, and who learns of it."""
        if isinstance(effect, Replace):
            self.disk.replace(effect.path, effect.data)
        elif isinstance(effect, Flush):
            self.disk.sync(effect.file)
            if isinstance(effect.subject, CleanedFlush) and self.round is not None:
                self.round.on_flushed(effect.subject)
            elif isinstance(effect.subject, LogFlush):
                self.log.on_flushed(effect.subject)

    def clean(
        self,
        keys: int = 1000,
        between: Callable[[], object] = lambda: None,
        put_aside: Callable[[int], object] = lambda _: None,
    ) -> bool:
        """A whole round, in small steps; returns whether there was something to clean."""
        if not self.begin(keys, put_aside):
            return False
        cleaning = self.round
        assert cleaning is not None
        while not cleaning.is_over:
            cleaning.step(7)
            between()
            self.settle()
        self.directory.checkpoint_cleaned()
        self.settle()
        self.log.check()
        return True


def draw_history(bench: CleaningBench, prng: Prng, count: int) -> None:
    """Some batches: plain ones, of idempotent producers, of transactions; with tombstones."""
    open_transactions: list[int] = []
    for _ in range(count):
        bench.wall_ms += prng.choice((0, 1, 50))
        bench.epoch += prng.chance(1, 8)
        pairs = [
            (b"key-%d" % prng.below(9) * prng.choice((1, 1, 5)), draw_value(prng))
            for _ in range(prng.between(1, 4))
        ]
        producer = prng.choice((-1, -1, 1, 2, 3, 4))
        if producer in (3, 4):
            if producer not in open_transactions:
                open_transactions.append(producer)
            bench.put(*pairs, producer=producer, txn=1, codec=prng.choice((0, 1, 4)))
        else:
            bench.put(*pairs, producer=producer, codec=prng.choice((0, 0, 1, 2, 3, 4)))
        if open_transactions and prng.chance(1, 3):
            bench.end(open_transactions.pop(), commit=prng.chance(1, 2))
    if prng.chance(1, 2):
        while open_transactions:
            bench.end(open_transactions.pop(), commit=prng.chance(1, 2))


def draw_value(prng: Prng) -> bytes | None:
    """A value, or none: a tombstone."""
    return None if prng.chance(1, 4) else b"v%d" % prng.below(1000) * prng.between(1, 6)


def committed_records(log: Log) -> list[Found]:
    """What a read_committed reader is shown of the data below the last stable offset, in order."""
    found: list[Found] = []
    end, offset = log.last_stable_offset, log.log_start_offset
    while offset < end:
        read = log.read(offset, 500, end, at_least_one=True)
        if not read.size_bytes:
            break
        data = b"".join(bytes(chunk) for chunk in read.chunks)  # type: ignore[arg-type]
        found += _shown(log, data)
        offset = read.next_offset
    return found


def _shown(log: Log, data: bytes) -> list[Found]:
    """As a consumer filters: by the aborted transactions that came with the data."""
    found: list[Found] = []
    for position, header in iter_headers(data):
        if header.is_control:
            continue
        if header.is_transactional and _is_aborted(log, header.producer_id, header.base_offset):
            continue
        records = decode_body(data, position, header)
        found += [(record.offset, record.key, record.value) for record in records]
    return found


def _is_aborted(log: Log, producer_id: int, offset: int) -> bool:
    return any(
        entry.producer_id == producer_id and entry.first_offset <= offset <= entry.last_offset
        for segment in log.segments
        for entry in segment.txn_index.entries
    )


def check_same(before: list[Found], after: list[Found], *, cleaned_to: int, may_bury: bool) -> None:
    """Whether a cleaned log says the same: nothing is new, the newest value of each key is there,
    nothing old is back, and beyond the cleaned part all is as it was. With `may_bury` tombstones
    may have gone with what they deleted."""
    assert set(after) <= set(before)
    assert [one[0] for one in after] == sorted({one[0] for one in after})
    newest_before = {record[1]: record for record in before}
    newest_after = {record[1]: record for record in after}
    for key, record in newest_before.items():
        if record[2] is None and may_bury and record[0] < cleaned_to:
            assert newest_after.get(key, record) == record
        else:
            assert newest_after.get(key) == record
    beyond = [record for record in before if record[0] >= cleaned_to]
    assert [record for record in after if record[0] >= cleaned_to] == beyond


def sequences_of(log: Log) -> dict[int, tuple[int, int]]:
    """Where each producer goes on: epoch and last sequence."""
    entries = log.producers.by_id.values()
    return {one.producer_id: (one.producer_epoch, one.last_sequence) for one in entries}


def full(bench: CleaningBench, number: int) -> None:
    """Seals the active segment; its records are committed."""
    bench.put((b"filler-%d" % number, b"x"))
    bench.roll()
    bench.put((b"last-%d" % number, b"x"))
    bench.commit_all()
