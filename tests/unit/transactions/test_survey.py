"""Goal: ids that are not used are forgotten, in slices, and no others."""

from tests.unit.transactions.rig import ID, T0, TIMEOUT_MS, Rig, add, end, init
from tidelog.errors import ErrorCode
from tidelog.limits import TRANSACTIONS_PER_TURN
from tidelog.transactions.records import TransactionState

EXPIRES = {"id_expiration_ms": 5000, "expiration_check_interval_ms": 1000}


def test_an_id_that_is_not_used_is_forgotten():
    rig = Rig(**EXPIRES)
    old = rig.begin()
    rig.begin("y")
    rig.advance(4000)
    rig.begin("y")
    rig.advance(2000)
    assert rig.coordinator.entries.get(ID) is None
    assert rig.coordinator.entries.get("y") is not None
    # Its producer is none any more, and the next one has another producer id.
    answer = rig.ask(add(old, T0))
    assert answer.error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert rig.begin().producer_id != old.producer_id


def test_a_transaction_keeps_its_id():
    rig = Rig(**EXPIRES)
    producer = rig.begin(timeout_ms=60_000)
    rig.ask(add(producer, T0))
    rig.advance(10_000)
    assert rig.known().state is TransactionState.ONGOING
    rig.ask(end(producer))
    rig.advance(10_000)
    assert rig.known().state is TransactionState.PREPARE_COMMIT
    rig.write_all()
    rig.advance(6000)
    assert rig.coordinator.entries.get(ID) is None


def test_a_look_goes_in_slices():
    rig = Rig(**EXPIRES)
    count = 3 * TRANSACTIONS_PER_TURN + 1
    for number in range(count):
        rig.send(init(f"x{number}"))
    rig.commit()
    rig = Rig(rig.partition, now=6000, **EXPIRES)
    left = []
    for _ in range(4):
        rig.commit()
        left.append(len(rig.coordinator.entries))
        assert rig.coordinator.deadline() == rig.now or left[-1] == 0
        rig.coordinator.wake(rig.now)
    assert left == [count - TRANSACTIONS_PER_TURN * turn for turn in (1, 2, 3)] + [0]


def test_what_times_out_at_once_is_aborted_in_slices():
    rig = Rig()
    count = 2 * TRANSACTIONS_PER_TURN + 1
    for number in range(count):
        name = f"x{number}"
        rig.ask(add(rig.begin(name), T0, name=name))
    rig.now += 2 * TIMEOUT_MS
    turns = 0
    while len(rig.wanted) < count:
        turns += 1
        rig.coordinator.wake(rig.now)
        rig.commit()
        assert len(rig.wanted) <= turns * TRANSACTIONS_PER_TURN
    assert turns == 3
