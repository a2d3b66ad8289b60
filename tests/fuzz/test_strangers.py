"""NothingBeforeAuthentication and EveryRequestIsAnsweredOrClosed before a login (`strangers`).

`python -m tests.fuzz` tries as many as one wants.
"""

import pytest

from tests.fuzz.sockets import whole_frames
from tests.fuzz.strangers import Door


def test_of_a_stranger_nothing_comes_but_the_answers_of_a_login():
    door = Door()
    door.open(range(4000))
    assert not door.node.broker.connections.unauthenticated


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        ("00000002aaaa", 1),
        ("00000002aaaa 00000001bb", 2),
        ("00000003aaaa", None),
        ("00000002aaaa 0000", None),
        ("00000000", None),
        ("ffffffff aaaa", None),
    ],
)
def test_of_what_is_not_whole_frames_no_answer_is_expected(data: str, frames: int | None):
    assert whole_frames(bytes.fromhex(data)) == frames
