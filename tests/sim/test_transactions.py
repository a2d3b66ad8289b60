"""What a reader of committed data complains of, each by its name."""

import pytest
from tests.sim.test_client_checks import a_view, rejects

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.model import TopicId
from tidelog.records.batch import build_batch
from tidelog.records.control import EndTxnMarker, build_end_txn_marker
from tidelog.records.record import Record
from tidelog.sim.evidence.history import History
from tidelog.sim.workloads.admin import Admin
from tidelog.sim.workloads.transaction_reader import TransactionReader
from tidelog.sim.workloads.transactor import Fate, Transaction, Transactor
from tidelog.wire.fetch import AbortedTransaction, FetchedPartition


def a_bench(*fates: Fate):
    """A transactor `c` with these transactions of two values, and its reader."""
    view = a_view()
    transactor = Transactor(view, Admin(view, History()), Prng(1), flushed=False)
    for number, fate in enumerate(fates, 1):
        values = [f"c:{number}:{index}" for index in range(2)]
        transactor.transactions[number] = Transaction(number, values, fate)
    return transactor, TransactionReader(view, Prng(1), [transactor])


def data(offset: int, value: str) -> bytes:
    return build_batch(
        [Record(1, None, value.encode())],
        base_offset=offset,
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def show(reader, *batches: bytes, aborted: tuple[int, ...] = (), stable: int = 9) -> None:
    """An answer for partition 0; transactions of producer 5 aborted from these offsets on."""
    listed = [AbortedTransaction(5, offset) for offset in aborted]
    size_bytes = sum(map(len, batches))
    reader._take(
        0,
        FetchedPartition(
            "",
            TopicId(bytes(16)),
            0,
            ErrorCode.NONE,
            9,
            stable,
            0,
            list(batches),
            size_bytes,
            aborted=listed,
        ),
    )


def test_what_is_listed_as_aborted_is_left_out():
    transactor, reader = a_bench(Fate.ABORTED, Fate.COMMITTED)
    marker = bytearray(build_end_txn_marker(EndTxnMarker(False, 0), 5, 0, 1))
    marker[7] = 1
    show(reader, data(0, "c:1:0"), bytes(marker), data(2, "c:2:0"), data(3, "c:2:1"), aborted=(0,))
    assert transactor.transactions[2].seen == {"c:2:0", "c:2:1"}
    reader.judge()


def test_a_value_of_an_aborted_transaction_is_read():
    _, reader = a_bench(Fate.ABORTED)
    with rejects("ReadsCommittedOnly"):
        show(reader, data(0, "c:1:0"))


def test_a_zombie_s_value_is_read():
    _, reader = a_bench(Fate.COMMITTED)
    with rejects("ReadsCommittedOnly"):
        show(reader, data(0, "c:1:zombie"))


def test_a_value_is_there_twice():
    _, reader = a_bench(Fate.DOUBTFUL)
    with rejects("ExactlyOnce"):
        show(reader, data(0, "c:1:0"), data(1, "c:1:0"))


def test_an_answer_goes_beyond_the_stable_offset():
    _, reader = a_bench(Fate.COMMITTED)
    with rejects("ReadsBelowLastStableOffset"):
        show(reader, data(3, "c:1:0"), stable=3)


@pytest.mark.parametrize(("fate", "seen"), [(Fate.COMMITTED, ()), (Fate.DOUBTFUL, ("c:1:0",))])
def test_a_part_of_a_transaction_is_missing(fate, seen):
    transactor, reader = a_bench(fate)
    transactor.transactions[1].seen.update(seen)
    with rejects("AtomicTransactions"):
        reader.judge()


def test_the_group_is_elsewhere():
    transactor, reader = a_bench(Fate.DOUBTFUL)
    transactor.transactions[1].has_offsets = True
    transactor.final_offset = 1
    with rejects("OffsetsWithTheirTransaction"):
        reader.judge()
