"""What a coordinator's log holds: records, some of them written in a client's transaction.

A client may have a coordinator write into its transaction (offsets that it commits together with
the records that it produces). What is written then counts from the transaction's commit on, and
never if it aborts. For the state machine both are records, and it decides what they mean.
"""

from typing import NamedTuple

from tidelog.records.control import EndTxnMarker

RawRecord = tuple[bytes, bytes | None]
"""Key and value as the log has them."""


class InTransaction(NamedTuple):
    """A record that was written in a transaction. A batch has those of one producer only."""

    raw: RawRecord
    producer_id: int
    producer_epoch: int


class TransactionEnd(NamedTuple):
    """A transaction ends in this partition. It has a batch of its own."""

    producer_id: int
    producer_epoch: int
    marker: EndTxnMarker
    bumps_epoch: bool = False
    """Whether the epoch is that of the producer's next transaction (KIP-890)."""


LogRecord = RawRecord | InTransaction | TransactionEnd
"""All that is in a log."""
