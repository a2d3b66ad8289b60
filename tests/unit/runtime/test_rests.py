"""Goal: a client that sends little is read in each turn, however much others send.

Method: reads of given sizes, on a loop that runs a turn when the test says so.
"""

from tests.unit.runtime.test_handshakes import Loop
from tidelog.limits import (
    CROWDED_READ_BYTES,
    CROWDED_RESTS,
    ENOUGH_READ_BYTES,
    LARGE_READ_BYTES,
    READ_BUFFER_BYTES,
    RESTS_ENDED_PER_TURN,
)
from tidelog.runtime.rests import Rests

BUFFER = memoryview(bytearray(READ_BUFFER_BYTES))


def read(rests: Rests, size_bytes: int, *, is_client: bool = True) -> bool:
    """Whether a connection rests that has so much."""
    part = rests.part_of(BUFFER, is_client=is_client)
    return rests.is_due(min(size_bytes, len(part)))


def test_a_full_buffer_rests_and_so_does_much_in_a_turn_that_has_read_enough() -> None:
    rests = Rests(Loop())
    assert read(rests, READ_BUFFER_BYTES)
    rests.end_turn()
    assert not read(rests, READ_BUFFER_BYTES - 1)
    assert not read(rests, LARGE_READ_BYTES - 1)
    assert read(rests, ENOUGH_READ_BYTES - READ_BUFFER_BYTES)
    assert not read(rests, LARGE_READ_BYTES - 1)
    rests.end_turn()
    assert not read(rests, LARGE_READ_BYTES)


def test_many_clients_are_read_in_smaller_pieces_and_leaders_are_not() -> None:
    rests = Rests(Loop())
    for _ in range(CROWDED_RESTS + 1):
        assert not read(rests, CROWDED_READ_BYTES)
        rests.end_turn()
        rests.begin(lambda: None, is_client=True)
    assert read(rests, CROWDED_READ_BYTES)
    rests.end_turn()
    assert not read(rests, CROWDED_READ_BYTES, is_client=False)


def test_a_few_clients_are_read_again_in_each_turn_and_leaders_at_once() -> None:
    loop = Loop()
    rests, ended = Rests(loop), list[int]()
    for number in range(3 * RESTS_ENDED_PER_TURN):
        rests.begin(lambda n=number: ended.append(n), is_client=True)  # type: ignore[misc]
    rests.begin(lambda: ended.append(-1), is_client=False)
    loop.turn()
    assert ended == [*range(RESTS_ENDED_PER_TURN), -1]
    loop.turn()
    loop.turn()
    assert sorted(ended) == list(range(-1, 3 * RESTS_ENDED_PER_TURN))
    assert not loop.soon
