"""What every coordinator of a partition does, by one that remembers words."""

from collections.abc import Hashable, Sequence
from typing import Any

from tests.unit.rsm.coordinator_rig import CoordinatorRig, MemoryPartition
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_TEXT_BYTES
from tidelog.rsm.coordinator import NOT_COORDINATOR, Coordinator, CoordinatorEnv, ReplyTo
from tidelog.rsm.kernel import Kernel, ReplicatedLog
from tidelog.rsm.log_records import LogRecord
from tidelog.wire.notation import encode_text

Words = tuple[str, ...]


class WordsMachine:
    """State and records are words."""

    def encode(self, record: str) -> LogRecord:
        return b"word", encode_text(record)

    def decode(self, raw: Any) -> str:
        _, value = raw
        return value.decode()

    def replay(self, state: Words, records: Sequence[str], last_offset: int, epoch: int) -> Words:
        return (*state, *records)


class WordsCoordinator(Coordinator[CoordinatorEnv[Words, str, Any], str, Any]):
    """Remembers each word that it is asked to, and answers with all of them."""

    def __init__(self, log: ReplicatedLog[LogRecord], trace: Trace) -> None:
        kernel: Kernel[Words, str, LogRecord, Any] = Kernel(
            WordsMachine(), log, initial=(), max_batch_records=4, compacted=True
        )
        super().__init__(CoordinatorEnv(trace=trace, kernel=kernel))

    @property
    def entries(self) -> Words:
        return self._env.kernel.committed

    def become_active(self, epoch: int, now: Instant) -> None:
        self._env.kernel.become_active(epoch)

    def resign(self) -> None:
        self._env.kernel.resign(NOT_COORDINATOR)
        for reply_to, response in self._env.kernel.take_replies():
            self._env.answer(reply_to, response)

    def _decide(self, request: str, reply_to: ReplyTo, now: Instant) -> None:
        words = (*self._env.kernel.latest, request)
        code = self._env.append([request], words, reply_to)
        if code is not ErrorCode.NONE:
            self._env.answer(reply_to, code)

    def _wake(self, now: Instant) -> None:
        self._env.append(["woken"])

    def deadline(self) -> Instant | None:
        return None

    def _on_committed(self, reply_to: Hashable, response: Any, now: Instant) -> None:
        self._env.answer(reply_to, response)

    def check(self) -> None:
        self._env.kernel.check()


class Rig(CoordinatorRig[WordsCoordinator]):
    def __init__(self, partition: MemoryPartition | None = None) -> None:
        super().__init__(partition, 0)

    def _make(self, trace: Trace) -> WordsCoordinator:
        return WordsCoordinator(self.log, trace)


def test_an_answer_waits_for_the_high_watermark():
    rig = Rig()
    number = rig.send("a")
    assert number not in rig.answers and rig.coordinator.has_uncommitted
    rig.commit()
    assert rig.answers[number] == ("a",) and not rig.coordinator.has_uncommitted


def test_a_new_leader_loads_what_was_committed_and_nothing_else():
    first = Rig()
    first.ask("a")
    first.send("b")
    assert Rig(first.partition).ask("c") == ("a", "c")


def test_who_waits_for_a_deposed_coordinator_is_refused():
    rig = Rig()
    waiting = rig.send("a")
    Rig(rig.partition)
    late = rig.send("b")
    assert rig.answers[late] is ErrorCode.NOT_COORDINATOR and rig.coordinator.is_deposed
    later = rig.send("c")
    assert rig.answers[later] is ErrorCode.NOT_COORDINATOR
    rig.coordinator.resign()
    rig._settle()
    assert rig.answers[waiting] == NOT_COORDINATOR and not rig.coordinator.active


def test_records_that_the_partition_does_not_take_are_refused_and_leave_nothing():
    rig = Rig()
    rig.partition.max_batch_bytes = 10
    assert rig.ask("x" * 20) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert rig.ask("a") == ("a",)


def test_a_text_that_no_record_holds_is_refused_and_leaves_nothing():
    rig = Rig()
    assert rig.ask("x" * (MAX_TEXT_BYTES + 1)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert rig.partition.end_offset == 0
    assert rig.ask("a") == ("a",)


def test_only_an_active_one_does_what_is_due():
    rig = Rig()
    rig.coordinator.resign()
    rig.coordinator.wake(rig.now)
    assert rig.partition.end_offset == 0
    again = Rig(rig.partition)
    again.coordinator.wake(again.now)
    again.commit()
    assert again.coordinator.entries == ("woken",)


def test_wall_time_is_an_offset_that_its_owner_sets():
    rig = Rig()
    rig.coordinator.wall_offset_ms = 500
    assert rig.coordinator._env.wall_ms(Instant(7)) == 507
