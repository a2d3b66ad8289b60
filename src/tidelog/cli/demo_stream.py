"""Producing the demo's input through an unmodified client, and keeping the ledger.

The producer is confluent-kafka with `acks=all` and idempotence, settings otherwise as they come.
Every acknowledgement goes to the ledger in the callback that brings it.

The stream is paced: it lasts at least `MIN_STREAM_S`, so that a leader that dies and a node that
comes back do so in mid-stream also when the input is small or the machine is fast.

A failover is measured from the kill to the first acknowledgement, on the watched partition, of a
record handed to the producer after the kill. An earlier record will not do: the dead leader may
have acknowledged it, and its last answers may still be on their way.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidelog.cli.demo_input import Parsed, Unreadable
from tidelog.pipeline.acknowledgements import AcknowledgementLog, sequence_header

MIN_STREAM_S: Final = 8.0
_FLUSH_TIMEOUT_S: Final = 90.0
_MAX_STEP: Final = 256
_MAX_NAP_S: Final = 0.05
_MAX_MESSAGE_BYTES: Final = 1_000_000
_MAX_SHOWN_ERRORS: Final = 5


class Stream:
    """One pass over the input."""

    def __init__(self, bootstrap_servers: str, topic: str, ledger: AcknowledgementLog) -> None:
        # Where the records go, all of them.
        self._topic = topic
        # Every acknowledgement is added here.
        self._ledger = ledger
        # Records handed to the producer; the next one's sequence.
        self.produced = 0
        # Records whose delivery failed for good.
        self.failed = 0
        # The reasons of the first failures.
        self.errors: list[str] = []
        # What was no record, in input order.
        self.unreadable: list[Unreadable] = []
        # The watched partition, when its leader was killed, the first sequence after that.
        self._watched: tuple[int, float, int] | None = None
        # The result of the watch; `None` until there is one.
        self.failover_ms: int | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "partitioner": "murmur2_random",
                "message.max.bytes": _MAX_MESSAGE_BYTES,
                # A dead broker is the point of the demo, not worth a line on the screen.
                "log_level": 0,
                "error_cb": lambda error: None,
            }
        )

    @property
    def acknowledged(self) -> int:
        """Records that the cluster acknowledged."""
        return self._ledger.rows

    @property
    def unreadable_lines(self) -> int:
        """How many input lines became no record."""
        return sum(item.line_count for item in self.unreadable)

    def run(
        self, records: Iterable[Parsed], expected: int, on_progress: Callable[[float], None]
    ) -> None:
        """Hands everything to the producer, at the pace.

        `expected` is about how many records there are. `on_progress` is called every few records
        with the fraction done, at most 1.
        """
        begun = time.monotonic()
        s_per_record = MIN_STREAM_S / max(expected, 1)
        step = max(1, min(_MAX_STEP, expected // 50))
        for number, item in enumerate(records):
            if isinstance(item, Unreadable):
                self.unreadable.append(item)
            else:
                self._produce(item.line, item.key, item.value)
            if number % step == 0:
                on_progress(min(number / max(expected, 1), 1.0))
                self._keep_pace(begun + number * s_per_record)
        on_progress(1.0)

    def flush(self) -> None:
        """Waits until every record is acknowledged or has failed."""
        left = self._serve(self._producer.flush, _FLUSH_TIMEOUT_S)
        if left:
            self.failed += left
            self.errors.append(f"{left} records were not answered in {_FLUSH_TIMEOUT_S:g} s")

    def watch(self, partition: int, killed_at: float) -> None:
        """Starts the failover clock of a partition whose leader was killed just now."""
        self._watched = (partition, killed_at, self.produced)

    def _keep_pace(self, due: float) -> None:
        """Serves callbacks, until the moment when the next records are due."""
        self._serve(self._producer.poll, 0)
        while (ahead := due - time.monotonic()) > 0:
            self._serve(self._producer.poll, min(ahead, _MAX_NAP_S))

    @staticmethod
    def _serve(call: Callable[[float], int], seconds: float) -> int:
        """A call of the client that runs callbacks. When a signal interrupts one of them, the
        client loses the exception (`returned NULL without setting an exception`)."""
        try:
            return call(seconds)
        except SystemError as error:
            raise KeyboardInterrupt from error

    def _produce(self, line: int, key: bytes | None, value: bytes) -> None:
        sequence = self.produced
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=value,
                    key=key,
                    headers=[sequence_header(sequence)],
                    on_delivery=partial(self._on_delivery, sequence),
                )
            except TypeError as error:
                # So the client loses a signal here: it finds fault with a sound header.
                raise KeyboardInterrupt from error
            except BufferError:
                self._serve(self._producer.poll, _MAX_NAP_S)
            except KafkaException as error:
                self.unreadable.append(Unreadable(line, 1, f"cannot be sent: {error.args[0]}"))
                return
            else:
                self.produced += 1
                return

    def _on_delivery(self, sequence: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            if len(self.errors) < _MAX_SHOWN_ERRORS:
                self.errors.append(f"record {sequence}: {error}")
            return
        partition = message.partition()
        self._ledger.add(
            partition=partition,
            offset=message.offset(),
            sequence=sequence,
            key=message.key(),
            value=message.value(),
        )
        if self._watched is not None and partition == self._watched[0]:
            _, killed_at, first = self._watched
            if sequence >= first:
                self.failover_ms = round((time.monotonic() - killed_at) * 1000)
                self._watched = None
