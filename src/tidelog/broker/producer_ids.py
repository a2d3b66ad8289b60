"""Producer ids for InitProducerId: blocks that the controller hands out.

A broker asks the controller for a block of ids and gives them out one by one. Requests that come
while no id is left wait for the next block. The ids of a block that a stopped broker did not use
are lost. There are 2**63 of them, and every id stays unique.
"""

from collections import deque
from collections.abc import Callable

from tidelog.controller.messages import AllocateProducerIdsResult, Response
from tidelog.env.instant import Instant

Give = Callable[[int, Instant], None]
"""Takes the id, and the time."""

RETRY_INTERVAL_MS = 50


class ProducerIds:
    """The block of this broker and the requests that wait for an id."""

    def __init__(self) -> None:
        # The next id to give out, and the end (exclusive) of the block.
        self._next_id = 0
        self._end_id = 0
        # Requests that wait for a block, in order.
        self._waiting: deque[Give] = deque()
        # Whether a block has been asked for.
        self._in_flight = False
        # When to ask (again).
        self._next_call = Instant(0)

    def request(self, give: Give, now: Instant) -> None:
        """`give` gets an id: at once, or when the next block has come."""
        self._waiting.append(give)
        self._grant(now)

    def wants_block(self, now: Instant) -> bool:
        """Whether to ask the controller now; the outcome must be given to `on_response`."""
        if self._in_flight or not self._waiting or now < self._next_call:
            return False
        if self._next_id < self._end_id:
            return False
        self._in_flight = True
        return True

    def on_response(self, response: Response | None, now: Instant) -> None:
        """A block, or a failure that is retried; requests that waited get their ids."""
        self._in_flight = False
        if isinstance(response, AllocateProducerIdsResult):
            self._next_id = response.first_producer_id
            self._end_id = response.first_producer_id + response.count
        else:
            self._next_call = Instant(now + RETRY_INTERVAL_MS)
        self._grant(now)

    def _grant(self, now: Instant) -> None:
        while self._waiting and self._next_id < self._end_id:
            self._next_id += 1
            self._waiting.popleft()(self._next_id - 1, now)

    def deadline(self) -> Instant | None:
        """When to ask again, if a request waits."""
        if self._waiting and not self._in_flight:
            return self._next_call
        return None
