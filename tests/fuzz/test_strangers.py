"""NothingBeforeAuthentication and EveryRequestIsAnsweredOrClosed before a login (`strangers`).

`python -m tests.fuzz` tries as many as one wants.
"""

from tests.fuzz.strangers import Door


def test_of_a_stranger_nothing_comes_but_the_answers_of_a_login():
    door = Door()
    door.open(range(4000))
    assert not door.node.broker.connections.unauthenticated
