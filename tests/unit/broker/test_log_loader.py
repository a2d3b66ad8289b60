"""Goal: a log is loaded to the end, in order; a transaction counts when it commits; and a load that
passes over what is overwritten ends as one that replays every record."""

from itertools import count, takewhile
from typing import Any, NamedTuple

import pytest

from tests.fixtures import kafka_files
from tidelog.broker.log_loader import LogLoader
from tidelog.config import SharesConfig
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.groups.consumer_records import ConsumerRecord, GroupEpoch, Kind, Subscription
from tidelog.groups.image import GroupsImage, GroupsMachine
from tidelog.groups.records import CommittedOffset, GroupRecord, GroupValue, OffsetRecord, encode
from tidelog.groups.share_records import ShareGroupRecord, ShareKind, ShareMember
from tidelog.model import TopicId, TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.control import ControlType, EndTxnMarker, control_record
from tidelog.records.record import Record
from tidelog.rsm import last_values
from tidelog.rsm.kernel import Kernel
from tidelog.rsm.log_records import InTransaction, LogRecord, TransactionEnd
from tidelog.shares.coordinator import ShareCoordinator
from tidelog.shares.records import SharePartition, ShareRecord, Snapshot
from tidelog.shares.records import encode as encode_share
from tidelog.transactions.image import TransactionsImage, TransactionsMachine
from tidelog.transactions.records import Transaction, TransactionRecord

PARTITIONS = TopicPartition("t", 0), TopicPartition("t", 1)


class Batch(NamedTuple):
    """A batch as it lies in a log, and what it says."""

    base_offset: int
    last_offset: int
    data: bytes
    says: list[LogRecord]


class Following:
    """The log of a partition that is not led yet."""

    def __init__(self, end_offset: int) -> None:
        self.end_offset = end_offset

    def append(self, records: Any) -> int:
        raise AssertionError(records)


# Random logs ----------------------------------------------------------------------------------


def drawn(prng: Prng) -> tuple[bytes | None, bytes | None]:
    """A record of one of few groups; keys of offsets are written in two ways."""
    group_id = prng.choice("gh")
    match prng.below(9):
        case 0:
            value = GroupValue("consumer", prng.below(9), None, None, 0, ())
            return encode(GroupRecord(group_id, prng.choice((value, None))))
        case 1:
            epoch = prng.choice((GroupEpoch(prng.between(2, 9)), None))
            return encode(ConsumerRecord(Kind.EPOCH, group_id, "", epoch))
        case 2:
            member = prng.choice((Subscription(client_id=str(prng.below(9))), None))
            return encode(ConsumerRecord(Kind.SUBSCRIPTION, group_id, prng.choice("ab"), member))
        case 3:
            share = prng.choice((ShareMember(client_id=str(prng.below(9))), None))
            return encode(ShareGroupRecord(ShareKind.MEMBER, group_id, prng.choice("ab"), share))
        case 4 if prng.chance(1, 3):
            return prng.choice(((b"\x00\x63", b"of another version"), (None, b"without a key")))
        case _:
            key, value = drawn_offset(prng, group_id)
            return key, prng.choice((value, value, None))


def drawn_offset(prng: Prng, group_id: str) -> tuple[bytes, bytes | None]:
    offset = CommittedOffset(prng.below(1000), metadata="m" * prng.below(30))
    key, value = encode(OffsetRecord(group_id, prng.choice(PARTITIONS), offset))
    return prng.choice((b"\x00\x01", b"\x00\x01", b"\x00\x00")) + key[2:], value


def log_of_groups(prng: Prng) -> list[Batch]:
    """Commits, changes of groups, and transactions of two producers."""
    log: list[Batch] = []
    with_transactions = prng.chance(2, 3)
    for _ in range(prng.between(1, 40)):
        # Compaction leaves gaps.
        base = (log[-1].last_offset + 1 if log else 0) + prng.choice((0, 0, 3))
        producer_id = prng.below(2)
        kind = prng.below(8) if with_transactions else 7
        if kind == 0:
            raw = [drawn_offset(prng, prng.choice("gh")) for _ in range(prng.between(1, 3))]
            says: list[LogRecord] = [InTransaction(each, producer_id, 0) for each in raw]
            log.append(batch_of(base, raw, says, producer_id))
        elif kind < 3:
            log.append(marker(base, producer_id, is_commit=prng.chance(2, 3)))
        else:
            some = [drawn(prng) for _ in range(prng.choice((1, 2, 20)))]
            log.append(batch_of(base, some, [(key, it) for key, it in some if key is not None]))
    if with_transactions and prng.chance(1, 2):
        for producer_id in (1, 0):
            log.append(marker(log[-1].last_offset + 1, producer_id, is_commit=True))
    return log


def batch_of(base: int, raw: Any, says: list[LogRecord], producer_id: int = -1) -> Batch:
    data = build_batch(
        [Record(0, key, value) for key, value in raw],
        base_offset=base,
        leader_epoch=3,
        producer_id=producer_id,
        producer_epoch=min(0, producer_id),
        base_sequence=min(0, producer_id),
        is_transactional=producer_id >= 0,
    )
    return Batch(base, base + len(raw) - 1, data, says)


def marker(base: int, producer_id: int, *, is_commit: bool) -> Batch:
    kind = ControlType.COMMIT if is_commit else ControlType.ABORT
    data = build_batch(
        [control_record(kind, b"\x00\x00\x00\x00\x00\x00", 0)],
        base_offset=base,
        leader_epoch=3,
        producer_id=producer_id,
        producer_epoch=0,
        is_control=True,
        is_transactional=True,
    )
    return Batch(base, base, data, [TransactionEnd(producer_id, 0, EndTxnMarker(is_commit, 0))])


def log_of_transactions(prng: Prng) -> list[Batch]:
    """Changes of few transactional ids."""
    machine, log = TransactionsMachine(), []
    for _ in range(prng.between(1, 40)):
        base = log[-1].last_offset + 1 if log else 0
        records = []
        for _ in range(prng.choice((1, 2, 20))):
            known = Transaction(producer_id=1, producer_epoch=prng.below(99), timeout_ms=10)
            record = TransactionRecord(prng.choice("xyz"), prng.choice((known, known, None)))
            records.append(machine.encode(record))
        log.append(batch_of(base, records, records))
    return log


# Both ways to load ----------------------------------------------------------------------------


def one_by_one(machine: Any, state: Any, log: list[Batch]) -> Any:
    for batch in log:
        for offset, record in enumerate(batch.says, batch.base_offset):
            state = machine.replay(state, [machine.decode(record)], offset, 3)
    return state


def loaded(prng: Prng, machine: Any, initial: Any, log: list[Batch], holds: Any) -> Any:
    """The state after a load in turns: of reading a part, or of replaying some of what is held.
    The high watermark rises meanwhile."""
    end = log[-1].last_offset + 1
    kernel: Any = Kernel(
        machine, Following(end), initial=initial, max_batch_records=1, compacted=True
    )
    loader, upper = LogLoader(0, end), 0
    for _ in takewhile(lambda _: not loader.is_done, count()):
        if not loader.has_more(upper):
            upper = prng.choice([each.last_offset + 1 for each in log if each.last_offset >= upper])
        if loader.reads(upper):
            ahead = [it for it in log if loader.position <= it.last_offset < upper]
            data = b"".join(each.data for each in ahead[: prng.between(1, 6)])
            found = loader.take(data, upper, only_last_counts=holds(kernel.committed))
        else:
            found = loader.take_held(prng.choice((1, 60, 5000)))
        if not found.is_empty:
            kernel.on_committed(found)
            assert kernel.committed_offset < loader.position <= upper
    assert kernel.committed_offset == end - 1
    kernel.become_active(4)
    return kernel.committed


def seen(image: GroupsImage) -> Any:
    """All that the image says but the places in the log of what waits."""
    groups = {}
    for group_id, group in image.groups.items():
        waiting = {
            producer_id: {key: (one.value, one.is_superseded) for key, one in commits.items()}
            for producer_id, commits in group.waiting.items()
            if commits
        }
        groups[group_id] = group.offsets, group.value, group.consumer, group.shares, waiting
    return groups, image.open


@pytest.fixture
def bounds(monkeypatch):
    """Sets how much may be held."""

    def narrow(keys: int, size_bytes: int) -> None:
        monkeypatch.setattr(last_values, "COORDINATOR_HELD_KEYS", keys)
        monkeypatch.setattr(last_values, "COORDINATOR_HELD_BYTES", size_bytes)

    return narrow


@pytest.mark.parametrize("seed", range(400))
def test_groups_are_those_of_a_load_record_by_record(seed, bounds):
    prng = Prng(seed)
    bounds(prng.choice((2, 5, 10_000)), prng.choice((200, 10_000)))
    log = log_of_groups(prng)
    known = one_by_one(GroupsMachine(), GroupsImage(), log)
    found = loaded(prng, GroupsMachine(), GroupsImage(), log, lambda image: image.only_last_counts)
    assert seen(found) == seen(known)


@pytest.mark.parametrize("seed", range(50))
def test_transactional_ids_are_those_of_a_load_record_by_record(seed, bounds):
    prng = Prng(seed)
    bounds(prng.choice((2, 10_000)), 10_000)
    log = log_of_transactions(prng)
    known = one_by_one(TransactionsMachine(), TransactionsImage(), log)
    found = loaded(prng, TransactionsMachine(), TransactionsImage(), log, lambda _: True)
    assert dict(found.transactions.items()) == dict(known.transactions.items())


# What is passed over, and what is not ---------------------------------------------------------


def plain(base: int, *offsets: int) -> Batch:
    raw = [encode(OffsetRecord("g", PARTITIONS[0], CommittedOffset(each))) for each in offsets]
    return batch_of(base, raw, list(raw))


def test_what_is_overwritten_is_not_handed_out():
    loader = LogLoader(0, 6)
    first = loader.take(plain(0, 1, 2).data + plain(2, 3).data, 6, only_last_counts=True)
    assert first.is_empty and loader.has_more(3) and loader.reads(6)
    assert loader.take(plain(3, 4, 5, 6).data, 6, only_last_counts=True).is_empty
    assert not loader.is_done and not loader.reads(6)
    found = loader.take_held(1000)
    assert found[:4] == (0, 5, 3, plain(0, 6).says) and loader.is_done


def test_what_is_held_goes_before_what_a_transaction_wrote():
    """In the turn that meets it as much as this turn has held, the rest in turns of its own."""
    raw = encode(OffsetRecord("g", PARTITIONS[0], CommittedOffset(7)))
    written = batch_of(2, [raw], [InTransaction(raw, 5, 0)], producer_id=5)
    loader = LogLoader(0, 3)
    held = loader.take(plain(0, 1).data + plain(1, 2).data + written.data, 3, only_last_counts=True)
    assert held.records == [*plain(0, 2).says, *written.says] and loader.is_done
    loader = LogLoader(0, 3)
    assert loader.take(plain(0, 1).data + plain(1, 2).data, 3, only_last_counts=True).is_empty
    assert loader.take(written.data, 3, only_last_counts=True).is_empty
    assert loader.position == 2 and not loader.reads(3)
    assert loader.take_held(1000).records == plain(0, 2).says
    assert loader.reads(3)
    found = loader.take(written.data, 3, only_last_counts=True)
    assert found.records == written.says and loader.is_done


def test_nothing_is_held_behind_what_a_transaction_wrote():
    """Whether it is open is known when it was replayed."""
    loader = LogLoader(0, 3)
    end = marker(0, 5, is_commit=True)
    found = loader.take(end.data + plain(1, 1, 2).data, 3, only_last_counts=True)
    assert found.records == [*end.says, *plain(1, 1, 2).says]


def test_while_a_transaction_is_open_each_record_counts():
    """An offset that is deleted does not wait for the transaction any more."""
    raw = encode(OffsetRecord("g", PARTITIONS[0], CommittedOffset(7)))
    machine, image = GroupsMachine(), GroupsImage()
    assert image.only_last_counts
    for record, counts in (
        (InTransaction(raw, 5, 0), False),
        (TransactionEnd(5, 0, EndTxnMarker(True, 0)), True),
    ):
        image = machine.replay(image, [machine.decode(record)], 0, 0)
        assert image.only_last_counts is counts


# Record by record ------------------------------------------------------------------------------


def commit(base: int, group_id: str, offset: int, *, producer_id: int = -1) -> Batch:
    raw = encode(OffsetRecord(group_id, PARTITIONS[0], CommittedOffset(offset)))
    return batch_of(base, [raw], [raw], producer_id)


def replayed(*reads, end):
    """The image after these reads."""
    machine, image, loader = GroupsMachine(), GroupsImage(), LogLoader(0, end)
    for read in reads:
        assert not loader.is_done
        found = loader.take(b"".join(each.data for each in read), end)
        records = [machine.decode(raw) for raw in found.records]
        image = machine.replay(image, records, found.last_offset, found.epoch)
    assert loader.is_done
    return {
        group_id: group.offsets[PARTITIONS[0]].offset
        for group_id, group in image.groups.items()
        if PARTITIONS[0] in group.offsets
    }


def test_batches_are_read_as_one():
    loader = LogLoader(2, 9)
    found = loader.take(commit(4, "g", 1).data + commit(6, "h", 2).data, 9)
    assert (found.base_offset, found.last_offset, found.epoch) == (2, 6, 3)
    assert len(found.records) == 2 and not loader.is_done


def test_a_log_may_begin_in_the_middle_of_a_batch():
    """A share coordinator counts from there what it may delete. Kafka's writes batches of several
    records, and deletes some records of one."""
    partitions = [SharePartition("g", TopicId(bytes(16)), number) for number in range(3)]
    raws = [encode_share(ShareRecord(each, Snapshot())) for each in partitions]
    loader = LogLoader(6, 7)
    found = loader.take(batch_of(4, raws, raws).data, 7)
    coordinator = ShareCoordinator(Following(7), SharesConfig(), Trace(TraceList()), lambda _: 3)
    coordinator.load(found)
    offsets = [coordinator.entries.get(each.key).snapshot_offset for each in partitions]
    assert loader.is_done and offsets == [4, 5, 6]


def test_a_log_may_end_in_what_compaction_has_left_out():
    loader = LogLoader(0, 9)
    loader.take(commit(4, "g", 1).data, 8)
    found = loader.take(b"", 8)
    assert (found.base_offset, found.last_offset, found.records) == (5, 7, [])
    assert not loader.is_done, "what is not committed yet is still to come"
    loader.take(b"", 9)
    assert loader.is_done


def test_a_transaction_counts_from_its_marker_on():
    first = commit(0, "g", 5, producer_id=7), commit(1, "h", 6, producer_id=8)
    assert replayed(first, [commit(2, "g", 4)], end=3) == {"g": 4}
    ends = marker(3, 7, is_commit=True), marker(4, 8, is_commit=False)
    assert replayed(first, ends, end=5) == {"g": 5}


def test_of_two_commits_the_later_one_counts_whenever_the_marker_comes():
    """The plain commit stands behind the transaction's in the log (KIP-447)."""
    end = marker(2, 7, is_commit=True)
    assert replayed([commit(0, "g", 5, producer_id=7)], [commit(1, "g", 4), end], end=3) == {"g": 4}
    assert replayed([commit(0, "g", 4)], [commit(1, "g", 5, producer_id=7), end], end=3) == {"g": 5}


def test_the_offsets_topic_of_kafka_is_loaded():
    """With its transactions, of which some were aborted, and the groups of other protocols."""
    data = kafka_files("node1")["__consumer_offsets-1/00000000000000000000.log"]
    machine, loader = GroupsMachine(), LogLoader(0, 1)
    records = [machine.decode(raw) for raw in loader.take(data, 1).records]
    image = machine.replay(GroupsImage(), records, 0, 0)
    group = image.get("g-classic")
    assert group is not None and group.value is not None
    assert group.offsets[TopicPartition("plain", 0)].offset == 190
    assert group.value.members == ()
