"""Questions about topics that wait until this broker can know the answer.

A broker that has just started knows no topics, or those of its former life, until it has applied
the metadata up to its registration. Clients would believe it: librdkafka fails every record of a
topic that is said not to exist, and Kafka's administrator reports it as missing. Kafka's brokers
answer no client before they are unfenced; ours hold what is asked about topics until they have
caught up, for at most `CATCH_UP_MS`. Who has waited for too long is sent away, to ask another
broker.

Each question is held for `HOLD_MS` in any case. A client that loses its leader's connection asks at
once who leads now, often before this node's own connections to the dead process are reported
closed; an answer that still names the dead one costs the client a second (librdkafka looks at
leaders once a second), a moment of patience costs nothing. Nothing that the node knows would say
when that moment is needed: of 29 ends of a survivor's connections after nine kills 19 came after
the end of the client's own, by 0.5 to 36 ms on a busy machine.

Left out: requests whose errors clients take for passing (Produce, Fetch, ListOffsets), and those
that are forwarded to the controller.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.broker.connections import Connections, RequestContext
from tidelog.env.instant import Instant

HOLD_MS: Final = 5
CATCH_UP_MS: Final = 5_000


class _Held(NamedTuple):
    due: Instant
    """When it may be answered."""
    context: RequestContext
    answer: Callable[[Instant], None]


class HeldQuestions:
    """Who waits for an answer."""

    def __init__(self) -> None:
        # In the order in which they came.
        self._waiting: deque[_Held] = deque()

    @property
    def has_any(self) -> bool:
        """Whether any request waits."""
        return bool(self._waiting)

    def hold(
        self, context: RequestContext, answer: Callable[[Instant], None], now: Instant
    ) -> None:
        """`answer` is called, with the time, once this broker knows; not if the client has gone."""
        self._waiting.append(_Held(Instant(now + HOLD_MS), context, answer))

    def answer_due(self, *, caught_up: bool, connections: Connections, now: Instant) -> None:
        """Answers those that were held long enough, or sends them away."""
        patience_ms = 0 if caught_up else CATCH_UP_MS
        while self._waiting and self._waiting[0].due + patience_ms <= now:
            held = self._waiting.popleft()
            if held.context.connection.open and caught_up:
                held.answer(now)
            elif held.context.connection.open:
                connections.drop(held.context.connection)

    def deadline(self, *, caught_up: bool) -> Instant | None:
        """When the oldest is due."""
        if not self._waiting:
            return None
        return Instant(self._waiting[0].due + (0 if caught_up else CATCH_UP_MS))
