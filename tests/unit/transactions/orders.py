"""A random order of requests, markers, commits and elections, and what was promised in it."""

from typing import NamedTuple

from tests.unit.rsm.coordinator_rig import Batch, MemoryPartition
from tests.unit.transactions.rig import T0, T1, Rig, add, end, init
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.transactions.messages import Marker, ProducerGranted, Request
from tidelog.transactions.records import Transaction, TransactionRecord, encode
from tidelog.transactions.transitions import EXHAUSTED_EPOCH, LAST_EPOCH

NAMES = ("x", "y")
Key = tuple[int, int]


class Asked(NamedTuple):
    """A question under way; `producer` is that of the client that asks."""

    kind: str
    name: str
    producer: ProducerGranted | None
    partition: TopicPartition = T0
    is_commit: bool = False

    @property
    def key(self) -> Key:
        """The transaction."""
        assert self.producer is not None, f"{self} is of no producer"
        return self.producer.producer_id, self.producer.producer_epoch


class Order:
    """One order. Transactions are of version 2, where each has an epoch of its own."""

    def __init__(self, seed: int) -> None:
        self.prng = Prng(seed)
        self.partition = MemoryPartition()
        if seed % 2:
            self._use_up_epochs()
        self.rig = Rig(self.partition)
        # Partitions that have not got their marker.
        self.wanted: dict[Marker, set[TopicPartition]] = {}
        # What was given to the clients of each name, the newest last.
        self.producers: dict[str, list[ProducerGranted]] = {name: [] for name in NAMES}
        self.asked: dict[int, Asked] = {}
        # By transaction: whether its markers commit it, and the partitions that were acknowledged.
        self.outcomes: dict[Key, bool] = {}
        self.added: dict[Key, set[TopicPartition]] = {}
        # Transactions whose commit was acknowledged, and what new producers were given.
        self.promised: set[Key] = set()
        self.granted: set[Key] = set()

    def _use_up_epochs(self) -> None:
        known = [
            Transaction(producer_id=7 + less, producer_epoch=EXHAUSTED_EPOCH - less, timeout_ms=1)
            for less in (1, 2)
        ]
        records = [encode(TransactionRecord(*each), 1) for each in zip(NAMES, known, strict=True)]
        self.partition.batches.append(Batch(0, 1, 0, records))
        self.partition.high_watermark = 2

    def step(self) -> None:
        """One event, and perhaps a commit and a marker."""
        prng = self.prng
        name = prng.choice(NAMES)
        known = self.producers[name]
        producer = known[-prng.choice((1, 1, 1, 2))] if len(known) > 1 else (*known, None)[0]
        kind = prng.below(14)
        if kind == 0:
            self._send(Asked("init", name, None), init(name))
        elif kind == 1:
            self._elect()
        elif kind < 4:
            self.rig.now = Instant(self.rig.now + prng.choice((1, 300, 1100)))
            self.rig._wake()
        elif producer is not None and kind == 4:
            epochs = {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
            }
            self._send(Asked("init", name, producer), init(name, **epochs))
        elif producer is not None and kind < 9:
            asked = Asked("add", name, producer, prng.choice((T0, T1)))
            self._send(asked, add(producer, asked.partition, name=name))
        elif producer is not None:
            asked = Asked("end", name, producer, is_commit=prng.chance(2, 3))
            self._send(asked, end(producer, commit=asked.is_commit, name=name))
        if prng.chance(2, 3):
            self._follow()
            self.rig.coordinator.on_high_watermark(self.partition.high_watermark, self.rig.now)
            self.rig._settle()
        if prng.chance(1, 2):
            self._write_markers()
        self._look()

    def _send(self, asked: Asked, request: Request) -> None:
        self.asked[self.rig.send(request)] = asked

    def _follow(self) -> None:
        """Replicas have some more of the log."""
        high_watermark = self.partition.high_watermark
        ends = [each.last_offset + 1 for each in self.partition.batches]
        self.partition.high_watermark = self.prng.choice(
            [each for each in ends if each > high_watermark] or [high_watermark]
        )

    def _elect(self) -> None:
        """The next leader may have more than the former one knew to be committed."""
        if self.prng.chance(1, 2):
            self._follow()
        self._look()
        self.asked, self.wanted = {}, {}
        now, next_id = self.rig.now, self.rig.next_id
        self.rig = Rig(self.partition, now=now)
        self.rig.next_id = next_id + 10

    def _write_markers(self) -> None:
        for marker, left in list(self.wanted.items()):
            if left and self.prng.chance(1, 2):
                one = self.prng.choice(sorted(left))
                left.discard(one)
                self.rig.write(marker, one)

    def _look(self) -> None:
        for marker, partitions in self.rig.take_markers():
            self.wanted[marker] = set(partitions)
            key = marker.producer_id, marker.producer_epoch - 1
            assert self.outcomes.setdefault(key, marker.is_commit) == marker.is_commit, marker
            assert marker.is_commit or key not in self.promised, marker
            assert self.added.get(key, set()) <= set(partitions), marker
        for number in [each for each in self.asked if each in self.rig.answers]:
            asked, answer = self.asked.pop(number), self.rig.answers[number]
            if answer.error_code is not ErrorCode.NONE:
                continue
            if asked.kind == "add":
                self.added.setdefault(asked.key, set()).add(asked.partition)
                continue
            assert answer.producer_epoch < LAST_EPOCH, answer
            self.producers[asked.name].append(answer)
            if asked.kind == "end" and asked.is_commit:
                assert self.outcomes.get(asked.key, True), f"{asked} was aborted"
                self.promised.add(asked.key)
            elif asked.producer is None:
                assert answer[1:] not in self.granted, f"{answer} is another one's"
                self.granted.add(answer[1:])

    def finish(self) -> None:
        """Everything comes to its end; what was promised has come true."""
        for _ in range(10):
            self.rig.commit()
            self.rig.advance(1100)
            self._look()
            for marker, left in self.wanted.items():
                self.rig.write(marker, *left)
                left.clear()
        self.rig.commit()
        for _, known in self.rig.coordinator.entries.items():
            assert known.state.is_idle, f"EveryTransactionEnds: {known}"
        for key in self.promised:
            assert self.outcomes.get(key, not self.added.get(key)), f"{key} is not committed"
