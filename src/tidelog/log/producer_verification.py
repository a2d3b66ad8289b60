"""Which transactions of a log the transaction coordinator is being asked about (KIP-890).

A batch that opens a transaction in a log blocks the last stable offset until a marker ends it, and
the coordinator sends a marker only to the partitions that it knows. So the first batch waits until
the coordinator has said that this partition is in the transaction. The answer may be late: if the
transaction has ended meanwhile, its marker is in the log already, and the batch would open one that
no coordinator ends. So each question has a *guard*, one object, that the log forgets with the
marker. The batch may open the transaction only while the log still has the very guard that its
question began with (`VerifiedBeforeOpen`).

The guard also remembers the lowest sequence that it has seen. The producer may have five batches in
flight; if the first of them fails and the second were taken, a log that does not know the producer
would take the second for the beginning, and refuse the first for ever (KAFKA-14920).

Guards are in memory only: after a restart every transaction is asked about again.

Source: KIP-890; Kafka's `VerificationGuard` and `VerificationStateEntry`.
"""

from dataclasses import dataclass

from tidelog.errors import ErrorCode, ProtocolError
from tidelog.records.batch import SEQUENCE_COUNT, BatchHeader


# Compared by identity: a later one of the same producer is another guard.
@dataclass(slots=True, eq=False)
class Guard:
    """A producer whose transaction is being asked about."""

    # The newest that was seen.
    producer_epoch: int
    # Of the batches of that epoch that want to open the transaction.
    lowest_sequence: int
    # Whether the producer gets a new epoch with each transaction, so that sequences begin at 0.
    bumps_epoch: bool
    # Wall time of the first question; expiry counts from it.
    begun_ms: int

    def note(self, producer_epoch: int, sequence: int) -> None:
        """Another batch wants to open the transaction."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch and _comes_before(
            sequence, self.lowest_sequence
        ):
            self.lowest_sequence = sequence


class Guards:
    """The guards of one log, by producer id."""

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: dict[int, Guard] = {}

    def begin(
        self,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        *,
        bumps_epoch: bool,
        wall_ms: int,
    ) -> Guard:
        """The guard of a question about a batch's transaction; a new one if there is none."""
        guard = self.by_id.get(producer_id)
        if guard is None:
            guard = self.by_id[producer_id] = Guard(producer_epoch, sequence, bumps_epoch, wall_ms)
        else:
            guard.note(producer_epoch, sequence)
        return guard

    def is_current(self, producer_id: int, guard: Guard) -> bool:
        """Whether no marker or batch has come in between."""
        return self.by_id.get(producer_id) is guard

    def check_sequence(self, header: BatchHeader, *, is_known: bool) -> None:
        """Raises OUT_OF_ORDER_SEQUENCE_NUMBER for a batch that would open the transaction before
        one that came first. `is_known`: whether the log knows an epoch of the producer."""
        guard = self.by_id.get(header.producer_id)
        if guard is None:
            return
        lowest, sequence = guard.lowest_sequence, header.base_sequence
        if guard.bumps_epoch and not is_known:
            lowest = 0
            comes_first = sequence == 0
        else:
            comes_first = not _comes_before(lowest, sequence)
        if not comes_first:
            sent = f"producer `{header.producer_id}` sent sequence `{sequence}`"
            detail = f"{sent}, its transaction begins at `{lowest}`"
            raise ProtocolError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, detail)

    def on_batch(self, header: BatchHeader) -> None:
        """Forgets a guard when the log has a batch of its transaction, or its end. A producer of
        version 2 begins its next transaction while the marker of the last one is on its way. That
        marker has at most the epoch of the guard, and ends nothing that is asked about."""
        guard = self.by_id.get(header.producer_id)
        if guard is None:
            return
        is_earlier = guard.bumps_epoch and header.producer_epoch <= guard.producer_epoch
        if not (header.is_control and is_earlier):
            del self.by_id[header.producer_id]

    def expire(self, wall_ms: int, expiration_ms: int) -> None:
        """Forgets guards whose batches never came back."""
        old = [
            key for key, guard in self.by_id.items() if wall_ms - guard.begun_ms >= expiration_ms
        ]
        for producer_id in old:
            del self.by_id[producer_id]


def _comes_before(sequence: int, other: int) -> bool:
    """Whether a batch in flight was sent before another one: sequences wrap."""
    return 0 < (other - sequence) % SEQUENCE_COUNT < SEQUENCE_COUNT // 2
