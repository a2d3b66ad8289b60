"""Producer state: sequences, epochs, transactions, snapshots in Kafka's form."""

import pytest

from tests.fixtures import KAFKA_WALL_MS, kafka_files
from tests.unit.log.harness import WALL_MS, Producer
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.log.producer_entry import ProducerBatch, ProducerEntry
from tidelog.log.producer_snapshots import SnapshotDamaged, encode_snapshot
from tidelog.log.producer_state import ProducerStates
from tidelog.log.txn_index import AbortedTxn
from tidelog.log.values import AppendOrigin

DAY_MS = 86_400_000


def test_sequences_must_follow() -> None:
    """Goal: next passes, a gap is refused, the very same batch is found again."""
    producer = Producer(ProducerStates())
    assert producer.send(0, 0, count=3) == 0
    assert producer.send(0, 3, count=2) == 3
    assert producer.send(0, 6) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(0, 0, count=3) == 0
    assert producer.send(0, 0, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_only_five_batches_are_remembered() -> None:
    """Goal: the sixth oldest does not count as a duplicate any more but as out of order."""
    producer = Producer(ProducerStates())
    for sequence in range(6):
        producer.send(0, sequence)
    assert producer.send(0, 1) == 1
    assert producer.send(0, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_unknown_producers_may_start_anywhere() -> None:
    """Goal: after expiry or deletion of all its records any first sequence is accepted."""
    assert Producer(ProducerStates()).send(4, 1_000) == 0


@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.COORDINATOR])
def test_an_unknown_producer_has_no_epoch_below_none(origin: AppendOrigin) -> None:
    """Goal: -1 stands for none; below it a batch is refused even where nothing is known."""
    producer = Producer(ProducerStates())
    assert producer.send(-2, 0, origin=origin) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.send(-1, 0, origin=origin) == 0


def test_epochs_fence_and_restart_sequences() -> None:
    """Goal: a lower epoch is INVALID_PRODUCER_EPOCH, a higher one must begin with 0."""
    producer = Producer(ProducerStates())
    producer.send(5, 0)
    assert producer.send(4, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.send(6, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(6, 0) == 1
    assert producer.send(5, 0) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap() -> None:
    """Goal: 2**31 - 1 is followed by 0, also inside a batch, and both are found again."""
    producer = Producer(ProducerStates())
    top = 2**31 - 1
    assert producer.send(0, top - 1, count=3) == 0
    assert producer.send(0, 1) == 3
    assert producer.send(0, top - 1, count=3) == 0
    other = Producer(ProducerStates())
    other.send(0, top)
    assert other.send(0, 0) == 1


def test_a_marker_that_bumps_the_epoch_restarts_sequences() -> None:
    """Goal: after an abort by the coordinator with a new epoch the next sequence is 0."""
    producer = Producer(ProducerStates())
    producer.send(0, 0, transactional=True)
    producer.end(1, commit=False)
    assert producer.send(1, 1, transactional=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(1, 0, transactional=True) == 2


def test_coordinators_are_held_to_epochs_only() -> None:
    """Goal: offset commits of a coordinator carry no sequences."""
    producer = Producer(ProducerStates())
    producer.send(3, 0)
    assert producer.send(3, 0, origin=AppendOrigin.COORDINATOR) == 1
    assert producer.send(2, 0, origin=AppendOrigin.COORDINATOR) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_plain_batches_inside_a_transaction_are_refused() -> None:
    """Goal: INVALID_TXN_STATE while the same producer has a transaction open."""
    producer = Producer(ProducerStates())
    producer.send(0, 0, transactional=True)
    assert producer.send(0, 1) is ErrorCode.INVALID_TXN_STATE
    producer.end(0, commit=True)
    assert producer.send(0, 1) == 2


def test_the_first_unstable_offset() -> None:
    """Goal: the oldest open transaction; ended ones count until the watermark passes them."""
    states = ProducerStates()
    one, two = Producer(states, 1), Producer(states, 2)
    assert states.first_unstable_offset is None
    one.send(0, 0, transactional=True)
    two.send(0, 0, transactional=True)
    assert one.end(0, commit=True) is None
    assert states.first_unstable_offset == 0
    states.on_high_watermark(2)
    assert states.first_unstable_offset == 0
    states.on_high_watermark(3)
    assert states.first_unstable_offset == 1
    assert two.end(0, commit=False) == AbortedTxn(2, 1, 3, 4)
    states.on_high_watermark(4)
    assert states.first_unstable_offset is None
    states.check(4)


def test_an_abort_notes_the_oldest_other_transaction() -> None:
    """Goal: the stable offset in the index is where another transaction still waits."""
    states = ProducerStates()
    one, two = Producer(states, 1), Producer(states, 2)
    one.send(0, 0, transactional=True)
    two.send(0, 0, transactional=True)
    assert two.end(0, commit=False) == AbortedTxn(2, 1, 2, 0)


def test_a_marker_without_data_aborts_nothing() -> None:
    """Goal: an empty transaction leaves no entry."""
    assert Producer(ProducerStates()).end(0, commit=False) is None


def test_idle_producers_expire_unless_in_a_transaction() -> None:
    """Goal: expiry at the limit, never with an open transaction."""
    states = ProducerStates()
    Producer(states, 1).send(0, 0)
    Producer(states, 2).send(0, 0, transactional=True)
    assert states.expire(WALL_MS + DAY_MS - 1, DAY_MS) == 0
    assert states.expire(WALL_MS + DAY_MS - 1, DAY_MS) == 0
    assert states.expire(WALL_MS + DAY_MS, DAY_MS) == 1
    assert list(states.by_id) == [2]


def test_who_writes_does_not_expire_however_old_its_records_are() -> None:
    """Goal: copying old records is not idleness; the first check only looks."""
    states = ProducerStates()
    writer = Producer(states, 1)
    late_ms = WALL_MS + 100 * DAY_MS
    for sequence in range(3):
        writer.send(0, sequence)
        assert states.expire(late_ms, DAY_MS) == 0
    assert states.expire(late_ms, DAY_MS) == 1


def test_who_writes_again_what_was_cut_does_not_expire() -> None:
    """Goal: what a producer of old records wrote behind a cut may end where it ended before. It has
    written since the last check all the same."""
    states = ProducerStates()
    producer = Producer(states)
    assert [producer.send(0, sequence) for sequence in (0, 1)] == [0, 1]
    late_ms = WALL_MS + DAY_MS
    assert states.expire(late_ms, DAY_MS) == 0
    assert states.maybe_rewind_to(1)
    assert producer.send(0, 1) == 1
    assert [states.expire(late_ms, DAY_MS) for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_taken_back_is_as_if_it_never_was(seed: int) -> None:
    """Goal: against replaying what remains: the same epochs, and of each producer's last batches
    all that its client may still send again."""
    prng = Prng(seed)
    states = ProducerStates()
    sent: list[tuple[int, int, int]] = []
    epochs, sequences = [0, 0, 0], [0, 0, 0]
    for _ in range(60):
        each = prng.below(3)
        if prng.below(20) == 0:
            epochs[each], sequences[each] = epochs[each] + 1, 0
        sent.append((each, epochs[each], sequences[each]))
        assert Producer(states, each).send(*sent[-1][1:]) == len(sent) - 1
        sequences[each] += 1
    end = 60 - prng.below(8)
    replayed = ProducerStates()
    for each, epoch, sequence in sent[:end]:
        Producer(replayed, each).send(epoch, sequence)
    before = list(states.by_id.values())
    if not states.maybe_rewind_to(end):
        assert list(states.by_id.values()) == before
        assert states.map_end_offset == 60
        return
    assert states.map_end_offset == end
    for found, expected in zip(list(states.by_id.values()), replayed.by_id.values(), strict=True):
        cut = sum(1 for each, _, _ in sent[end:] if each == found.producer_id)
        assert (found.producer_id, found.producer_epoch) == (
            expected.producer_id,
            expected.producer_epoch,
        )
        assert found.batches == expected.batches[-len(found.batches) :]
        assert len(found.batches) >= min(len(expected.batches), 5 - cut)


def test_what_is_not_known_is_not_taken_back() -> None:
    """Goal: a producer whose remembered batches are all cut, a transaction, a marker: replay."""
    for spoil in ("all cut", "open", "ended"):
        states = ProducerStates()
        for sequence in range(6):
            Producer(states, 1).send(0, sequence)
        other = Producer(states, 2)
        if spoil != "all cut":
            other.send(0, 0, transactional=True)
        if spoil == "ended":
            other.end(0, commit=True)
            states.on_high_watermark(states.map_end_offset)
        end = states.map_end_offset
        assert not states.maybe_rewind_to(1 if spoil == "all cut" else end - 1), spoil
        assert states.map_end_offset == end


def test_loading_forgets_no_producer() -> None:
    """Goal: a producer that copies old records is known after a restart; idle ones expire."""
    data = kafka_files("node1")[f"plain-0/{218:020d}.snapshot"]
    states = ProducerStates()
    states.load_snapshot(data, 218)
    assert len(states.by_id) == 2
    assert states.expire(KAFKA_WALL_MS + 2 * DAY_MS, DAY_MS) == 0
    assert states.expire(KAFKA_WALL_MS + 2 * DAY_MS, DAY_MS) == 2


@pytest.mark.parametrize(
    "entries",
    [
        [ProducerEntry(9), ProducerEntry(9)],
        [ProducerEntry(-1)],
        [ProducerEntry(8, txn_first_offset=3), ProducerEntry(9, txn_first_offset=3)],
        [ProducerEntry(9, txn_first_offset=-5)],
        [ProducerEntry(9, txn_first_offset=7)],
        [ProducerEntry(9, batches=[ProducerBatch(0, 7, 0, 0)])],
    ],
)
def test_a_snapshot_that_no_log_has_is_damaged(entries: list[ProducerEntry]) -> None:
    """Goal: whatever its checksum. Such a file is of another log or offset; readers of committed
    records would wait for a transaction that never ends."""
    states = ProducerStates()
    with pytest.raises(SnapshotDamaged):
        states.load_snapshot(encode_snapshot(entries), 7)
    states.check(7)
    assert not states.by_id
