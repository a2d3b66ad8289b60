"""Goal: strangers cannot hold more than their share of the node, in number or in time.

Method: handshakes that only count their steps, on a loop whose clock the test moves.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from tidelog.limits import HANDSHAKE_STEPS_PER_TURN
from tidelog.runtime.handshakes import Handshakes


class Loop(asyncio.AbstractEventLoop):
    """Runs what is asked of it when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: list[Callable[[], Any]] = []
        self.later: list[tuple[float, Callable[[], Any]]] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        self.soon.append(callback)

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        self.later.append((self.now + delay, callback))
        return self

    def cancel(self) -> None:
        """Of the one timer that there is."""
        self.later.clear()

    def turn(self) -> None:
        """One iteration."""
        due, self.soon = self.soon, []
        for callback in due:
            callback()

    def advance(self, seconds: float) -> None:
        """Time passes, and timers fire."""
        self.now += seconds
        due = [callback for at, callback in self.later if at <= self.now]
        self.later = [(at, callback) for at, callback in self.later if at > self.now]
        for callback in due:
            callback()


class Stranger:
    """A handshake without end."""

    def __init__(self, handshakes: Handshakes, host: str = "a", *, is_accepted: bool = True):
        self.handshakes, self.host, self.is_accepted = handshakes, host, is_accepted
        self.steps = 0
        self.reason = ""
        handshakes.begin(self)

    def step(self) -> None:
        self.steps += 1

    def cut(self, reason: str) -> None:
        self.reason = reason
        self.handshakes.end(self, done=False)


def test_a_handshake_without_end_is_cut_at_its_deadline() -> None:
    loop = Loop()
    handshakes = Handshakes(loop, timeout_ms=10_000)
    first = Stranger(handshakes)
    loop.advance(6)
    second = Stranger(handshakes)
    loop.advance(4)
    assert (first.reason, second.reason) == ("no end after 10 s", "")
    loop.advance(6)
    assert second.reason
    assert (len(handshakes), handshakes.failed) == (0, 2)


def test_one_more_than_the_bound_cuts_the_oldest() -> None:
    handshakes = Handshakes(Loop(), most=3, most_per_host=2)
    dialled = Stranger(handshakes, is_accepted=False)
    a1, a2, b1 = Stranger(handshakes), Stranger(handshakes), Stranger(handshakes, "b")
    a3 = Stranger(handshakes)
    assert [bool(one.reason) for one in (dialled, a1, a2, b1, a3)] == [0, 1, 0, 0, 0]
    Stranger(handshakes, "c")
    assert [bool(one.reason) for one in (dialled, a2, b1, a3)] == [0, 1, 0, 0]


def test_a_turn_takes_so_many_steps() -> None:
    loop = Loop()
    handshakes = Handshakes(loop)
    strangers = [Stranger(handshakes) for _ in range(2 * HANDSHAKE_STEPS_PER_TURN + 1)]
    for one in strangers:
        handshakes.on_ready(one)
    for expected in (HANDSHAKE_STEPS_PER_TURN, 2 * HANDSHAKE_STEPS_PER_TURN, len(strangers)):
        loop.turn()
        assert sum(one.steps for one in strangers) == expected
    assert not loop.soon


def test_one_that_has_ended_takes_no_more_steps() -> None:
    loop = Loop()
    handshakes = Handshakes(loop)
    one = Stranger(handshakes)
    handshakes.on_ready(one)
    handshakes.end(one, done=True)
    loop.turn()
    assert (one.steps, handshakes.done, handshakes.failed) == (0, 1, 0)


def test_a_node_that_stops_cuts_all() -> None:
    handshakes = Handshakes(Loop())
    strangers = [Stranger(handshakes, is_accepted=way) for way in (True, False)]
    handshakes.cut_all()
    assert not len(handshakes)
    assert all(one.steps == 0 for one in strangers)
