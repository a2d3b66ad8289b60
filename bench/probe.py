"""A producer that never stops: how soon a cluster acknowledges while something else happens to it.

A C client (librdkafka) with acks=all, so the client's own part in a figure stays small. It gives up
on a request after a second and tries it again: with its default of a minute one would measure that
minute wherever a paused node does not close its connections.
"""

import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import NamedTuple

from confluent_kafka import Producer

from tidelog.testing.waiting import wait_until

PATIENCE_S = 300.0
Key = tuple[str, int]
"""A topic and a partition."""


class Ack(NamedTuple):
    """An acknowledgement: when it came (`time.monotonic`), and how long after the record."""

    at: float
    took_s: float

    @property
    def sent(self) -> float:
        """When the record was produced."""
        return self.at - self.took_s


class Probe:
    """See the module's docstring; close it."""

    def __init__(self, bootstrap: str, rounds: Iterable[Sequence[Key]], pause_s: float) -> None:
        """Sends a record to each partition of a round, and begins a round this long after the one
        before. There must be more rounds than it will ever come to."""
        self._producer = probing_producer(bootstrap)
        self._rounds, self._pause_s = rounds, pause_s
        # In the order in which they came.
        self._acks: dict[Key, list[Ack]] = {}
        self._stop = threading.Event()
        # Cleared while it pauses.
        self._going = threading.Event()
        self._going.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for keys in self._rounds:
            self._going.wait()
            if self._stop.is_set():
                return
            began = time.monotonic()
            for key in keys:
                self._send(key)
            while (left := began + self._pause_s - time.monotonic()) > 0:
                self._producer.poll(left)

    def _send(self, key: Key) -> None:
        sent = time.monotonic()

        def on_delivery(error: object, _: object) -> None:
            if error is None:
                now = time.monotonic()
                self._acks.setdefault(key, []).append(Ack(now, now - sent))

        self._producer.produce(key[0], b"x" * 50, partition=key[1], on_delivery=on_delivery)

    def _all(self) -> list[list[Ack]]:
        return [list(acks) for acks in list(self._acks.values())]

    def took_ms(self, percent: int, since: float, until: float = math.inf) -> float:
        """A percentile of the records that were sent before `until` and acknowledged after
        `since`."""
        every = chain.from_iterable(self._all())
        found = [ack.took_s for ack in every if since < ack.at and ack.sent < until]
        return round(quantile(found, percent) * 1000, 1)

    def gaps_s(self, since: float) -> list[float]:
        """Per partition the longest time between two acknowledgements, the second of them since
        then."""
        times = [[ack.at for ack in acks] for acks in self._all()]
        return [max((b - a for a, b in pairwise(each) if b > since), default=0.0) for each in times]

    def wait_for_more(self, count: int) -> None:
        """Until so many more records were acknowledged."""
        goal = sum(map(len, self._all())) + count
        what = f"{count} acknowledgements"
        wait_until(lambda: sum(map(len, self._all())) >= goal, PATIENCE_S, what)

    def wait_for_all(self, partition_count: int, since: float) -> None:
        """Until so many partitions have acknowledged a record that was sent since then."""

        def all_acked() -> bool:
            found = self._all()
            return len(found) == partition_count and all(acks[-1].sent > since for acks in found)

        wait_until(all_acked, PATIENCE_S, "acknowledgements of all watched partitions")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Sends nothing meanwhile."""
        self._going.clear()
        try:
            self._producer.flush(30)
            yield
        finally:
            self._going.set()

    def close(self) -> None:
        """Ends it."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(30)


def probing_producer(bootstrap: str) -> Producer:
    """As in the module's docstring."""
    settings = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": 0,
        "request.timeout.ms": 1000,
        "socket.timeout.ms": 1000,
        "retries": 1_000_000,
        "log_level": 0,
    }
    return Producer(settings)


def quantile(values: Sequence[float], percent: int) -> float:
    """The smallest value that at least so many percent of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
