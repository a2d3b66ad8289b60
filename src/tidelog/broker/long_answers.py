"""Answers that are built piece by piece, so that a request about ten thousand partitions does not
make a long turn.

Theory. What an answer costs grows with what was asked for: to look up a partition's offset and to
encode it takes some ten microseconds, to describe the configuration of a topic half a millisecond.
A handler whose work grows so is a generator. It yields the price of what it has just done, and
answers through its context when it has done all. An answer of a few rows is complete in the turn of
its request. A longer one goes on in the turns that follow at once, side by side with others: each
gets a share of a turn, so that a small question does not wait behind a large one.

What an answer mixes: the rows of a long answer are from different instants, each between the
request and the reply. Of one partition a row says what was true once in that time, and that is all
that a client may conclude from Kafka's answers too: a broker looks at the partitions of a request
one after the other, without a lock around all of them, while other threads change them. What must
agree within an answer, a handler takes at its beginning: a metadata image never changes, so an
answer that is made from one is of one instant.

Replies of a connection leave in the order of their requests (`broker/connections.py`); a request
behind a long one is handled meanwhile, as behind any other that waits.

Bound: one answer for each open slot of a connection. One whose connection has gone is given up.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.env.steps import Steps
from tidelog.errors import UnwritableText
from tidelog.limits import ANSWER_SHARE, ANSWER_WORK_PER_TURN

Pieces: TypeAlias = Iterator[int]
"""The work of an answer; each step of it returns its price, in about microseconds."""


class _Answer(NamedTuple):
    context: RequestContext
    name: str
    """The API's, for the step of the turn."""
    pieces: Pieces


class LongAnswers:
    """The answers under way, and what this turn has left for them."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        # In the order of their shares.
        self._waiting: deque[_Answer] = deque()
        # What may still be spent in this turn; below 0 when the last piece was a large one.
        self._left = ANSWER_WORK_PER_TURN
        # The last tick; while any answer waits, the next is due at once.
        self._woken_at = Instant(0)

    def begin(self, context: RequestContext, name: str, pieces: Pieces) -> None:
        """Does a first share of the work, unless others wait for theirs."""
        answer = _Answer(context, name, pieces)
        if self._waiting or self._left <= 0 or not self._go_on(answer):
            self._waiting.append(answer)

    def wake(self, now: Instant) -> None:
        """Continues the answers that wait, until `ANSWER_WORK_PER_TURN` is spent in this turn. New
        answers and those that still wait then have the whole work of the next turn."""
        self._woken_at = now
        while self._waiting and self._left > 0:
            answer = self._waiting.popleft()
            if answer.context.connection.open:
                self._steps.begin(answer.name)
                if not self._go_on(answer):
                    self._waiting.append(answer)
        self._left = ANSWER_WORK_PER_TURN

    def _go_on(self, answer: _Answer) -> bool:
        """Spends a share; returns whether the answer is complete, or cannot be written."""
        share = min(self._left, ANSWER_SHARE)
        try:
            for price in answer.pieces:
                self._left -= price
                share -= price
                if share <= 0:
                    return False
        except UnwritableText:
            answer.context.fill_and_close()
        return True

    def deadline(self) -> Instant | None:
        """At once while any waits."""
        return self._woken_at if self._waiting else None

    def check(self) -> None:
        """Asserts that nothing waits that is answered."""
        for answer in self._waiting:
            assert not answer.context.answered, f"{answer.name} is answered and goes on"
